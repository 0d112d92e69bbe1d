import { environment, loadConfig, unknownSettings } from '#lib/config.ts';
import { createLog, logFormat } from '#lib/log.ts';
import { runMain, stopOnSignal, tellReady } from '#lib/process.ts';
import { startWorker } from './worker.ts';

await runMain(async () => {
  const config = loadConfig(environment());
  const log = createLog({
    level: config.PLINTH_LOG_LEVEL,
    format: logFormat(config.PLINTH_LOG_FORMAT),
    process: config.PLINTH_WORKER_NAME,
  });
  for (const name of unknownSettings(environment())) log.warn(`there is no setting ${name}; see plinth.env.example`);
  const stop = await startWorker(config, log);
  stopOnSignal(log, config.DRAIN_MS, stop);
  tellReady();
});
