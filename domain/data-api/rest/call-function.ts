import { DataError } from '#domain/data-api/errors.ts';
import type { RunRows, TextRow } from '#domain/data-api/db.ts';
import type { ReadPlan, Sql } from '#domain/data-api/plan.ts';
import type { Column, DataSchema, Routine, Table } from '#domain/data-api/schema/types.ts';
import { type SqlBuilder, createSqlBuilder } from '#domain/data-api/sql/builder.ts';
import { calledSql } from '#domain/data-api/sql/rpc.ts';
import { piecesSql } from '#domain/data-api/sql/pieces.ts';
import { fetchable } from '#domain/data-api/sql/within.ts';
import { requireAffordable } from './change.ts';
import { maxOwnAnswerLength, ownAnswerOf } from './function-answer.ts';
import { type FunctionCall, functionCallOf } from './function-input.ts';
import type { Form } from './media.ts';
import { preferenceApplied } from './prefer.ts';
import { pageAnswer, pageOfRows, pageSql } from './read-rows.ts';
import { type RestAnswer, type Work, headersOf } from './request.ts';
import { pageOf, planOf } from './tables.ts';

const unknownColumn = (name: string): Column => ({
  name,
  type: 'unknown',
  baseType: 'unknown',
  nullable: true,
  default: null,
  generated: false,
  comment: null,
  enumValues: null,
});

const noColumns: ReadonlyMap<string, Column> = new Map();

/** Columns of rows that only the server knows: every name may be one, and the server says when it is not. */
const anyColumns: ReadonlyMap<string, Column> = {
  size: 0,
  get: unknownColumn,
  has: () => true,
  forEach: () => undefined,
  entries: () => noColumns.entries(),
  keys: () => noColumns.keys(),
  values: () => noColumns.values(),
  [Symbol.iterator]: () => noColumns.entries(),
};

/** Returns the table that stands for a function's rows, where they are those of a table. */
const resultTable = ({ tables }: DataSchema, { name, comment, sql, returns }: Routine): Table => {
  const table = returns.table === null ? undefined : tables.get(returns.table);
  if (table !== undefined) return table;
  const columns = returns.composite ? anyColumns : new Map([['value', unknownColumn('value')]]);
  return {
    name,
    sql,
    comment,
    columns,
    kind: 'view',
    rowSecurity: false,
    primaryKey: [],
    uniques: [],
    relationships: [],
    insertable: false,
    updatable: false,
  };
};

// Set by the function for its own answer; asked after it has run.
const ownSettings = ['response.status', 'response.headers'];
const ownAnswer = ownSettings
  .map((name) => `left(current_setting('${name}', true), ${maxOwnAnswerLength + 1}) as "${name}"`)
  .join(', ');

interface Calling {
  readonly work: Work;
  readonly call: FunctionCall;
  readonly plan: ReadPlan;
}

/** A list of values, or the one value. */
const valuesSql = ({ work, call, plan }: Calling, builder: SqlBuilder): string => {
  const { returns } = call.routine;
  if (returns.void) return `select '' as "body", count(*) as "n", null as "total" from called`;
  if (!returns.set)
    return `select coalesce(to_json(c.value)::text, 'null') as "body", 1 as "n", null as "total" from called c`;
  const page = `select c.value from called c limit ${builder.bind(String(plan.limit))} offset ${builder.bind(String(plan.offset))}`;
  const list = `json_agg(p.value)`;
  const body = work.form.kind === 'object' ? `coalesce(${list}->0, 'null')` : `coalesce(${list}, '[]')`;
  const total = work.preferences.count === undefined ? 'null::bigint' : '(select count(*) from called)';
  return `select ${body}::text as "body", count(*) as "n", ${total} as "total" from (${page}) p`;
};

const rowsSql = ({ work, call, plan }: Calling, builder: SqlBuilder): string => {
  const isOne = !call.routine.returns.set && work.form.kind === 'array';
  const form: Form = isOne ? { ...work.form, kind: 'object' } : work.form;
  // A function says nothing of how much it returns before it has: to plan a count is to call it.
  const exactCount = work.preferences.count !== undefined;
  return pageSql(plan, form, builder, { exactCount, from: 'called' });
};

const statementOf = (calling: Calling): Sql => {
  const { work, call } = calling;
  const builder = createSqlBuilder();
  const called = calledSql(call.routine, call.given, builder.bind);
  const asRows = call.routine.returns.composite || work.form.kind === 'csv';
  const page = asRows && !call.routine.returns.void ? rowsSql(calling, builder) : valuesSql(calling, builder);
  const answer = `select ${fetchable('p."body"')} as "body", p."n", p."total", ${ownAnswer} from (${page}) p`;
  const columns = ['n', 'total', ...ownSettings];
  return builder.finish(`with called as materialized (${called}) ${piecesSql(answer, columns, builder)}`);
};

/** @throws {DataError} PGRST107: lines need names, and those of these rows are known to the server alone */
const requireNames = ({ work, call, plan }: Calling): void => {
  const { returns } = call.routine;
  const isNamed = plan.table.columns !== anyColumns || plan.fields.every(({ kind }) => kind !== 'all');
  if (work.form.kind !== 'csv' || !returns.composite || isNamed) return;
  throw new DataError(406, 'PGRST107', 'None of these media types are available: text/csv', {
    hint: 'Name the columns of the result: ?select=a,b.',
  });
};

const isStrict = ({ preferences }: Work): boolean =>
  preferences.maxAffected !== undefined && preferences.handling === 'strict';

const requireSet = (work: Work, { returns }: Routine): void => {
  if (!isStrict(work) || returns.set) return;
  const message = 'Function must return SETOF or TABLE when max-affected preference is used with handling=strict';
  throw new DataError(400, 'PGRST128', message);
};

/** @throws {DataError} 25006: in a transaction that writes, nothing keeps such a function from writing, too */
const requireHarmless = ({ request, executor }: Work, { name, volatility }: Routine): void => {
  if (!executor.isShared || request.method === 'POST' || volatility !== 'volatile') return;
  throw new DataError(405, '25006', `${request.method} in a batch cannot call ${name}, which may write.`, {
    hint: 'Call it with POST, or declare it STABLE if it only reads.',
  });
};

const answerOf = (work: Work, { returns }: Routine, plan: ReadPlan, rows: readonly TextRow[]): RestAnswer => {
  const page = pageOfRows(rows);
  const [, , , status, headers] = rows[0] ?? [];
  const own = ownAnswerOf(status ?? null, headers ?? null);
  const answer = pageAnswer(work, plan.offset, page);
  const applied = preferenceApplied(work.preferences, ['count', 'handling', 'timezone', 'maxAffected']);
  const allHeaders = headersOf({ ...answer.headers, 'Preference-Applied': applied, ...own.headers });
  if (returns.void) return { status: own.status ?? 204, headers: allHeaders, type: '', body: '' };
  return { ...answer, status: own.status ?? answer.status, headers: allHeaders };
};

/**
 * Calls a function. GET can change nothing, whatever the function tries; nor can POST where the function promises not to.
 */
export const callFunction = (work: Work, name: string): Promise<RestAnswer> => {
  const call = functionCallOf(work, name);
  const { routine } = call;
  requireSet(work, routine);
  requireHarmless(work, routine);
  const readPlan = planOf(work, resultTable(work.schema, routine));
  const plan = { ...readPlan, ...pageOf(work, readPlan) };
  const calling = { work, call, plan };
  requireNames(calling);
  const sql = statementOf(calling);
  const run = async (rows: RunRows): Promise<RestAnswer> => {
    const answered = await rows(sql);
    requireAffordable(work, pageOfRows(answered).rows);
    return answerOf(work, routine, plan, answered);
  };
  const mode = work.request.method === 'POST' && routine.volatility === 'volatile' ? 'write' : 'read';
  // A refusal after the function has run undoes it: too many rows, no such page, invalid headers.
  if (mode === 'read') return run((readPlan) => work.executor.rows(mode, readPlan));
  return work.executor.atomically(mode, (_one, rows) => run(rows));
};
