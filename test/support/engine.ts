import type { ExecutionContext } from 'ava';
import { z } from 'zod';
import { systemActor } from '#domain/audit/actor.ts';
import { type Queues, openJobs } from '#domain/jobs/open.ts';
import type { Jobs } from '#domain/jobs/jobs.ts';
import type { Config } from '#lib/config.ts';
import { type ControlDb, openControlDb } from '#lib/control-db.ts';
import { newId, newOrgId, newProjectRef } from '#lib/ids.ts';
import type { Log } from '#lib/log.ts';
import { type JobDefinition, type JobOutcome, defineJob } from '#queues/define.ts';
import { type Engine, startEngine } from '#workers/engine.ts';
import type { JobContext, Processor, Processors } from '#workers/processor.ts';
import { createTestDatabase } from './databases.ts';
import { type Settings, memoryLog, removeRedisKeys, testConfig } from './platform.ts';
import { until } from './until.ts';

const server = '00000000-0000-7000-8000-000000000001';

/** A project's row, with nothing behind it. */
export const insertProject = async (db: ControlDb, plan = 'free'): Promise<string> => {
  const [id, org] = [newId(), newOrgId()];
  await db.transaction(async (tx) => {
    await tx.query('insert into organizations (id, name) values ($1, $1)', [org]);
    await tx.query(
      `insert into projects (id, ref, org_id, server_id, name, slug, plan, status, db_name, data_key)
       values ($1, $2, $3, $4, 'p', 'p', $5, 'active', $2, '')`,
      [id, newProjectRef(), org, server, plan],
    );
  }, systemActor);
  return id;
};

const shape = {
  pool: 'system',
  data: z.unknown(),
  result: z.unknown(),
  running: { free: 2, pro: 10, enterprise: 50 },
  plural: 'Jobs',
  maxAttempts: 3,
  timeoutMs: 60_000,
  capped: true,
} as const;

/** Jobs of tests: what runs in them is the test's own. */
export const testJobs = {
  /** Begun again when its worker dies. */
  steady: defineJob({ ...shape, type: 'test.steady', repeatable: true }),
  /** Runs once, whatever happens. */
  once: defineJob({ ...shape, type: 'test.once', repeatable: false }),
  hasty: defineJob({ ...shape, type: 'test.hasty', repeatable: true, timeoutMs: 200 }),
} as const;

const definitions: readonly JobDefinition[] = Object.values(testJobs);

export const succeeded = (result: unknown = null): JobOutcome => ({
  status: 'succeeded',
  result: JSON.stringify(result),
  error: null,
});

interface EngineRow {
  readonly id: string;
  readonly project_id: string;
  readonly type: string;
  readonly status: string;
  readonly attempt: number;
  readonly crashes: number;
  readonly progress: number | null;
  readonly result: string | null;
  readonly error_code: string | null;
  readonly run_id: string | null;
  readonly worker_id: string | null;
  readonly next_run_at: Date | null;
  readonly started_at: Date | null;
  readonly finished_at: Date | null;
}

/** The engine with an own control database and own Redis keys; workers in this process, with the test's processors. */
export interface EngineScene {
  readonly config: Config;
  readonly log: Log;
  readonly logged: () => string;
  readonly db: ControlDb;
  readonly queues: Queues;
  readonly jobs: Jobs;
  /** Stopped with the scene, unless the test stops it. */
  readonly startWorker: (run: Processor['run'] | Processor, settings?: Partial<Config>) => Promise<Engine>;
  /** Accepts a job and does not wait for it. */
  readonly accept: (job: JobDefinition, projectId?: string, data?: unknown) => Promise<string>;
  readonly row: (id: string) => Promise<EngineRow>;
  /** The row once it is in that state. */
  readonly rowWhen: (id: string, status: string) => Promise<EngineRow>;
}

const processorsOf = (run: Processor['run'] | Processor): Processors => {
  const processor = typeof run === 'function' ? { run } : run;
  return Object.fromEntries(definitions.map(({ type }) => [type, processor]));
};

const rowsIn = (db: ControlDb): Pick<EngineScene, 'row' | 'rowWhen'> => {
  const row = async (id: string): Promise<EngineRow> => {
    const [found] = await db.query<EngineRow>('select * from jobs where id = $1', [id]);
    if (found === undefined) throw new Error(`there is no job ${id}`);
    return found;
  };
  return {
    row,
    rowWhen: (id, status) =>
      until(async () => {
        const now = await row(id);
        return now.status === status && now;
      }),
  };
};

export const openEngine = async (t: ExecutionContext, settings: Settings = {}): Promise<EngineScene> => {
  const database = await createTestDatabase();
  const config = testConfig(database.url, settings);
  const { log, text } = memoryLog();
  const db = openControlDb({ url: database.url, connections: 10, log });
  const queues = openJobs({ config, log, db, jobs: definitions });
  const engines = new Set<Engine>();
  t.teardown(async () => {
    await Promise.all([...engines].map((engine) => engine.drain()));
    await Promise.all([...engines].map((engine) => engine.close()));
    await queues.close();
    await db.close();
    await removeRedisKeys(config);
    await database.drop();
  });
  await until(() => queues.redis.status === 'ready');
  return {
    config,
    log,
    logged: text,
    db,
    queues,
    jobs: queues.jobs,
    ...rowsIn(db),
    accept: async (job, projectId = newId(), data = null) =>
      (await queues.jobs.run({ job, projectId, requestId: 'r1', data }, 0)).id,
    startWorker: async (run, own = {}) => {
      const workerConfig = { ...config, DRAIN_MS: 1500, ...own };
      const engine = await startEngine({
        config: workerConfig,
        log,
        db,
        jobs: definitions,
        processors: processorsOf(run),
      });
      const once = stoppedOnce(engine);
      engines.add(once);
      return once;
    },
  };
};

/** A test may stop a worker itself; the scene's end then finds nothing to do. */
const stoppedOnce = (engine: Engine): Engine => {
  let drained: Promise<void> | undefined;
  let closed: Promise<void> | undefined;
  return {
    ...engine,
    drain: () => (drained ??= engine.drain()),
    close: () => (closed ??= engine.close()),
  };
};

/** Runs that end when the test says so, or when they are told to stop. */
export const heldRuns = () => {
  const contexts: JobContext[] = [];
  const open = Promise.withResolvers<void>();
  return {
    contexts,
    release: () => open.resolve(),
    run: async (_data: unknown, context: JobContext): Promise<JobOutcome> => {
      contexts.push(context);
      const stopped = new Promise<void>((resolve) =>
        context.signal.addEventListener('abort', () => resolve(), { once: true }),
      );
      await Promise.race([open.promise, stopped]);
      if (context.signal.aborted)
        return { status: 'failed', result: null, error: { code: 'error', message: 'stopped' } };
      return succeeded('held');
    },
  };
};
