import { Counter, Histogram } from 'prom-client';
import { registry } from '#lib/metrics.ts';

/** Metrics of the job engine. No label names a project: labels stay few. */
const accepted = new Counter({
  name: 'plinth_jobs_accepted_total',
  help: 'Jobs that were accepted, by type.',
  labelNames: ['type'] as const,
  registers: [registry],
});

const finished = new Counter({
  name: 'plinth_jobs_finished_total',
  help: 'Jobs that ended, by type and outcome.',
  labelNames: ['type', 'outcome'] as const,
  registers: [registry],
});

const retried = new Counter({
  name: 'plinth_jobs_retried_total',
  help: 'Attempts that failed and are followed by another, by type.',
  labelNames: ['type'] as const,
  registers: [registry],
});

const reconciled = new Counter({
  name: 'plinth_jobs_reconciled_total',
  help: 'Jobs whose place in Redis was mended from their rows, by type and what was wrong.',
  labelNames: ['type', 'fault'] as const,
  registers: [registry],
});

const seconds = (name: string, help: string) =>
  new Histogram({
    name,
    help,
    labelNames: ['type'] as const,
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800],
    registers: [registry],
  });

const waitSeconds = seconds('plinth_jobs_wait_seconds', 'From the acceptance of a job to its first start.');
const runSeconds = seconds('plinth_jobs_run_seconds', 'From the start of a job’s last attempt to its end.');
const replySeconds = seconds('plinth_jobs_reply_seconds', 'From a request for a job to the reply that it waited for.');

/** The inconsistencies between a job's row and Redis. */
export const faults = ['not_queued', 'lease_of_ended_job', 'lost_handover', 'dead_worker', 'gate_lost'] as const;
export type Fault = (typeof faults)[number];

export const noteAccepted = (type: string): void => accepted.inc({ type });
export const noteFinished = (type: string, outcome: string): void => finished.inc({ type, outcome });
export const noteRetried = (type: string): void => retried.inc({ type });
export const noteReconciled = (type: string, fault: Fault, count = 1): void => reconciled.inc({ type, fault }, count);
export const noteWait = (type: string, ms: number): void => waitSeconds.observe({ type }, ms / 1000);
export const noteRun = (type: string, ms: number): void => runSeconds.observe({ type }, ms / 1000);
export const noteReply = (type: string, ms: number): void => replySeconds.observe({ type }, ms / 1000);
