import type { AnswerBody } from '#domain/data-api/answer-body.ts';
import { DataError } from '#domain/data-api/errors.ts';
import type { RunRows, TextRow } from '#domain/data-api/db.ts';
import type { ReadPlan, Sql } from '#domain/data-api/plan.ts';
import { type SqlBuilder, createSqlBuilder } from '#domain/data-api/sql/builder.ts';
import { quoteName } from '#domain/data-api/sql/names.ts';
import { bodyOf, piecesSql } from '#domain/data-api/sql/pieces.ts';
import { fetchable } from '#domain/data-api/sql/within.ts';
import { written } from '#domain/data-api/sql/write.ts';
import { notSingular } from './media.ts';
import { pageSql } from './read-rows.ts';
import type { Work } from './request.ts';

/** The part of the changed rows that is returned. */
export type Wanted = 'rows' | 'keys' | 'nothing';

/** A change of rows, before it is SQL. */
export interface Change {
  readonly plan: ReadPlan;
  /** INSERT, UPDATE or DELETE with that behind RETURNING. */
  readonly dml: (builder: SqlBuilder, returning: string) => string;
  /** Distinguishes inserted rows from updated ones. */
  readonly merges: boolean;
}

export interface Changed {
  readonly body: AnswerBody;
  /** Rows that were written or deleted. */
  readonly rows: number;
  /** The number of these rows that were inserted. */
  readonly inserted: number;
  /** Text of the first row's primary key, when keys were wanted. */
  readonly keys: readonly string[];
}

// A row that ON CONFLICT updated carries the lock that it was updated under; only plain tables show it.
const isNew = ({ table }: ReadPlan): string => (table.kind === 'table' ? `(${written}.xmax = 0)` : 'true');

const returningOf = ({ plan, merges }: Change, wanted: Wanted): string => {
  const flag = merges ? `${isNew(plan)} as plinth_new` : '1';
  if (wanted === 'rows') return merges ? `${written}.*, ${flag}` : `${written}.*`;
  const keys = wanted === 'keys' ? plan.table.primaryKey.map((key) => `${written}.${quoteName(key)}`) : [];
  return [...keys, flag].join(', ');
};

const keysSql = ({ plan }: Change, wanted: Wanted): string => {
  const keys = wanted === 'keys' ? plan.table.primaryKey : [];
  if (keys.length === 0) return 'null';
  return `(select json_build_array(${keys.map((key) => `c.${quoteName(key)}::text`).join(', ')})::text from changed c limit 1)`;
};

/** The changed rows without the mark of new ones. */
const rowsOf = ({ plan, merges }: Change): string => {
  if (!merges) return '';
  const columns = [...plan.table.columns.keys()].map((name) => `c.${quoteName(name)}`);
  return `, changed_rows as (select ${columns.join(', ')} from changed c)`;
};

const statementOf = (change: Change, wanted: Wanted, { form }: Work): Sql => {
  const builder = createSqlBuilder();
  const changed = `with changed as (${change.dml(builder, returningOf(change, wanted))})`;
  const inserted = change.merges ? '(select count(*) filter (where c.plinth_new) from changed c)' : 'null';
  const counts = `(select count(*) from changed) as "rows", ${inserted} as "inserted", ${keysSql(change, wanted)} as "keys"`;
  if (wanted !== 'rows') return builder.finish(`${changed} select '' as "body", ${counts}`);
  const from = change.merges ? 'changed_rows' : 'changed';
  const page = pageSql(change.plan, form, builder, { exactCount: false, from });
  const answer = `select ${fetchable('p."body"')} as "body", ${counts} from (${page}) p`;
  return builder.finish(`${changed}${rowsOf(change)} ${piecesSql(answer, ['rows', 'inserted', 'keys'], builder)}`);
};

const changedOf = (answered: readonly TextRow[]): Changed => {
  const [, rows, inserted, keys] = answered[0] ?? [];
  return {
    body: bodyOf(answered) ?? 'null',
    rows: Number(rows),
    inserted: Number(inserted ?? rows),
    keys: typeof keys === 'string' ? (JSON.parse(keys) as string[]) : [],
  };
};

/** @throws {DataError} PGRST124 when more is changed than the caller expects, and said to be strict about */
export const requireAffordable = ({ preferences }: Pick<Work, 'preferences'>, rows: number): void => {
  const { maxAffected, handling } = preferences;
  if (maxAffected === undefined || handling !== 'strict' || rows <= maxAffected) return;
  throw new DataError(400, 'PGRST124', 'Query result exceeds max-affected preference constraint', {
    details: `The query affects ${rows} rows`,
  });
};

export interface ChangeOptions {
  readonly wanted: Wanted;
  /** The request asked for a single object: anything but one row is undone. */
  readonly single: boolean;
  /** Throws when what was done must not stay. */
  readonly check?: (changed: Changed) => void;
}

/** Makes the change; what a check refuses is rolled back. */
export const makeChange = (work: Work, change: Change, options: ChangeOptions): Promise<Changed> => {
  const { wanted, single, check } = options;
  const sql = statementOf(change, wanted, work);
  const isStrict = work.preferences.maxAffected !== undefined && work.preferences.handling === 'strict';
  const run = async (rows: RunRows): Promise<Changed> => {
    const changed = changedOf(await rows(sql));
    if (single && changed.rows !== 1) throw notSingular(changed.rows);
    requireAffordable(work, changed.rows);
    check?.(changed);
    return changed;
  };
  if (!single && !isStrict && check === undefined) return run((requested) => work.executor.rows('write', requested));
  return work.executor.atomically('write', (_one, rows) => run(rows));
};
