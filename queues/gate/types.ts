import type { JobRef } from '../define.ts';
import type { SandboxFacts } from '../function-invoke.ts';

/** The gate's answer to a job. `full`: too many jobs of its project wait; it was not taken. */
export type Admission = 'handed over' | 'waiting' | 'full';

/** Where a job stands. `absent`: the gate does not know it (it runs elsewhere, ended, or is about to be found). */
export interface Place {
  readonly state: 'handed over' | 'waiting' | 'absent';
  /** 1-based, among the waiting jobs of its project; null when it does not wait. */
  readonly position: number | null;
  /** Why it waits. */
  readonly reason: 'project_limit' | 'organization_limit' | 'global_limit' | 'paused' | 'queue' | null;
}

/** How many of one project's jobs of one type may run and wait. */
export interface Limits {
  readonly running: number;
  readonly waiting: number;
}

/** How many of a project's places are kept for jobs that somebody waits for, of so many. */
export const keptOf = (running: number): number => (running < 2 ? 0 : Math.max(1, Math.floor(running / 5)));

/** One project's limits for jobs of one type, and its part of what all projects share. */
export interface Share extends Limits {
  /** So many of the places are for jobs that somebody waits for. Left out: none. */
  readonly kept?: number | undefined;
  /** The places that it gets in a turn, 1 to 63, since turns and places make up one number at the gate. Left out: 1. */
  readonly weight?: number | undefined;
  /** How many jobs of the type all projects of its organization may have running together. Left out: any number. */
  readonly organization?: { readonly id: string; readonly running: number } | undefined;
}

export interface ProjectLoad extends Limits {
  readonly projectId: string;
  /** Handed to BullMQ: running, or about to. */
  readonly leased: number;
  readonly queued: number;
}

export interface LiveWorker {
  readonly id: string;
  readonly name: string;
  readonly slots: number;
  readonly running: number;
  readonly startedAt: number;
  /** The languages that it runs functions in, and how well they are fenced in; left out: it runs none. */
  readonly sandbox?: SandboxFacts | undefined;
}

/** One job type as the gate sees it. */
export interface JobTypeStats {
  readonly type: string;
  /** False while the gate is rebuilt from Postgres after Redis lost its memory: nothing is handed over. */
  readonly open: boolean;
  readonly paused: boolean;
  readonly waiting: number;
  readonly leased: number;
  /** At most so many are handed over: 1.2 × the slots of the live workers, or the global limit. */
  readonly window: number;
  readonly slots: number;
  readonly workers: readonly LiveWorker[];
}

/** Decides which accepted jobs are handed to BullMQ: by fair queueing, each project to its share. */
export interface Gate {
  /**
   * Takes an accepted job (its row is written). A job that the gate knows already stays where it is.
   * @param capped whether it may be refused when too many of its project wait
   */
  readonly admit: (job: JobRef, capped: boolean) => Promise<Admission>;
  /** Forgets a job that waits and is not to run any more. */
  readonly withdraw: (job: JobRef) => Promise<void>;
  /**
   * Forgets all waiting jobs of a deleted project, one script for each of its shards. The provisioning of its database
   * stays.
   */
  readonly drop: (projectId: string) => Promise<void>;
  /** Where jobs stand, in their order: one question for each shard. */
  readonly places: (jobs: readonly JobRef[]) => Promise<readonly Place[]>;
  /** A plan, limit or pause changed in Postgres: the gate reads it again. */
  readonly rulesChanged: (change: { readonly type?: string; readonly projectId?: string }) => Promise<void>;
  readonly stats: (type: string) => Promise<JobTypeStats>;
  /** The projects with the most jobs waiting and running, at most `max`. */
  readonly projects: (type: string, max: number) => Promise<readonly ProjectLoad[]>;
  readonly close: () => Promise<void>;
}

/** The gate's rules as Postgres has them. */
export interface GateRules {
  /** Answers for every project that is asked for. */
  readonly limitsOf: (type: string, projectIds: readonly string[]) => Promise<ReadonlyMap<string, Share>>;
  /** Projects whose jobs of this type are paused; `*` when all are. */
  readonly pausesOf: (type: string) => Promise<readonly string[]>;
  /** How many jobs of a type run at a time on the whole installation; null: as many as there are slots. */
  readonly globalLimitOf: (type: string) => Promise<number | null>;
}
