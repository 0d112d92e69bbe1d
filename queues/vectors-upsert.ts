import { z } from 'zod';
import { defineJob } from './define.ts';

/** Embeds documents and writes them into a collection. */
export const vectorsUpsert = defineJob({
  type: 'vectors.upsert',
  pool: 'vectors',
  data: z.object({
    collection: z.string(),
    /** An embedding model; null: the collection's. */
    model: z.string().nullable(),
    /** Metadata are JSON text. */
    documents: z.array(z.object({ id: z.string(), content: z.string(), metadata: z.string() })),
  }),
  result: z.object({ upserted: z.int(), unchanged: z.int(), ids: z.array(z.string()) }),
  running: { free: 4, pro: 20, enterprise: 100 },
  plural: 'Upserts of documents',
  maxAttempts: 5,
  // A document that was already written is unchanged by the second run.
  repeatable: true,
  timeoutMs: 660_000,
  capped: true,
});
