import { z } from 'zod';

/** The plan of a producer process. Travels as JSON on its command line. */
export const loadSchema = z.object({
  name: z.string(),
  kinds: z.array(z.enum(['again', 'once', 'poison', 'block'])),
  projects: z.array(z.string()),
  /** Requests in all, one each `everyMs`. */
  count: z.number(),
  everyMs: z.number(),
  /** How long it waits after it is ready. */
  startAfterMs: z.number(),
  /** How long each job works. */
  workMs: z.number(),
  /** How long a caller waits for the end; 0: it does not. */
  waitMs: z.number(),
  /**
   * accept: as the API does; thrice: each job is given to the gate three times; rows: dies by SIGKILL when all rows are
   * written and the gate has heard of none.
   */
  way: z.enum(['accept', 'thrice', 'rows']),
  /** The file that it tells what became of each request. */
  journal: z.string(),
});

export type Load = z.output<typeof loadSchema>;

/** The result of one request. */
export type JournalLine =
  | { readonly key: string; readonly what: 'accepted'; readonly id: string; readonly reported: string | null }
  | { readonly key: string; readonly what: 'refused'; readonly code: string };
