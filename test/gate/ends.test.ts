import test, { type ExecutionContext } from 'ava';
import { Redis } from 'ioredis';
import { newId } from '#lib/ids.ts';
import { openRequestRedis } from '#lib/redis.ts';
import { type Delivery, type SendEnd, consume } from '#queues/consumer.ts';
import type { JobOutcome } from '#queues/define.ts';
import { createGate } from '#queues/gate/gate.ts';
import { openReplies, outcomesIn } from '#queues/replies.ts';
import { testEnv } from '#test/support/env.ts';
import { memoryLog } from '#test/support/platform.ts';
import { startProxyTo } from '#test/support/tcp-proxy.ts';
import { until } from '#test/support/until.ts';
import { type GateScene, openGate, projects, type as jobType } from './scene.ts';

const outcome: JobOutcome = { status: 'succeeded', result: '1', error: null };
const waitMs = 30_000;

interface Worker {
  /** Deliveries, in their order. */
  readonly deliveries: readonly Delivery[];
  /** Attempts to send an end that failed. */
  readonly failures: readonly unknown[];
  /** How often it searched for a job. */
  readonly searches: () => number;
  /** How many ends each script carried. */
  readonly endScripts: readonly number[];
  readonly close: () => Promise<void>;
}

interface WorkerPlan {
  readonly slots?: number;
  /** Left out: every run ends at once. */
  readonly run?: (delivery: Delivery) => Promise<void>;
  /** Left out: the ends go to Redis by a connection of the worker's own. */
  readonly redisUrl?: string;
  /** The stream of its callers, by the job. */
  readonly replyTo?: string | null | ((jobId: string) => string | null);
}

/** A worker that runs nothing and ends everything well. */
const startWorker = async (t: ExecutionContext, scene: GateScene, plan: WorkerPlan = {}): Promise<Worker> => {
  const { slots = 3, run = () => Promise.resolve(), redisUrl = testEnv('REDIS_URL'), replyTo = null } = plan;
  const { log } = memoryLog();
  const taking = new Redis(testEnv('REDIS_URL'), { maxRetriesPerRequest: null });
  const sending = openRequestRedis(redisUrl, log);
  await until(() => sending.status === 'ready');
  const { prefix, shard } = scene;
  const rules = {
    globalLimitOf: () => Promise.resolve(null),
    limitsOf: () => Promise.resolve(new Map()),
    pausesOf: () => Promise.resolve([]),
  };
  const gate = createGate({ redis: sending, prefix, types: [jobType], shardCount: 1, rules });
  const [own] = gate.shards(jobType);
  if (own === undefined) throw new Error('there is no queue shard');
  const outcomes = outcomesIn(sending, prefix);
  const replyOf = (jobId: string): string | null => (typeof replyTo === 'function' ? replyTo(jobId) : replyTo);
  const [deliveries, failures]: [Delivery[], unknown[]] = [[], []];
  const sendEnd: SendEnd = async (lease, end, finish) => own.end(lease, await outcomes.textsOf(end), finish);
  const consumer = consume({
    redis: taking,
    prefix,
    shard: shard.shard,
    slots,
    sendEnd,
    process: async (delivery) => {
      deliveries.push(delivery);
      await run(delivery);
      const end = {
        jobId: delivery.lease.id,
        runId: newId(),
        finishedAt: new Date(),
        outcome,
        replyTo: replyOf(delivery.lease.id),
      };
      await delivery.complete?.(end).catch((error: unknown) => failures.push(error));
    },
    onError: (error) => t.log(error),
  });
  await consumer.ready();
  const commands = taking as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>;
  const take = commands['plinthGateTake'];
  let takes = 0;
  commands['plinthGateTake'] = async (...args) => {
    takes += 1;
    return take?.apply(taking, args);
  };
  const senders = sending as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>;
  const send = senders['plinthGateend'];
  const endScripts: number[] = [];
  senders['plinthGateend'] = async (...args) => {
    endScripts.push(Number(args[3]));
    return send?.apply(sending, args);
  };
  const close = async (): Promise<void> => {
    await consumer.close();
    await gate.close();
    for (const redis of [taking, sending]) redis.disconnect();
  };
  t.teardown(close);
  return { deliveries, failures, searches: () => takes, endScripts, close };
};

const isEmpty = async ({ shard }: GateScene): Promise<boolean> =>
  (await shard.queue.getActiveCount()) === 0 && (await shard.leases()).length === 0;

test('an end stores the outcome, tells the caller, frees the place and takes the next job', async (t) => {
  const scene = await openGate(t, { running: 1 });
  const reading = new Redis(testEnv('REDIS_URL'));
  const replies = openReplies(reading, scene.prefix);
  t.teardown(() => replies.close());
  const [project = ''] = projects(1);
  const ids = [newId(), newId(), newId()];
  const waiting = ids.map((id) => replies.wait(id, waitMs).outcome);
  const { deliveries } = await startWorker(t, scene, { slots: 1, replyTo: replies.stream });
  for (const id of ids) await scene.admitOne(project, id);
  t.deepEqual(await Promise.all(waiting), [outcome, outcome, outcome]);
  t.deepEqual(
    deliveries.map(({ lease, isHeld }) => [lease.id, isHeld]),
    ids.map((id) => [id, true]),
  );
  t.true(await isEmpty(scene));
  for (const id of ids) t.is(await scene.redis.exists(`{${scene.prefix}:replies}:outcome:${id}`), 1);
});

test('an end whose answer is lost is sent again: the job ran once, its place is free, and the next one runs', async (t) => {
  const scene = await openGate(t, { running: 1 });
  const { proxy, url } = await startProxyTo(testEnv('REDIS_URL'));
  t.teardown(() => proxy.close());
  const [project = ''] = projects(1);
  const worker = await startWorker(t, scene, {
    slots: 1,
    redisUrl: url,
    run: ({ lease }) => {
      if (lease.id === first) proxy.cutAfter(first);
      return Promise.resolve();
    },
  });
  const first = newId();
  await scene.admitOne(project, first);
  await until(() => worker.failures.length === 1);
  const second = newId();
  await scene.admitOne(project, second);
  await until(() => worker.deliveries.length === 2);
  await until(() => isEmpty(scene));
  t.deepEqual(
    worker.deliveries.map(({ lease }) => lease.id),
    [first, second],
  );
});

/** A run that ends when so many are under way. */
const whenTogether = (count: number) => {
  const all = Promise.withResolvers<void>();
  let started = 0;
  return async (): Promise<void> => {
    started += 1;
    if (started === count) all.resolve();
    await all.promise;
  };
};

test('ends at the same moment share a script, and each slot gets its next job with it', async (t) => {
  const slots = 6;
  const scene = await openGate(t, { running: 100, slots: 100 });
  const worker = await startWorker(t, scene, { slots, run: whenTogether(slots) });
  const [project = ''] = projects(1);
  const ids = await scene.admit(project, 2 * slots);
  await until(() => worker.deliveries.length === ids.length);
  await until(() => isEmpty(scene));
  t.deepEqual(worker.deliveries.map(({ lease }) => lease.id).toSorted(), ids.toSorted());
  t.is(
    worker.endScripts.reduce((sum, ends) => sum + ends, 0),
    ids.length,
  );
  t.true(Math.max(...worker.endScripts) > 1, `scripts with ${worker.endScripts.join(', ')} ends`);
  t.deepEqual(worker.failures, []);
});

test('an end that Redis refuses holds up none that it was sent with', async (t) => {
  const slots = 6;
  const scene = await openGate(t, { running: 100, slots: 100 });
  const [project = ''] = projects(1);
  const ids = Array.from({ length: slots }, newId);
  const noStream = `{${scene.prefix}:replies}:no-stream`;
  await scene.redis.set(noStream, 'text');
  const worker = await startWorker(t, scene, {
    slots,
    run: whenTogether(slots),
    replyTo: (id) => (id === ids[3] ? noStream : null),
  });
  for (const id of ids) await scene.admitOne(project, id);
  await until(() => worker.failures.length === 1);
  t.regex(String(worker.failures[0]), /WRONGTYPE/);
  for (const id of ids) t.is(await scene.redis.exists(`{${scene.prefix}:replies}:outcome:${id}`), 1, id);
  t.deepEqual(await scene.shard.leases(), []);
  await scene.redis.del(noStream);
});

test('scripts that Redis has forgotten are sent again', async (t) => {
  const scene = await openGate(t, { running: 100, slots: 100 });
  const { deliveries } = await startWorker(t, scene, {
    run: async () => {
      await scene.redis.script('FLUSH');
    },
  });
  const [project = ''] = projects(1);
  const ids = await scene.admit(project, 10);
  await until(() => deliveries.length === ids.length);
  await until(() => isEmpty(scene));
  t.deepEqual(deliveries.map(({ lease }) => lease.id).toSorted(), ids.toSorted());
});

test('a delivery whose lease is gone is known as such when it is taken', async (t) => {
  const scene = await openGate(t, { running: 10, slots: 10 });
  const [project = ''] = projects(1);
  const [withdrawn = '', other = ''] = await scene.admit(project, 2);
  await scene.finish(withdrawn);
  const { deliveries } = await startWorker(t, scene);
  await until(() => deliveries.length === 2);
  t.deepEqual(
    new Map(deliveries.map(({ lease, isHeld }) => [lease.id, isHeld])),
    new Map([
      [withdrawn, false],
      [other, true],
    ]),
  );
});

test('an end after a failover is published and hands over nothing until the gate is restored', async (t) => {
  const scene = await openGate(t, { running: 1 });
  const replies = openReplies(new Redis(testEnv('REDIS_URL')), scene.prefix);
  t.teardown(() => replies.close());
  const [project = ''] = projects(1);
  const [first, second] = [newId(), newId()];
  const reply = replies.wait(first, waitMs).outcome;
  const { deliveries, failures } = await startWorker(t, scene, {
    slots: 1,
    replyTo: replies.stream,
    run: async ({ lease }) => {
      if (lease.id !== first) return;
      await scene.admitOne(project, second);
      await scene.redis.hset(`{${scene.prefix}:${jobType}}:gate:conf`, 'server', 'another one');
    },
  });
  await scene.admitOne(project, first);
  t.deepEqual(await reply, outcome);
  t.is(await scene.redis.exists(`{${scene.prefix}:replies}:outcome:${first}`), 1);
  await until(async () => (await scene.shard.queue.getActiveCount()) === 0);
  t.false((await scene.beat()).open);
  t.is(deliveries.length, 1);
  await scene.shard.restore(2, []);
  await scene.beat();
  await until(() => isEmpty(scene));
  t.deepEqual(
    deliveries.map(({ lease }) => lease.id),
    [first, second],
  );
  t.deepEqual(failures, []);
});

test('one job wakes one of several workers', async (t) => {
  const scene = await openGate(t, { running: 100, slots: 100 });
  const workers = [await startWorker(t, scene), await startWorker(t, scene), await startWorker(t, scene)];
  const [project = ''] = projects(1);
  const count = (): number => workers.reduce((sum, { deliveries }) => sum + deliveries.length, 0);
  const run = async (): Promise<void> => {
    const before = count();
    await scene.admit(project, 1);
    await until(async () => count() === before + 1 && (await isEmpty(scene)));
  };
  // Whoever was still about to block for the first time has done so after these.
  for (let job = 0; job < 5; job += 1) await run();
  const allSearches = (): number => workers.reduce((sum, { searches }) => sum + searches(), 0);
  const before = allSearches();
  for (let job = 0; job < 20; job += 1) await run();
  // A wait that ends by itself after 5 s is followed by a search, too: one for each worker.
  t.true(allSearches() - before <= 20 + workers.length, `${allSearches() - before} searches for 20 jobs`);
});
