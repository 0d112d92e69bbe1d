import { z } from 'zod';

// The answers of the gate's scripts; the header of each script describes its own.

/**
 * The epoch, the time, and the jobs that a script leaves to be added to BullMQ: `[id, project, nonce, id, …]`.
 */
export const handedOver = z.tuple([z.string(), z.string(), z.array(z.string())]);
/** And what each of the workers gets that ended a run: see `Taken`. */
export const ended = z.tuple([z.string(), z.string(), z.array(z.string()), z.array(z.array(z.unknown()))]);
export const admitted = z.tuple([z.string(), z.string(), z.array(z.string()), z.array(z.number())]);
export const beaten = z.tuple([
  z.string(),
  z.string(),
  z.array(z.string()),
  z.array(z.string()),
  z.array(z.string()),
  z.number(),
]);
export const placed = z.array(
  z.tuple([
    z.enum(['handed over', 'waiting', 'absent']),
    z.number(),
    z.enum(['project_limit', 'organization_limit', 'global_limit', 'paused', 'queue', '']),
  ]),
);

/** The answer of `admit` for each job. */
export const admissions = { known: 0, handedOver: 1, waits: 2, full: 3, limitsMissing: 4 } as const;
