import type { Abuse } from '../ground.ts';
import { bulkInserts, consoleSql, dataSql, hangingWebhooks } from './data.ts';
import { compileFlood, cpuLoops, deletedFlood, logFlood, queueFlood } from './functions.ts';
import { endlessAnswers, giantAnswers, vectorUpserts } from './models.ts';
import { heldBodies, slowReaders } from './sockets.ts';

/** By name, in the order of the rows. */
export const abuses = {
  'queue-flood': queueFlood,
  'cpu-loops': cpuLoops,
  'log-flood': logFlood,
  'held-bodies': heldBodies,
  'slow-readers': slowReaders,
  'bulk-inserts': bulkInserts,
  'hanging-webhooks': hangingWebhooks,
  'console-sql': consoleSql,
  'data-sql': dataSql,
  'compile-flood': compileFlood,
  'giant-answers': giantAnswers,
  'endless-answers': endlessAnswers,
  'vector-upserts': vectorUpserts,
  'deleted-flood': deletedFlood,
} as const satisfies Readonly<Record<string, Abuse>>;

export type AbuseName = keyof typeof abuses;
