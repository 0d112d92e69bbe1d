import { Counter, Gauge } from 'prom-client';
import { registry } from '#lib/metrics.ts';

export const mailTries = new Counter({
  name: 'plinth_platform_mail_tries_total',
  help: 'Tries to send mail of the platform itself, by their outcome: sent, again or failed.',
  labelNames: ['outcome'] as const,
  registers: [registry],
});

export const mailOldestWait = new Gauge({
  name: 'plinth_platform_mail_oldest_wait_seconds',
  help: 'How long the oldest mail of the platform itself has waited to be sent.',
  registers: [registry],
});
