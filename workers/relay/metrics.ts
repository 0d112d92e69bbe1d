import { Counter, Gauge } from 'prom-client';
import { registry } from '#lib/metrics.ts';

export const relayed = new Counter({
  name: 'plinth_table_events_relayed_total',
  help: 'Events of writes to tables that this process took from projects’ databases.',
  registers: [registry],
});

export const setAside = new Counter({
  name: 'plinth_table_events_set_aside_total',
  help: 'Events of writes to tables that could not be kept, and wait in their project’s plinth.outbox_failed.',
  registers: [registry],
});

export const fullest = new Gauge({
  name: 'plinth_event_backlog_share',
  help: 'How full the fullest outbox of a project is that this process looked into, 0 to 1: at 1 writes are refused.',
  registers: [registry],
});
