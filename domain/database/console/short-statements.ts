import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { firstWord } from './statement-words.ts';

/** How long a statement may keep a place of the short line. */
export const shortMs = 1000;

/**
 * A statement that ran in the short line for too long is undone and runs again in the other one. These may commit before
 * they end, or leave something half-done when they are cancelled.
 */
const notRepeatable = new Set(['call', 'do', 'vacuum', 'reindex', 'cluster', 'checkpoint']);

/** How many are remembered, and for how long. */
const known = new LRUCache<string, true>({ max: 10_000, ttl: 3_600_000 });

const nameOf = (projectId: string, sql: string): string =>
  createHash('sha256').update(`${projectId} ${sql}`).digest('base64');

/** Whether a statement begins in the short line: it can be run again, and was not seen to take long. */
export const beginsShort = (projectId: string, sql: string): boolean =>
  !notRepeatable.has(firstWord(sql)) && !/\bconcurrently\b/i.test(sql) && !known.has(nameOf(projectId, sql));

/** Next time it goes to the other line at once. */
export const noteLong = (projectId: string, sql: string): void => {
  known.set(nameOf(projectId, sql), true);
};
