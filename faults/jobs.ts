import { z } from 'zod';
import { type JobDefinition, defineJob } from '#queues/define.ts';

/** How many jobs of one type a project may have running, and all projects together. */
export const projectLimit = 2;
export const globalLimit = 5;

// With defaults, so that what a schedule fires fits too.
const data = z.object({
  /** Names the request that asked for it. */
  key: z.string().default(''),
  /** How long it works. */
  ms: z.number().default(20),
});

const common = {
  pool: 'functions',
  data,
  result: z.null(),
  running: { free: projectLimit, pro: projectLimit, enterprise: projectLimit },
  plural: 'Jobs',
  maxAttempts: 5,
  timeoutMs: 60_000,
  capped: true,
} as const;

// The first two have names of the platform's own, for which there are settings of the global limit.
const kinds = {
  /** May be run again when its worker died. */
  again: defineJob({ ...common, type: 'cron.fire', repeatable: true }),
  /** Its effect cannot be undone: it runs at most once. */
  once: defineJob({ ...common, type: 'function.invoke', repeatable: false }),
  /** Takes its worker down, each time. */
  poison: defineJob({ ...common, type: 'fault.poison', repeatable: true }),
  /** Blocks the event loop of its worker, and is not run again. */
  block: defineJob({ ...common, type: 'fault.block', repeatable: false }),
};

export type Kind = keyof typeof kinds;

export const jobOf = (kind: Kind): (typeof kinds)[Kind] => kinds[kind];
export const faultJobs: readonly JobDefinition[] = Object.values(kinds);

/** The global limit as settings. */
export const globalLimits = {
  PLINTH_GLOBAL_CRON_FIRE: String(globalLimit),
  PLINTH_GLOBAL_FUNCTION_INVOKE: String(globalLimit),
} as const;
