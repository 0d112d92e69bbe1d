import { startCronTick } from '#domain/cron/tick.ts';
import { openQueues } from '#domain/jobs/open.ts';
import { environment, loadConfig } from '#lib/config.ts';
import { openControlDb } from '#lib/control-db.ts';
import { createLog } from '#lib/log.ts';
import { notifyReady, runMain } from '#lib/process.ts';
import { faultJobs } from './jobs.ts';

/** A process that does nothing but fire schedules, until it is killed. */
await runMain(async () => {
  const config = loadConfig(environment());
  const log = createLog({ level: config.PLINTH_LOG_LEVEL, format: 'json', process: 'ticker' });
  const db = openControlDb({ url: config.DATABASE_URL, connections: config.PLINTH_DATABASE_POOL, log });
  const { gate } = openQueues({ config, log, db, jobs: faultJobs });
  startCronTick({ db, gate, log, onTick: () => process.send?.({ type: 'ready' }) });
  notifyReady();
  // Its connections and timers do not keep a process alive.
  setInterval(() => undefined, 60_000);
});
