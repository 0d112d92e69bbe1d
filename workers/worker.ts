import { startCronTick } from '#domain/cron/tick.ts';
import { controlMigrations } from '#domain/control-schema.ts';
import { monthlyCaps } from '#domain/functions/caps.ts';
import { createRunnableLoader } from '#domain/functions/functions.ts';
import { type Platform, openPlatform } from '#domain/platform.ts';
import { type Config, ConfigError } from '#lib/config.ts';
import { type Egress, createEgress } from '#lib/egress.ts';
import type { Log } from '#lib/log.ts';
import { waitForSchema } from '#lib/migrate.ts';
import { type PoolName, poolNames } from '#queues/define.ts';
import { jobs } from '#queues/registry.ts';
import { startEngine } from './engine.ts';
import type { Processors } from './processor.ts';
import { cronFireProcessor } from './processors/cron-fire.ts';
import { functionInvokeProcessor } from './processors/function-invoke.ts';
import { projectProvisionProcessor } from './processors/project-provision.ts';
import { type Runtimes, openRuntimes } from './runtimes/open.ts';
import { databaseService } from './services/database/service.ts';
import { fetchService } from './services/fetch/service.ts';
import { servicesOf } from './services/services.ts';
import { type SweepDeps, startSweeps } from './sweeps.ts';

const isPoolName = (name: string): name is PoolName => (poolNames as readonly string[]).includes(name);

const poolsOf = (config: Config): PoolName[] => {
  const wanted = [...new Set(config.WORKER_QUEUES?.split(',') ?? poolNames)];
  if (wanted.every(isPoolName)) return wanted;
  throw new ConfigError(`WORKER_QUEUES may name ${poolNames.join(', ')}.`);
};

/** The processors for what this worker serves. */
const processorsFor = (platform: Platform, egress: Egress, runtimes: Runtimes | null): Processors => ({
  'project.provision': projectProvisionProcessor(platform),
  'cron.fire': cronFireProcessor({ egress, tenantDb: platform.projects.tenantDb }),
  ...(runtimes && {
    'function.invoke': functionInvokeProcessor({
      load: createRunnableLoader(platform.db, platform.projects.sealer),
      runtimes,
      services: servicesOf([databaseService({ tenantDb: platform.projects.tenantDb }), fetchService({ egress })]),
    }),
  }),
});

/** @throws {Error} when a job of a pool that this worker serves has no processor: the process must not start */
export const checkProcessors = (pools: readonly PoolName[], processors: Processors): void => {
  const missing = jobs.filter((job) => pools.includes(job.pool) && processors[job.type] === undefined);
  if (missing.length > 0) throw new Error(`no processor for ${missing.map((job) => job.type).join(', ')}`);
};

const openEgress = (config: Config, log: Log): Egress => {
  const egress = createEgress({ allow: config.PLINTH_EGRESS_ALLOW, local: config.PLINTH_LOCAL === 'on' });
  if (egress.notice !== null) log.warn(egress.notice);
  return egress;
};

/** What is done each second and each minute, beside jobs. */
const startHousekeeping = (deps: SweepDeps): { readonly stop: () => Promise<void> } => {
  const sweeps = startSweeps(deps);
  const cron = startCronTick({ ...deps, caps: monthlyCaps(deps.config) });
  return {
    stop: async () => {
      await Promise.all([sweeps.stop(), cron.stop()]);
    },
  };
};

/**
 * A worker: takes jobs of its pools until it is stopped. Waits as long as it takes for the database and its schema.
 * @returns how to stop it: no new jobs, the running ones end or are handed back, everything is closed
 */
export const startWorker = async (config: Config, log: Log): Promise<() => Promise<void>> => {
  const pools = poolsOf(config);
  await waitForSchema(config.DATABASE_URL, controlMigrations, log);
  const platform = await openPlatform(config, log);
  const egress = openEgress(config, log);
  const runtimes = pools.includes('functions') ? await openRuntimes(config, egress, log) : null;
  const processors = processorsFor(platform, egress, runtimes);
  checkProcessors(pools, processors);
  const served = jobs.filter((job) => pools.includes(job.pool));
  const engine = await startEngine({ config, log, db: platform.db, jobs, served, processors });
  const { gate, outcomes } = engine.queues;
  const housekeeping = pools.includes('system')
    ? startHousekeeping({ ...platform, config, gate, outcomes, log })
    : null;
  const { sandbox } = processors['function.invoke'] ?? {};
  log.info({ pools, worker_id: engine.workerId, ...(sandbox && { sandbox }) }, 'the worker is ready');
  return async () => {
    await engine.drain();
    await Promise.all([runtimes?.javascript.close(), runtimes?.python?.close(), housekeeping?.stop()]);
    await engine.close();
    await egress.close();
    await platform.close();
  };
};
