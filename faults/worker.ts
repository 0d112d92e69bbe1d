import { environment, loadConfig } from '#lib/config.ts';
import { openControlDb } from '#lib/control-db.ts';
import { createLog } from '#lib/log.ts';
import { notifyReady, runMain, stopOnSignal } from '#lib/process.ts';
import { startEngine } from '#workers/engine.ts';
import { startLivenessWatch } from '#workers/liveness.ts';
import { faultJobs } from './jobs.ts';
import { witnessedProcessors } from './processors.ts';
import { openWitness } from './witness.ts';

/** A worker process as workers/server.ts starts one, with the harness's own jobs. */
await runMain(async () => {
  const config = loadConfig(environment());
  const name = config.PLINTH_WORKER_NAME;
  const log = createLog({ level: config.PLINTH_LOG_LEVEL, format: 'json', process: name });
  startLivenessWatch();
  const witness = await openWitness(environment()['PLINTH_TEST_WITNESS'] ?? '');
  const db = openControlDb({ url: config.DATABASE_URL, connections: config.PLINTH_DATABASE_POOL, log });
  const processors = witnessedProcessors(witness, { scene: config.PLINTH_REDIS_PREFIX, worker: name });
  const engine = await startEngine({ config, log, db, jobs: faultJobs, processors });
  stopOnSignal(log, config.DRAIN_MS, async () => {
    await engine.drain();
    await engine.close();
    await db.close();
    await witness.close();
  });
  notifyReady();
});
