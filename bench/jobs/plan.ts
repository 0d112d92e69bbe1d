/**
 * Which way jobs go. `plain`: BullMQ alone. `gate`: the gate before BullMQ, without Postgres. `engine`: all of it, with
 * a row for each job.
 */
export type Way = 'plain' | 'gate' | 'engine';

/** The plan that producer and worker share. */
export interface Plan {
  readonly way: Way;
  readonly redisUrl: string;
  /** For the engine only: a control database that is up to date. */
  readonly databaseUrl: string;
  /** Keeps the keys of each round apart. */
  readonly prefix: string;
  /** Jobs that the worker runs at a time. */
  readonly slots: number;
  /** Jobs that one project may have running. */
  readonly limit: number;
  /** How long a job takes, in ms; 0: no time at all. */
  readonly workMs: number;
  /** Whether callers wait for the ends of their jobs. */
  readonly replies: boolean;
  /** BullMQ alone: whether jobs that are asked for together are added in one go, as the gate does. */
  readonly bulk: boolean;
}

/** The additional plan of a worker without rows: where the producer waits for replies. */
export interface WorkerPlan extends Plan {
  readonly replyTo: string | null;
}

export const jobType = 'bench.job';

/** So many may wait that nobody is refused. */
export const waitingCap = 10_000_000;

/** `projects` ids, the same in every process. */
export const projectIds = (projects: number, from = 0): string[] =>
  Array.from({ length: projects }, (_, i) => `00000000-0000-7000-8000-${String(from + i).padStart(12, '0')}`);

export interface FloodPlan {
  readonly count: number;
  readonly projects: readonly string[];
  /** How many add at a time, each one job after the other. */
  readonly callers: number;
}

/** By `sharedNow`. */
export interface Span {
  readonly began: number;
  readonly ended: number;
}

export interface TricklePlan {
  readonly projects: readonly string[];
  readonly everyMs: number;
}

/** A job and an instant by `sharedNow`. */
export type Moment = readonly [id: string, at: number];

export interface AskPlan {
  readonly projects: readonly string[];
  readonly callers: number;
  readonly warmUp: number;
  readonly count: number;
}
