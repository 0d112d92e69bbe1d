import { setTimeout as delay } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { pino } from 'pino';
import type { JobOutcome } from '#queues/define.ts';

/** The side that asks for jobs. */
export interface Producer {
  /** Resolves with the job's id when it is accepted. */
  readonly add: (projectId: string) => Promise<string>;
  /** Resolves when the job has ended and this side knows. */
  readonly ask: (projectId: string) => Promise<void>;
  /** Where replies arrive, if the worker has to be told. */
  readonly replyTo: string | null;
  readonly close: () => Promise<void>;
}

/** The side that runs them; `started` is called with the job's id as each begins, `ended` when all is done for it. */
export interface Subscribers {
  readonly started: (id: string) => void;
  readonly ended: () => void;
}

export type Close = () => Promise<void>;

export const log = pino({ level: 'silent' });
/** Longer than any answer takes. */
export const waitMs = 60_000;
export const succeeded: JobOutcome = { status: 'succeeded', result: 'null', error: null };

/** The work of a job: it waits so long, or does nothing. */
export const workOf = (workMs: number) => (): Promise<void> | undefined => (workMs > 0 ? delay(workMs) : undefined);

export const ready = (redis: Redis): Promise<void> =>
  new Promise((resolve) => (redis.status === 'ready' ? resolve() : redis.once('ready', () => resolve())));
