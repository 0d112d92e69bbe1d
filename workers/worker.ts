import { controlMigrations } from '#domain/control-schema.ts';
import { createRunnableLoader } from '#domain/functions/functions.ts';
import { type Platform, openPlatform } from '#domain/platform.ts';
import { type Config, ConfigError } from '#lib/config.ts';
import type { Log } from '#lib/log.ts';
import { waitForSchema } from '#lib/migrate.ts';
import { openRequestRedis, openWorkerRedis } from '#lib/redis.ts';
import { type Consumer, consume } from '#queues/consumer.ts';
import { type QueueName, queueNames } from '#queues/define.ts';
import { createProducer } from '#queues/producer.ts';
import { jobs } from '#queues/registry.ts';
import { outcomesIn } from '#queues/replies.ts';
import { functionInvokeProcessor } from './processors/function-invoke.ts';
import { projectProvisionProcessor } from './processors/project-provision.ts';
import { createRecorder } from './recorder.ts';
import { type Processors, type RunJobDeps, runJob } from './run-job.ts';
import { createJavascriptRuntime } from './runtimes/javascript/index.ts';
import type { Runtime } from './runtimes/runtime.ts';
import { SandboxUnavailable, openSandbox } from './runtimes/sandbox.ts';
import { startSweeps } from './sweeps.ts';

const lastWordMs = 1000;

const isQueueName = (name: string): name is QueueName => (queueNames as readonly string[]).includes(name);

const queuesOf = (config: Config): QueueName[] => {
  const wanted = [...new Set(config.WORKER_QUEUES?.split(',') ?? queueNames)];
  if (wanted.every(isQueueName)) return wanted;
  throw new ConfigError(`WORKER_QUEUES may name ${queueNames.join(', ')}.`);
};

const slotsOf = (queue: QueueName, config: Config): number =>
  ({ functions: config.PLINTH_FUNCTION_SLOTS, system: config.PLINTH_SYSTEM_SLOTS })[queue];

const openRuntime = async (config: Config, log: Log): Promise<Runtime> => {
  const local = config.PLINTH_LOCAL === 'on';
  try {
    const sandbox = await openSandbox({ level: config.SANDBOX, local, bwrapPath: config.PLINTH_BWRAP });
    if (sandbox.warning !== null) log.warn(sandbox.warning);
    return await createJavascriptRuntime({ sandbox, maxRunners: config.PLINTH_FUNCTION_SLOTS * 2, spares: 1, log });
  } catch (error) {
    throw error instanceof SandboxUnavailable ? new ConfigError(error.message) : error;
  }
};

/** The processors for what this worker serves. */
const processorsFor = (platform: Platform, runtime: Runtime | null): Processors => ({
  'project.provision': projectProvisionProcessor(platform),
  ...(runtime && {
    'function.invoke': functionInvokeProcessor({
      load: createRunnableLoader(platform.db, platform.projects.sealer),
      javascript: runtime,
    }),
  }),
});

/** @throws {Error} when a job of a queue that this worker serves has no processor: the process must not start */
export const checkProcessors = (queues: readonly QueueName[], processors: Processors): void => {
  const missing = jobs.filter((job) => queues.includes(job.queue) && processors[job.type] === undefined);
  if (missing.length > 0) throw new Error(`no processor for ${missing.map((job) => job.type).join(', ')}`);
};

const consumeAll = (queues: readonly QueueName[], config: Config, deps: RunJobDeps) => {
  const connections = queues.map((queue) => ({ queue, redis: openWorkerRedis(config.REDIS_URL, deps.log) }));
  const consumers: Consumer[] = connections.map(({ queue, redis }) =>
    consume({
      redis,
      prefix: config.PLINTH_REDIS_PREFIX,
      queue,
      slots: slotsOf(queue, config),
      process: (type, message) => runJob(deps, type, message),
      onError: (error) => deps.log.debug({ err: error }, 'the queue reported an error'),
    }),
  );
  return {
    ready: () => Promise.all(consumers.map((consumer) => consumer.ready())),
    close: () => Promise.all(consumers.map((consumer) => consumer.close())),
    disconnect: () => connections.forEach(({ redis }) => redis.disconnect()),
  };
};

/**
 * A worker: takes jobs from its queues until it is stopped. Waits as long as it takes for the database and its schema.
 * @returns how to stop it: no new jobs, the running ones end, everything is closed
 */
export const startWorker = async (config: Config, log: Log): Promise<() => Promise<void>> => {
  const queues = queuesOf(config);
  await waitForSchema(config.DATABASE_URL, controlMigrations, log);
  const platform = await openPlatform(config, log);
  const runtime = queues.includes('functions') ? await openRuntime(config, log) : null;
  const processors = processorsFor(platform, runtime);
  checkProcessors(queues, processors);
  const redis = openRequestRedis(config.REDIS_URL, log);
  const recorder = createRecorder(platform.db, log);
  const outcomes = outcomesIn(redis, config.PLINTH_REDIS_PREFIX);
  const stopping = new AbortController();
  const deps = { db: platform.db, log, outcomes, recorder, processors, signal: stopping.signal };
  const intake = consumeAll(queues, config, deps);
  await intake.ready();
  const days = config.PLINTH_DELETED_PROJECT_DAYS;
  const producer = createProducer(redis, config.PLINTH_REDIS_PREFIX);
  const sweeps = queues.includes('system')
    ? startSweeps({ ...platform, producer, deletedProjectDays: days, log })
    : null;
  log.info({ queues, ...(runtime && { sandbox: runtime.level }) }, 'the worker is ready');
  return async () => {
    // Shortly before the process would end anyway: what still runs can then say how it ended.
    const late = setTimeout(() => stopping.abort(), Math.max(0, config.DRAIN_MS - lastWordMs));
    await intake.close();
    clearTimeout(late);
    await Promise.all([runtime?.close(), sweeps?.stop()]);
    await producer.close();
    intake.disconnect();
    redis.disconnect();
    await platform.close();
  };
};
