import type { AnswerBody } from '#domain/data-api/answer-body.ts';
import { DataError } from '#domain/data-api/errors.ts';
import type { TextRow, ReadPlan, Sql } from '../data-api.ts';
import { type SqlBuilder, createSqlBuilder, bodyOf, piecesSql } from '../sql/sql.ts';
import { type ReadOptions, answerSql, plannedCountSql, plannedRows } from '#domain/data-api/sql/read.ts';
import {
  type Form,
  notSingular,
  preferenceApplied,
  type RestAnswer,
  type Work,
  headersOf,
  maxRows,
} from './request.ts';
import { contentRange, pageStatus } from './read-plan.ts';
import { bothConditions, pageOf, planOf, rowCondition, tableOf } from './tables.ts';

/** The columns `body, n, total` over a source, in the form that was asked for; see {@link answerSql}. */
export const pageSql = (
  plan: ReadPlan,
  form: Form,
  builder: SqlBuilder,
  options: Omit<ReadOptions, 'shape'>,
): string => {
  const answer = answerSql(plan, { ...options, shape: form.kind }, builder);
  if (!form.stripNulls) return answer;
  return `select json_strip_nulls(s."body"::json)::text as "body", s."n", s."total" from (${answer}) s`;
};

export interface Page {
  readonly body: AnswerBody;
  readonly rows: number;
  readonly total: number | null;
}

/** The page of a statement whose body was cut. */
export const pageOfRows = (answered: readonly TextRow[]): Page => {
  const [, rows, total = null] = answered[0] ?? [];
  return { body: bodyOf(answered) ?? 'null', rows: Number(rows), total: total === null ? null : Number(total) };
};

/** The answer of rows that were read: status and `Content-Range` say which part of all they are. */
export const pageAnswer = ({ form, preferences }: Work, offset: number, { body, rows, total }: Page): RestAnswer => {
  const status = pageStatus(offset, rows, total);
  if (form.kind === 'object' && rows !== 1) throw notSingular(rows);
  return {
    status,
    headers: headersOf({
      'Content-Range': contentRange(offset, rows, total),
      'Preference-Applied': preferenceApplied(preferences, ['count', 'handling', 'timezone']),
    }),
    type: form.type,
    body,
  };
};

/** Returns the planner's estimate, where the request accepts one. */
const plannedTotal = async ({ preferences, executor }: Work, plan: ReadPlan): Promise<number | null> => {
  if (preferences.count !== 'planned' && preferences.count !== 'estimated') return null;
  const [explained] = await executor.one('read', plannedCountSql(plan));
  return plannedRows(explained ?? '[]');
};

const statementOf = (plan: ReadPlan, form: Form, exactCount: boolean): Sql => {
  const builder = createSqlBuilder();
  return builder.finish(piecesSql(pageSql(plan, form, builder, { exactCount }), ['n', 'total'], builder));
};

const readPage = async (work: Work, plan: ReadPlan): Promise<Page> => {
  const planned = await plannedTotal(work, plan);
  const { count } = work.preferences;
  // Few rows are counted in no time; only many are worth an estimate.
  const exactCount = count === 'exact' || (count === 'estimated' && (planned ?? 0) <= maxRows);
  const page = pageOfRows(await work.executor.rows('read', statementOf(plan, work.form, exactCount)));
  if (planned === null || exactCount) return page;
  return { ...page, total: Math.max(planned, plan.offset + page.rows) };
};

/** GET of a table. */
export const readRows = async (work: Work, name: string): Promise<RestAnswer> => {
  const plan = planOf(work, tableOf(work.schema, name));
  const page = pageOf(work, plan);
  return pageAnswer(work, page.offset, await readPage(work, { ...plan, ...page }));
};

export const noSuchRow = (): DataError => new DataError(404, 'not_found', 'No such row.');

/** GET of one row by its address: the row itself. */
export const readRow = async (work: Work, name: string, id: string): Promise<RestAnswer> => {
  const table = tableOf(work.schema, name);
  const plan = planOf(work, table);
  const where = bothConditions(plan.where, rowCondition(table, id));
  const form: Form = work.form.kind === 'array' ? { ...work.form, kind: 'object' } : work.form;
  const page = await readPage({ ...work, form }, { ...plan, where, order: [], limit: 1, offset: 0 });
  if (page.rows === 0) throw noSuchRow();
  return { status: 200, headers: {}, type: form.type, body: page.body };
};
