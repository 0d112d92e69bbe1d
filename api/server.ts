import { environment, loadConfig, unknownSettings } from '#lib/config.ts';
import { createLog, logFormat } from '#lib/log.ts';
import { notifyReady, runMain, stopOnSignal } from '#lib/process.ts';
import { startTracing } from '#lib/tracing.ts';
import { allSettings } from '#queues/settings.ts';
import { startApi } from './api.ts';

await runMain(async () => {
  const config = loadConfig(environment());
  const log = createLog({
    level: config.PLINTH_LOG_LEVEL,
    format: logFormat(config.PLINTH_LOG_FORMAT),
    process: 'api',
  });
  for (const name of unknownSettings(environment(), allSettings.shape))
    log.warn(`there is no setting ${name}; see plinth.env.example`);
  const stopTracing = await startTracing({
    endpoint: config.OTEL_EXPORTER_OTLP_ENDPOINT,
    service: 'plinth-api',
    ratio: config.PLINTH_TRACE_RATIO,
    log,
  });
  const api = await startApi(config, log);
  stopOnSignal(log, config.DRAIN_MS, async () => {
    await api.stop();
    await stopTracing();
  });
  notifyReady({ port: api.port });
});
