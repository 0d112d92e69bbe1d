import { DatabaseError } from 'pg';
import { DataError } from '#domain/data-api/errors.ts';
import { toDataError } from '#domain/data-api/failure.ts';

/** The step that failed, and what was done before it. */
export interface FailedStep {
  readonly name: string;
  /** Its place in the list, from 1. */
  readonly step: number;
  readonly sql: string;
  readonly applied: readonly string[];
}

const noTransaction =
  'A migration is one transaction, and this cannot run in one. Leave out CONCURRENTLY, or run it by itself as a query.';
const isTransaction = 'Each migration is one transaction already: leave out BEGIN, COMMIT, ROLLBACK and SAVEPOINT.';

/** Hints for statements that a step cannot contain, by the server's messages. */
const hints: readonly (readonly [code: string, message: RegExp, hint: string])[] = [
  ['25001', /cannot (?:be executed from a function|run inside a transaction block)/, noTransaction],
  ['0A000', /^EXECUTE of transaction commands/, isTransaction],
  ['2D000', /./, isTransaction],
  ['0A000', /^EXECUTE of SELECT \.\.\. INTO/, 'Write it as CREATE TABLE … AS SELECT …'],
  ['0A000', /^cannot COPY to\/from client/, 'Nothing comes after the SQL that could be copied: use INSERT.'],
];

const hintOf = ({ code, message }: DatabaseError): string | null =>
  hints.find(([state, words]) => state === code && words.test(message))?.[2] ?? null;

/** From 1, in characters of the step's SQL; null when the failure lies elsewhere, as in a function that it calls. */
const positionOf = (error: DatabaseError, sql: string): number | null => {
  const { internalPosition, internalQuery } = error;
  return internalPosition !== undefined && internalQuery === sql ? Number(internalPosition) : null;
};

// Characters as the server counts them: one for each code point.
const lineOf = (sql: string, position: number | null): number | null =>
  position === null
    ? null
    : Array.from(sql)
        .slice(0, position - 1)
        .filter((character) => character === '\n').length + 1;

/** SQLSTATEs of the user's SQL are 400, its time-out 504; the platform's own refusals keep their status. */
const statusOf = ({ code, status }: DataError): number => {
  if (code === '57014') return 504;
  return /^[0-9A-Z]{5}$/.test(code) ? 400 : status;
};

export const tookTooLong = (limitMs: number): DatabaseError =>
  Object.assign(new DatabaseError(`the migration took more than ${limitMs / 1000} s`, 0, 'error'), {
    severity: 'ERROR',
    code: '57014',
  });

/** The server's refusal of a step, with its position. Any other value is returned as it is. */
export const toStepError = (error: unknown, { name, step, sql, applied }: FailedStep): unknown => {
  const base = toDataError(error, { projectId: '', role: 'service', claims: '' });
  if (!(error instanceof DatabaseError) || !(base instanceof DataError)) return base;
  const position = positionOf(error, sql);
  const details = {
    migration: name,
    step,
    position,
    line: lineOf(sql, position),
    detail: error.detail ?? null,
    applied,
  };
  return new DataError(statusOf(base), base.code, base.message, { details, hint: base.hint ?? hintOf(error) });
};
