import { openAi } from '#domain/ai/ai.ts';
import { startCronTick } from '#domain/cron/tick.ts';
import { controlMigrations } from '#domain/control-schema.ts';
import { enqueueLimitsFrom } from '#domain/functions/enqueue.ts';
import { enqueueOnce } from '#domain/functions/enqueue-once.ts';
import { keepJobs } from '#domain/functions/job-outbox.ts';
import { monthlyCaps } from '#domain/functions/functions.ts';
import { createRunnableLoader } from '#domain/functions/runnables.ts';
import type { ChangeListeners } from '#domain/database/database.ts';
import { startUpgrades } from '#domain/database-servers/upgrade.ts';
import { createTransports } from '#domain/email/transports.ts';
import { type WaitingMarks, createDirtyMarks, createWaitingMarks } from '#domain/events/marks.ts';
import { type Flags, type FlagsOptions, openFlags } from '#domain/flags/open.ts';
import { startFlagTick } from '#domain/flags/schedules.ts';
import { type Platform, openPlatform } from '#domain/platform.ts';
import { createDataDb } from '#domain/data-api/postgres-db.ts';
import { waitingBytesFrom } from '#domain/projects/plans.ts';
import { projectUrl } from '#domain/projects/rest-url.ts';
import { byIndexOnly } from '#domain/jobs/store.ts';
import { findProject } from '#domain/projects/store.ts';
import { createRemovalMarks } from '#domain/storage/marks.ts';
import { openBytes } from '#domain/storage/bytes.ts';
import { type Config, ConfigError } from '#lib/config.ts';
import { type ControlDb, openControlDb } from '#lib/control-db.ts';
import { type Egress, createEgress } from '#lib/egress.ts';
import { type JsonParser, createJsonParser } from '#lib/json-parser.ts';
import type { Log } from '#lib/log.ts';
import { waitForSchema } from '#lib/migrate.ts';
import type { StorageDriver } from '#lib/object-store/object-store.ts';
import { ownAddress } from '#lib/own-address.ts';
import { openRequestRedis, openWorkerRedis } from '#lib/redis.ts';
import { type JobDefinition, type PoolName, poolsFault, poolsOf } from '#queues/define.ts';
import type { Gate } from '#queues/gate/types.ts';
import { jobs } from '#queues/registry.ts';
import { announceCalls } from '#domain/logs/announce.ts';
import { type Signals, type Subscriber, signalsOn } from '#queues/signals.ts';
import { startEngine } from './engine.ts';
import type { Processors } from './processor.ts';
import type { ProcessorDeps } from './processors/deps.ts';
import { openProcessors } from './processors/registry.ts';
import { type Runtimes, openRuntimes } from './runtimes/open.ts';
import { answerService } from './services/answer/service.ts';
import { databaseService } from './services/database/service.ts';
import { jobService } from './services/jobs.ts';
import { eventService } from './services/events.ts';
import { flagService } from './services/flags.ts';
import { fetchService } from './services/fetch/service.ts';
import { storageService, type StorageServiceDeps } from './services/storage/service.ts';
import { createStepRecorder } from './services/steps/recorder.ts';
import { stepService } from './services/steps/service.ts';
import { servicesOf } from './services/services.ts';
import { startMailSender } from './mail/sender.ts';
import { openPlatformMailServer } from './mail/server.ts';
import { startRelay } from './relay/relay.ts';
import { type SweepDeps, startSweeps } from './sweeps.ts';
import { startSubscriptions } from './subscriptions.ts';
import { startTenantWatch } from './tenant-watch.ts';
import { openDeliveries } from './webhooks/open.ts';

/** One for what is recorded, and one for what runs load. */
const stepConnections = 2;

/** Notifies the other processes of jobs' changes in project databases. */
type WorkerSignals = Pick<Signals, 'notify' | 'deliver' | 'announceLines'>;

const openChangeListeners = (
  config: Config,
  log: Log,
): Required<ChangeListeners> & WaitingMarks & WorkerSignals & { readonly close: () => void } => {
  const redis = openRequestRedis(config.REDIS_URL, log);
  const prefix = config.PLINTH_REDIS_PREFIX;
  const { notify, deliver, announceLines } = signalsOn(redis, prefix);
  return {
    schemas: { changed: (projectId) => void notify({ about: 'schema', projectId }) },
    events: createDirtyMarks({ redis, prefix, log }),
    ...createWaitingMarks({ redis, prefix, log }),
    notify,
    deliver,
    announceLines,
    close: () => redis.disconnect(),
  };
};

type Opened = Pick<ProcessorDeps, 'egress' | 'transports' | 'gateway' | 'recorder'> & {
  readonly bytes: StorageDriver;
  readonly platform: Platform;
  readonly runtimes: Runtimes | null;
  readonly listeners: Required<ChangeListeners> & WaitingMarks & Pick<WorkerSignals, 'deliver' | 'announceLines'>;
  readonly flags: Flags;
  readonly stepsDb: ControlDb;
  /** Opened by the engine, which starts later. */
  readonly late: { readonly gate?: Gate };
};

/** The files of projects, for their functions. */
const storageDepsOf = (
  config: Config,
  log: Log,
  { platform: { db, projects }, listeners: { events }, bytes }: Pick<Opened, 'platform' | 'listeners' | 'bytes'>,
): StorageServiceDeps => ({
  storage: {
    data: createDataDb({ tenantDb: projects.tenantDb, schemaVersion: () => 'storage' }),
    bytes,
    sealer: projects.sealer,
    config,
    markDirty: (projectId) => void events?.markDirty(projectId),
    markRemoved: createRemovalMarks(db, { log, keepHours: config.PLINTH_KEEP_REMOVED_FILES_HOURS }),
  },
  findProject: (id) => findProject(db, id),
  restUrlOf: (ref) => projectUrl(ref, config, ownAddress(config)),
});

const processorDepsOf = (
  config: Config,
  log: Log,
  { platform, runtimes, listeners, flags, bytes, late, stepsDb, ...opened }: Opened,
): ProcessorDeps => {
  const { tenantDb, sealer } = platform.projects;
  const limits = enqueueLimitsFrom(config);
  const storage = storageDepsOf(config, log, { platform, listeners, bytes });
  const admit: Gate['admit'] = async (...args) => late.gate?.admit(...args) ?? 'full';
  return {
    ...platform,
    ...listeners,
    ...opened,
    log,
    tenantDb,
    local: config.PLINTH_LOCAL === 'on',
    baseUrl: ownAddress(config),
    answerMs: config.PLINTH_SMTP_ANSWER_MS,
    files: { bytes, keepHours: config.PLINTH_KEEP_REMOVED_FILES_HOURS, config },
    storage: storage.storage,
    load: createRunnableLoader(platform.db, sealer),
    runtimes: runtimes ?? {},
    enqueueOnce: (projectId, order) => enqueueOnce({ db: platform.db, gate: { admit }, log, limits }, projectId, order),
    services: servicesOf([
      databaseService({ tenantDb, ...listeners, jobs: { db: platform.db, limits } }),
      fetchService({ egress: opened.egress }),
      flagService({ flags }),
      jobService({ db: platform.db, gate: () => late.gate, log, limits }),
      eventService({ db: platform.db, markWaiting: listeners.markWaiting }),
      storageService(storage),
      answerService,
      stepService,
    ]),
    steps: createStepRecorder({
      ...platform,
      stepsDb,
      log,
      limits: { runs: config.PLINTH_SLEEPING_RUNS, bytes: waitingBytesFrom(config) },
    }),
  };
};

const openWorkerFlags = (
  config: Config,
  log: Log,
  { db, sealer }: Platform,
  of: Pick<FlagsOptions, 'isSubscribed' | 'signals'>,
): Flags => openFlags({ config, log, db, sealer, ...of });

/** Changes of other processes are loaded anew, or what is known is forgotten. */
const followNotices = (
  subscriber: Pick<Subscriber, 'onNotice'>,
  {
    flags,
    ai,
  }: {
    readonly flags: Pick<Flags, 'noteChange'>;
    readonly ai: { readonly keys: { readonly forget: (projectId: string) => void } };
  },
): Promise<void> =>
  subscriber.onNotice(({ about, projectId }) =>
    about === 'flags' ? flags.noteChange(projectId) : ai.keys.forget(projectId),
  );

const openTransports = (config: Config, { db }: Platform, egress: Egress) =>
  createTransports({
    db,
    egress,
    local: config.PLINTH_LOCAL === 'on',
    timeouts: { answerMs: config.PLINTH_SMTP_ANSWER_MS },
  });

/** The processors of the job types that this worker serves. */
const processorsFor = (served: readonly JobDefinition[], deps: ProcessorDeps): Processors => {
  const types = new Set(served.map(({ type }) => type));
  const entries = Object.entries(openProcessors).filter(([type]) => types.has(type));
  return Object.fromEntries(entries.map(([type, open]) => [type, open(deps)]));
};

/** @throws {Error} when a job of a pool that this worker serves has no processor: the process must not start */
export const checkProcessors = (pools: readonly PoolName[], processors: Processors): void => {
  const missing = jobs.filter((job) => pools.includes(job.pool) && processors[job.type] === undefined);
  if (missing.length > 0) throw new Error(`no processor for ${missing.map((job) => job.type).join(', ')}`);
};

/** Its statements are planned once and read by index only, however small the tables were then. */
const openStepsDb = (config: Config, log: Log): ControlDb =>
  openControlDb({ url: config.DATABASE_URL, connections: stepConnections, log, settings: byIndexOnly });

const openEgress = (config: Config, log: Log): Egress => {
  const egress = createEgress({ allow: config.PLINTH_EGRESS_ALLOW, local: config.PLINTH_LOCAL === 'on' });
  if (egress.notice !== null) log.warn(egress.notice);
  return egress;
};

/**
 * Large backlogs of events are worked off at a low priority, over two connections that the relay and the fan-out share:
 * at the usual priority they took both processors from everybody else (decision 043).
 */
const openBacklogDb = (config: Config, log: Log): ControlDb =>
  openControlDb({ url: config.DATABASE_URL, connections: 2, log, isLowPriority: true });

/** Periodic work each second and each minute, beside jobs. */
const startHousekeeping = (
  deps: SweepDeps &
    Pick<Platform, 'servers' | 'projects' | 'sealer'> & {
      readonly backlogDb: ControlDb;
      readonly onStored: () => void;
      readonly flags: Pick<Flags, 'changed'>;
      readonly json: JsonParser;
    },
): { readonly stop: () => Promise<void> } => {
  const sweeps = startSweeps(deps);
  const cron = startCronTick({ ...deps, caps: monthlyCaps(deps.config) });
  const flagTick = startFlagTick({ ...deps, changed: deps.flags.changed, onEvents: deps.onStored });
  const watch = startTenantWatch(deps);
  const upgrades = startUpgrades({ ...deps, sealer: deps.projects.sealer });
  const subscriptions = startSubscriptions(deps);
  const mail = startMailSender({
    ...deps,
    server: openPlatformMailServer(deps.config),
    keepText: deps.config.PLINTH_LOCAL === 'on',
    answerMs: deps.config.PLINTH_SMTP_ANSWER_MS,
  });
  const relay = startRelay({
    ...deps,
    redis: openWorkerRedis(deps.config.REDIS_URL, deps.log),
    prefix: deps.config.PLINTH_REDIS_PREFIX,
    maxIdleConnections: deps.config.PLINTH_RELAY_CONNECTIONS,
    keepJobs: (projectId, text) => keepJobs({ ...deps, limits: enqueueLimitsFrom(deps.config) }, projectId, text),
  });
  return {
    stop: async () => {
      const parts = [sweeps, cron, flagTick, relay, subscriptions, mail, watch, upgrades];
      await Promise.all(parts.map((part) => part.stop()));
    },
  };
};

/**
 * A worker: takes jobs of its pools until it is stopped. Waits as long as it takes for the database and its schema.
 * @returns how to stop it: no new jobs, the running ones end or are handed back, everything is closed
 */
export const startWorker = async (config: Config, log: Log): Promise<() => Promise<void>> => {
  const pools = poolsOf(config.WORKER_QUEUES);
  if (pools === null) throw new ConfigError(poolsFault);
  await waitForSchema(config.DATABASE_URL, controlMigrations, log);
  const platform = await openPlatform(config, log);
  const backlogDb = openBacklogDb(config, log);
  const egress = openEgress(config, log);
  const runtimes = pools.includes('functions') ? await openRuntimes(config, egress, log) : null;
  const listeners = openChangeListeners(config, log);
  const transports = openTransports(config, platform, egress);
  const deliveries = openDeliveries({ platform, backlogDb, config, log });
  // The timers of the engine, which starts later.
  let subscribers: Pick<Subscriber, 'isSubscribed'> | undefined;
  const isSubscribed = (): boolean => subscribers?.isSubscribed() ?? false;
  const [json, onEnded] = [createJsonParser(), announceCalls(listeners)];
  const ai = await openAi({ config, platform, egress, redis: null, json, isSubscribed, onEnded, log });
  const served = jobs.filter((job) => pools.includes(job.pool));
  const flags = openWorkerFlags(config, log, platform, { isSubscribed, signals: listeners });
  const [gateway, bytes] = [ai.gateway, await openBytes(config)];
  const { recorder } = deliveries;
  const late: { gate?: Gate } = {};
  const stepsDb = openStepsDb(config, log);
  const opened = { platform, egress, runtimes, listeners, transports, gateway, recorder, flags, bytes, late, stepsDb };
  const processors = processorsFor(served, processorDepsOf(config, log, opened));
  checkProcessors(pools, processors);
  const engine = await startEngine({
    config,
    log,
    db: platform.db,
    jobs,
    served,
    processors,
    onEvents: () => listeners.markWaiting(),
  });
  const { gate, outcomes, subscriber } = engine.queues;
  late.gate = gate;
  await followNotices(subscriber, { flags, ai });
  subscribers = subscriber;
  const common = { ...platform, config, log, bytes };
  const housekeeping = pools.includes('system')
    ? startHousekeeping({ ...common, backlogDb, gate, outcomes, flags, json, onStored: listeners.markWaiting })
    : null;
  if (pools.includes('webhooks')) deliveries.start(gate);
  const { sandbox } = processors['function.invoke'] ?? {};
  log.info({ pools, worker_id: engine.workerId, ...(sandbox && { sandbox }) }, 'the worker is ready');
  ai.warmUp();
  return async () => {
    await engine.drain();
    const { javascript, python } = runtimes ?? {};
    await Promise.all([javascript?.close(), python?.close(), housekeeping?.stop(), deliveries.stop()]);
    await engine.close();
    await flags.stop();
    transports.close();
    await ai.close();
    await json.close();
    await egress.close();
    listeners.close();
    await Promise.all([backlogDb.close(), stepsDb.close()]);
    await platform.close();
  };
};
