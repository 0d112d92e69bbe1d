import { appendFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { openJobs } from '#domain/jobs/open.ts';
import { insertJobs } from '#domain/jobs/store.ts';
import { environment, loadConfig } from '#lib/config.ts';
import { openControlDb } from '#lib/control-db.ts';
import { toServiceError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import { createLog } from '#lib/log.ts';
import { notifyReady, runMain } from '#lib/process.ts';
import { faultJobs, jobOf } from './jobs.ts';
import { type JournalLine, type Load, loadSchema } from './load.ts';

type Queues = ReturnType<typeof openJobs>;

interface Requested {
  readonly key: string;
  readonly job: ReturnType<typeof jobOf>;
  readonly projectId: string;
}

const nth = <T>(list: readonly T[], n: number): T => list[n % list.length] as T;

/** Kinds and projects in turn, so that each project gets every kind. */
const requestedBy = (load: Load, n: number): Requested => ({
  key: `${load.name}-${n}`,
  job: jobOf(nth(load.kinds, n)),
  projectId: nth(load.projects, Math.floor(n / load.kinds.length)),
});

const ask = async (queues: Queues, load: Load, { key, job, projectId }: Requested): Promise<void> => {
  // In one write: what stands in the file stays there, however this process ends.
  const report = (line: JournalLine): void => appendFileSync(load.journal, `${JSON.stringify(line)}\n`);
  const request = { job, projectId, requestId: key, data: { key, ms: load.workMs } };
  try {
    const { id, outcome } = await queues.jobs.run(request, load.waitMs);
    report({ key, what: 'accepted', id, reported: outcome?.status ?? null });
    if (load.way !== 'thrice') return;
    const again = (): Promise<unknown> => queues.gate.admit({ id, type: job.type, projectId }, false);
    await Promise.all([again(), again()]);
  } catch (error) {
    report({ key, what: 'refused', code: toServiceError(error).code });
  }
};

const rowsOnly = async (db: ReturnType<typeof openControlDb>, load: Load): Promise<never> => {
  const rows = Array.from({ length: load.count }, (_, n) => {
    const { key, job, projectId } = requestedBy(load, n);
    const data = JSON.stringify({ key, ms: load.workMs });
    return { id: newId(), projectId, type: job.type, data, maxAttempts: job.maxAttempts, requestId: key };
  });
  await insertJobs(db, rows);
  process.kill(process.pid, 'SIGKILL');
  return new Promise(() => undefined);
};

/** A process that accepts jobs as the API does. */
await runMain(async () => {
  const load = loadSchema.parse(JSON.parse(process.argv[2] ?? ''));
  const config = loadConfig(environment());
  const log = createLog({ level: config.PLINTH_LOG_LEVEL, format: 'json', process: load.name });
  const db = openControlDb({ url: config.DATABASE_URL, connections: config.PLINTH_DATABASE_POOL, log });
  const queues = openJobs({ config, log, db, jobs: faultJobs });
  while (queues.redis.status !== 'ready') await pause(10);
  notifyReady();
  await pause(load.startAfterMs);
  if (load.way === 'rows') await rowsOnly(db, load);
  const requested: Promise<void>[] = [];
  for (let n = 0; n < load.count; n += 1) {
    requested.push(ask(queues, load, requestedBy(load, n)));
    await pause(load.everyMs);
  }
  await Promise.all(requested);
  await queues.close();
  await db.close();
  process.exit(0);
});
