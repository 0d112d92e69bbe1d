import { Histogram, Registry, collectDefaultMetrics } from 'prom-client';

const registry = new Registry();

const requestSeconds = new Histogram({
  name: 'plinth_http_request_duration_seconds',
  help: 'Time from the first byte of a request to its answer, by route and status class.',
  labelNames: ['route', 'status'] as const,
  buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
  registers: [registry],
});

let collecting = false;

/** @param route method and path pattern, never the path itself: labels stay few */
export const noteRequest = (route: string, status: number, seconds: number): void =>
  requestSeconds.observe({ route, status: `${Math.floor(status / 100)}xx` }, seconds);

export const metricsType = registry.contentType;

/** Process metrics are collected from the first question on. */
export const metricsText = (): Promise<string> => {
  if (!collecting) collectDefaultMetrics({ register: registry, prefix: 'plinth_' });
  collecting = true;
  return registry.metrics();
};
