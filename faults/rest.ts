import { setTimeout as pause } from 'node:timers/promises';
import { faultJobs } from './jobs.ts';
import type { Scene } from './scene.ts';

const pollIntervalMs = 200;

/** Describes the content of a shard; nothing when it is empty. */
const leftInShard = async ({ queues }: Scene, type: string): Promise<string[]> => {
  const left: string[] = [];
  for (const shard of queues.gate.shards(type)) {
    const [leased, running, backlog, [, , , waiting], inBullmq] = await Promise.all([
      shard.inspect.leased(),
      shard.inspect.running(),
      shard.inspect.backlog(10),
      shard.inspect.conf(),
      shard.queue.getJobCounts('wait', 'active', 'delayed', 'prioritized', 'completed', 'failed'),
    ]);
    const known = Object.entries(inBullmq).filter(([, count]) => count > 0);
    if (leased > 0) left.push(`${leased} leases of ${type}`);
    if (Object.keys(running).length > 0) left.push(`run counters of ${type}: ${JSON.stringify(running)}`);
    if (backlog.length > 0 || Number(waiting ?? 0) !== 0)
      left.push(`${waiting} waiting of ${type} (${backlog.length})`);
    for (const [state, count] of known) left.push(`${count} ${type} ${state} in BullMQ`);
  }
  return left;
};

const leftOver = async (scene: Scene): Promise<string[]> => {
  const rows = await scene.db.query<{ status: string; type: string; count: number }>(
    `select type, status, count(*) from jobs where status in ('queued', 'running') group by 1, 2`,
  );
  const shards = await Promise.all(faultJobs.map(({ type }) => leftInShard(scene, type)));
  return [...rows.map(({ count, status, type }) => `${count} rows of ${type} ${status}`), ...shards.flat()];
};

/** Waits until nothing waits or runs any more, anywhere. Answers what is left when the time is over. */
export const untilAtRest = async (scene: Scene, withinMs: number): Promise<readonly string[]> => {
  const deadline = performance.now() + withinMs;
  for (;;) {
    const left = await leftOver(scene).catch((error: unknown) => [`cannot look: ${String(error)}`]);
    if (left.length === 0 || performance.now() > deadline) return left;
    await pause(pollIntervalMs);
  }
};
