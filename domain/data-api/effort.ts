import type { ClientBase } from 'pg';
import { processorMsOf } from '#lib/postgres/lower-priority.ts';
import { slowMs } from '#lib/postgres/watch.ts';
import { availableParallelism } from 'node:os';
import { LRUCache } from 'lru-cache';
import { CallerGone } from './errors.ts';
import { ServiceError } from '#lib/errors.ts';
import { type FairPermits, createFairPermits } from '#lib/fair-permits.ts';
import type { TenantRole } from '#lib/tenant-db.ts';
import { createHash } from 'node:crypto';
import type { Bound } from '#lib/postgres/pipeline.ts';

/**
 * The processor time of the work on a connection, measured from the moment when it is slow: fast work costs nothing to
 * measure. Wall time would make light statements look heavy while processors are scarce; for servers elsewhere it is
 * the only figure.
 */
export class Effort {
  readonly #client: ClientBase;
  #from: { readonly processorMs: number | null; readonly at: number } | undefined;

  constructor(client: ClientBase) {
    this.#client = client;
  }

  /** To be called while the work is slow. @returns ms since the first call */
  follow(): number {
    const processorMs = processorMsOf(this.#client);
    const at = performance.now();
    this.#from ??= { processorMs, at };
    if (processorMs === null || this.#from.processorMs === null) return at - this.#from.at;
    return processorMs - this.#from.processorMs;
  }

  /** The approximate duration of finished work in ms; 0 when it was never slow. */
  total(): number {
    return this.#from === undefined ? 0 : slowMs + this.follow();
  }
}

/**
 * Statements that users write may keep a processor busy each for as long as they run: more of one project's at a time
 * would be felt by all others, and would take the connections that its own functions and cron need. Where there are two
 * processors, two such statements are felt already (`npm run bench -- data/neighbours`: 2.1 to 2.3, one 1.6 to 1.7).
 */
export const maxAtOnce = Math.max(1, Math.min(2, Math.floor(availableParallelism() / 2)));
/** The queue of one role: readers do not keep out those who own the tables. */
const maxWaiting = 20;
/** More than one statement may take. */
const waitMs = 40_000;
/** Projects whose statements are counted. */
const maxKept = 10_000;

const refusal = (): ServiceError =>
  new ServiceError('dependency_unavailable', 'Other statements of this project still run. Try again later.', {
    hint: 'One or two statements of a project run at a time; up to twenty more wait for up to 40 s.',
    headers: { 'Retry-After': '5' },
  });

interface InLine {
  readonly projectId: string;
  /** Roles are served in a round. */
  readonly role: TenantRole;
  /** Aborted when no caller waits any more. */
  readonly signal: AbortSignal;
}

type Line = <T>(of: InLine, work: () => Promise<T>) => Promise<T>;

/** @param atOnce how many statements of one project run at a time */
export const createLine = (atOnce: number): Line => {
  const lines = new LRUCache<string, FairPermits>({ max: maxKept });

  const lineOf = (projectId: string): FairPermits => {
    const present = lines.get(projectId);
    if (present !== undefined) return present;
    const line = createFairPermits({ total: atOnce, each: atOnce, maxWaiting, waitMs, refusal });
    lines.set(projectId, line);
    return line;
  };

  return async ({ projectId, role, signal }, work) => {
    const line = lineOf(projectId);
    await line.acquire(role, signal).catch((error: unknown) => {
      throw signal.aborted ? new CallerGone('the caller has gone') : error;
    });
    try {
      return await work();
    } finally {
      line.release(role);
    }
  };
};

/**
 * Runs SQL that a user wrote once a place is free, within this process.
 * @throws {ServiceError} `dependency_unavailable` when it was not within 40 s, or too many wait already
 * @throws {CallerGone} when it was not before the caller went away
 * @throws what `work` throws
 */
export const inLine: Line = createLine(maxAtOnce);

/**
 * As `inLine`, in the line of short statements, which has as many places of its own: a statement that holds one for
 * longer than `shortMs` has to move to the other line.
 */
export const inShortLine: Line = createLine(maxAtOnce);

/**
 * Statements of the data API that keep a processor busy for long. Four callers whose function sorted two million hashes
 * filled both processors of a small machine, and a chat beside them took 3.5 times as long.
 */

/** A statement that took so long, in processor time, or answered so much, is heavy the next time. */
const heavyMs = 500;
const heavyBytes = 4 * 1024 * 1024;
/** Below these it is heavy no more. Far below the others, so that a statement does not change sides each time. */
const lightMs = 200;
const lightBytes = 2 * 1024 * 1024;
/** Parameters of a statement that is heavy the first time: some thousand rows to be inserted. */
const largeParameters = 256 * 1024;

const maxProjects = 10_000;
const maxOfProject = 50;

/** Names of heavy statements by project; most projects have none, and pay for one map access. */
const known = new LRUCache<string, LRUCache<string, true>>({ max: maxProjects, ttl: 3_600_000 });

/** Values are parameters, so that a text is the same for all of them. */
const nameOf = (text: string): string => createHash('sha256').update(text).digest('base64');

const lengthOf = (values: readonly (string | null)[]): number =>
  values.reduce((sum, value) => sum + (value?.length ?? 0), 0);

/** Whether a statement is large by its parameters, or was seen to take long. */
export const isHeavy = (projectId: string, { text, params }: Bound): boolean =>
  lengthOf(params) >= largeParameters || (known.get(projectId)?.has(nameOf(text)) ?? false);

/** The observed cost of a statement. */
export interface Course {
  /** The processor time; 0 when it was quick. */
  readonly ms: number;
  /** Null: it failed. A failure may come before the work, so that it never makes a statement light. */
  readonly rows: readonly (readonly (string | null)[])[] | null;
}

/** Remembers a statement that was heavy, and forgets one that is no more. */
export const noteCourse = (projectId: string, { text }: Bound, { ms, rows }: Course): void => {
  const ofProject = known.get(projectId);
  const bytes = (rows ?? []).reduce((sum, row) => sum + lengthOf(row), 0);
  if (ms >= heavyMs || bytes >= heavyBytes) {
    const present = ofProject ?? new LRUCache<string, true>({ max: maxOfProject });
    known.set(projectId, present.set(nameOf(text), true));
  } else if (ofProject !== undefined && rows !== null && ms < lightMs && bytes < lightBytes)
    ofProject.delete(nameOf(text));
};
