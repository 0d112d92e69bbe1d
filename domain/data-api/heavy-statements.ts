import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { Bound } from '#lib/postgres/pipeline.ts';

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
