import { Registry, collectDefaultMetrics } from 'prom-client';

/** The metrics of this process, in Prometheus' format. */
export const registry = new Registry();

let collecting = false;

export const metricsType = registry.contentType;

/** Process metrics are collected from the first question on. */
export const metricsText = (): Promise<string> => {
  if (!collecting) collectDefaultMetrics({ register: registry, prefix: 'plinth_' });
  collecting = true;
  return registry.metrics();
};
