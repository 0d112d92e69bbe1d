import { environment, loadConfig, unknownSettings } from '#lib/config.ts';
import { createLog, logFormat } from '#lib/log.ts';
import { notifyReady, runMain, stopOnSignal } from '#lib/process.ts';
import { startTracing } from '#lib/tracing.ts';
import { startLivenessWatch } from './liveness.ts';
import { openMonitor } from './monitor.ts';
import { startWorker } from './worker.ts';

await runMain(async () => {
  const config = loadConfig(environment());
  const log = createLog({
    level: config.PLINTH_LOG_LEVEL,
    format: logFormat(config.PLINTH_LOG_FORMAT),
    process: config.PLINTH_WORKER_NAME,
  });
  for (const name of unknownSettings(environment())) log.warn(`there is no setting ${name}; see plinth.env.example`);
  const stopLivenessWatch = startLivenessWatch();
  const monitor = await openMonitor(config, log);
  const stopTracing = await startTracing({
    endpoint: config.OTEL_EXPORTER_OTLP_ENDPOINT,
    service: 'plinth-worker',
    ratio: config.PLINTH_TRACE_RATIO,
    log,
  });
  const stopWorker = await startWorker(config, log);
  monitor.consuming(true);
  stopOnSignal(log, config.DRAIN_MS, async () => {
    monitor.consuming(false);
    await stopWorker();
    await stopTracing();
    await monitor.stop();
    // Work that the process does when it ends, such as keeping compiled code, may hold it up.
    await stopLivenessWatch();
  });
  notifyReady();
});
