import { z } from 'zod';
import { maxWaitMs } from '#domain/jobs/steps.ts';
import { CallFault } from '../../runtimes/runtime.ts';

/** The calls of `sdk.step`, as user code sends them. */

const maxErrorLength = 8 * 1024;
/** Without a time-out of its own a step waits for an event so long. */
const usualTimeoutMs = 7 * 24 * 3600 * 1000;

const nameOf = (what: string) =>
  z
    .string({ error: `${what} must be a text` })
    .min(1, `${what} must not be empty`)
    .max(200, `${what} has at most 200 characters`)
    .refine((value) => value.isWellFormed() && !value.includes('\0'), `${what} has a character that cannot be stored`);

const name = nameOf('the name of a step');
const cut = z.string().transform((value) => value.slice(0, maxErrorLength).toWellFormed());

const ms = z
  .number({ error: 'the time must be a number of milliseconds' })
  .min(0, 'the time must not be negative')
  .max(maxWaitMs, 'a step waits for at most 365 days');

export const namedStep = z.object({ name });

export const endedStep = z.object({
  name,
  /** JSON text. */
  result: z.string().optional(),
  error: z.object({ name: cut, message: cut, stack: cut }).optional(),
});
export type EndedStep = z.output<typeof endedStep>;

export const newWait = z
  .object({
    name,
    kind: z.enum(['sleep', 'event']),
    ms: ms.optional(),
    /** Milliseconds since 1970; a time that has passed is over at once. */
    until: z
      .number({ error: 'the time must be a date' })
      .refine((value) => value < Date.now() + maxWaitMs, 'a step waits for at most 365 days')
      .transform((value) => Math.max(0, value))
      .optional(),
    event: nameOf('the name of an event').optional(),
    filter: z.string({ error: 'a filter is a text' }).optional(),
  })
  .refine(({ kind, event }) => (kind === 'event') === (event !== undefined), 'an event must have a name')
  .refine(({ kind, ms: given, until }) => kind === 'event' || given !== undefined || until !== undefined, {
    error: 'a step that sleeps needs a time',
  })
  .transform(({ ms: given, ...wait }) => ({ ...wait, ms: given ?? usualTimeoutMs }));
export type NewWait = z.output<typeof newWait>;

/** @throws {CallFault} that says what is wrong */
export const parsed = <Schema extends z.ZodType>(schema: Schema, args: unknown): z.output<Schema> => {
  const { success, data, error } = schema.safeParse(args);
  if (success) return data;
  throw new CallFault('TypeError', `step: ${error.issues[0]?.message ?? 'the arguments are not understood'}`);
};
