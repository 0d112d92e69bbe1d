import { Counter } from 'prom-client';
import { registry } from '#lib/metrics.ts';

const lost = new Counter({
  name: 'plinth_ai_calls_unrecorded_total',
  help: 'Ends of AI calls that could not be recorded; these calls are closed as incomplete.',
  registers: [registry],
});

export const noteUnrecorded = (): void => lost.inc();
