import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';

/**
 * Classifies a statement by its first word; the server decides everything else. White space, semicolons, comments (`--`
 * and nested `/*`) and parentheses may come before that word.
 */

/**
 * Comments, their nested parts and the spaces between them that are read before the first word: some 2 ms. A statement
 * with more of them counts as one without a word.
 */
const maxMarks = 10_000;

const beforeWord = /[\s;(]+|--[^\n]*|\/\*/y;
/** A command of transactions stands in no parentheses. */
const beforeCommand = /[\s;]+|--[^\n]*|\/\*/y;
const inComment = /\/\*|\*\//g;

/** Where the first word is; at the end when there is none, or too much before it. */
const startOf = (sql: string, before = beforeWord): number => {
  let [at, depth] = [0, 0];
  for (let count = 0; count < maxMarks; count += 1) {
    const marks = depth === 0 ? before : inComment;
    marks.lastIndex = at;
    const [mark] = marks.exec(sql) ?? [];
    if (mark === undefined) return depth === 0 ? at : sql.length;
    at = marks.lastIndex;
    if (mark === '/*') depth += 1;
    else if (mark === '*/') depth -= 1;
  }
  return sql.length;
};

const wordAt = (sql: string, at: number): string => /^[a-z]+/i.exec(sql.slice(at))?.[0].toLowerCase() ?? '';

/** The first word in small letters; empty without one. */
export const firstWord = (sql: string): string => wordAt(sql, startOf(sql));

const transactionWords = new Set([
  'begin',
  'start',
  'commit',
  'end',
  'rollback',
  'abort',
  'savepoint',
  'release',
  'prepare transaction',
]);

/** Begins, ends or divides a transaction. */
export const isTransactionCommand = (sql: string): boolean => {
  const start = startOf(sql, beforeCommand);
  const word = wordAt(sql, start);
  return transactionWords.has(word) || (word === 'prepare' && /^prepare\s+transaction\b/i.test(sql.slice(start)));
};

const readingWords = new Set(['select', 'values', 'table', 'show', 'explain', 'fetch']);
const writingWords = /\b(insert|update|delete|merge|into|create|execute)\b/i;

/**
 * Writes nothing by itself; the functions that it calls may. Judged on words, and on the safe side: a text that
 * mentions one of the writing words is not said to be a reading one.
 */
export const isReading = (sql: string): boolean => {
  const word = firstWord(sql);
  return (readingWords.has(word) || word === 'with') && !writingWords.test(sql);
};

const schemaKeepingWords = new Set(
  'insert update delete merge truncate set reset lock listen unlisten notify vacuum analyze checkpoint discard deallocate prepare declare close move'.split(
    ' ',
  ),
);

/** May change the schema by itself. A function that a SELECT calls can, too: that is not seen here. */
export const mayChangeSchema = (sql: string): boolean => {
  const word = firstWord(sql);
  if (readingWords.has(word) || word === 'with') return /\b(into|create)\b/i.test(sql);
  return !schemaKeepingWords.has(word);
};

/** The same of several statements, where any word may be the first of one. */
export const mentionsSchemaChange = (sql: string): boolean =>
  /\b(create|alter|drop|into|comment|grant|revoke|security|import|do|call)\b/i.test(sql);

/** May change rows, be it by a function that it calls. */
export const mayWriteRows = (sql: string): boolean => !isReading(sql) || sql.includes('(');

/** How long a statement may keep a place of the short line. */
export const shortMs = 1000;

/**
 * A statement that ran in the short line for too long is undone and runs again in the other one. These may commit
 * before they end, or leave something half-done when they are cancelled.
 */
const notRepeatable = new Set(['call', 'do', 'vacuum', 'reindex', 'cluster', 'checkpoint']);

/** How many are remembered, and for how long. */
const known = new LRUCache<string, true>({ max: 10_000, ttl: 3_600_000 });

const nameOf = (projectId: string, sql: string): string =>
  createHash('sha256').update(`${projectId} ${sql}`).digest('base64');

/** Whether a statement begins in the short line: it can be run again, and was not seen to take long. */
export const beginsShort = (projectId: string, sql: string): boolean => {
  const word = firstWord(sql);
  if (word === '' || notRepeatable.has(word)) return false;
  return !/\bconcurrently\b/i.test(sql) && !known.has(nameOf(projectId, sql));
};

/** Next time it goes to the other line at once. */
export const noteLong = (projectId: string, sql: string): void => {
  known.set(nameOf(projectId, sql), true);
};
