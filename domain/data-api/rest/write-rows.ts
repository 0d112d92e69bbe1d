import { DataError } from '#domain/data-api/errors.ts';
import type { Condition, ReadPlan } from '#domain/data-api/plan.ts';
import type { Column, Table } from '#domain/data-api/schema/types.ts';
import type { SqlBuilder } from '#domain/data-api/sql/builder.ts';
import { conditionSql } from '#domain/data-api/sql/conditions.ts';
import {
  type InsertPlan,
  type Source,
  deleteSql,
  insertSql,
  unchangedSql,
  updateSql,
  written,
} from '#domain/data-api/sql/write.ts';
import { type Change, type Changed, type Wanted, makeChange } from './change.ts';
import type { Form } from './media.ts';
import { payloadOf } from './body-reading.ts';
import { type Payload, invalidBody } from './payload.ts';
import { type PreferenceName, preferenceApplied } from './prefer.ts';
import { noSuchRow } from './read-rows.ts';
import { type RestAnswer, type Work, headersOf } from './request.ts';
import { bothConditions, columnsOf, hasPage, planOf, returnedPlan, rowCondition, tableOf } from './tables.ts';

/** `headers-only` is for POST alone; elsewhere a header has nothing to report. */
export const wantedOf = ({ preferences }: Work, byDefault: Wanted): Wanted => {
  if (preferences.return === 'representation') return 'rows';
  if (preferences.return === 'minimal') return 'nothing';
  return preferences.return === 'headers-only' ? 'keys' : byDefault;
};

const always = ['handling', 'timezone'] as const;

interface Answered {
  readonly status: number;
  readonly range: string;
  readonly applied: readonly PreferenceName[];
  readonly location?: string;
}

export const answerOf = (work: Work, { body }: Changed, wanted: Wanted, answered: Answered): RestAnswer => ({
  status: answered.status,
  headers: headersOf({
    'Content-Range': answered.range,
    Location: answered.location ?? '',
    'Preference-Applied': preferenceApplied(work.preferences, answered.applied),
  }),
  type: wanted === 'rows' ? work.form.type : '',
  body: wanted === 'rows' ? body : '',
});

/** The written columns: those of `columns=`, else those that the objects name, which then all must name. */
export const writtenColumns = ({ query }: Work, table: Table, payload: Payload): Column[] => {
  if (query.columns === null && !payload.uniform) throw invalidBody('All object keys must match');
  return columnsOf(table, new Set(query.columns ?? payload.keys));
};

const conflictOf = ({ query, preferences }: Work, table: Table) => {
  const on = query.onConflict;
  const columns = on === null ? table.primaryKey : columnsOf(table, new Set(on)).map(({ name }) => name);
  if (preferences.resolution === undefined || columns.length === 0) return null;
  const action = preferences.resolution === 'merge-duplicates' ? ('merge' as const) : ('ignore' as const);
  return { columns, action };
};

const counted = ({ preferences }: Work, rows: number): number | '*' => (preferences.count === undefined ? '*' : rows);

const locationOf = ({ dialect }: Work, table: Table, keys: readonly string[]): string => {
  if (keys.length === 0) return '';
  const address = table.primaryKey.map(
    (key, i) => `${encodeURIComponent(key)}=eq.${encodeURIComponent(keys[i] ?? '')}`,
  );
  return `${dialect.root}/${encodeURIComponent(table.name)}?${address.join('&')}`;
};

interface Creation {
  readonly insert: InsertPlan;
  readonly many: boolean;
}

const creationOf = (work: Work, table: Table): Creation => {
  const { request, preferences } = work;
  const payload = payloadOf(request);
  const columns = writtenColumns(work, table, payload);
  const missing = preferences.missing ?? 'null';
  return {
    insert: { table, columns, source: payload, missing, conflict: conflictOf(work, table) },
    many: payload.many,
  };
};

/**
 * The interface promises one object for one object. A caller that sets a preference for the return gets PostgREST's
 * form, a list unless it requests another one.
 */
const createdForm = ({ preferences, form }: Work, many: boolean): Form =>
  preferences.return === undefined && !many && form.kind === 'array' ? { ...form, kind: 'object' } : form;

/** Not 201: all rows were there already. */
const onlyMerged = ({ conflict, source }: InsertPlan, { inserted }: Changed): boolean =>
  conflict?.action === 'merge' && inserted === 0 && source.rows > 0;

/** POST: creates rows, or merges them into those that are there. */
export const createRows = async (work: Work, name: string): Promise<RestAnswer> => {
  const table = tableOf(work.schema, name);
  const { insert, many } = creationOf(work, table);
  const wanted = wantedOf(work, work.dialect.returnsCreated ? 'rows' : 'nothing');
  const shaped: Work = { ...work, form: createdForm(work, many) };
  const change: Change = {
    plan: returnedPlan(work, table),
    dml: (builder, returning) => insertSql(insert, builder.bind, returning),
    merges: insert.conflict?.action === 'merge',
  };
  const changed = await makeChange(shaped, change, { wanted, single: work.form.kind === 'object' });
  return answerOf(shaped, changed, wanted, {
    status: onlyMerged(insert, changed) ? 200 : 201,
    range: `*/${counted(work, changed.rows)}`,
    applied: [...(insert.conflict === null ? [] : (['resolution'] as const)), 'return', 'count', ...always, 'missing'],
    location: wanted === 'keys' && changed.rows === 1 ? locationOf(work, table, changed.keys) : '',
  });
};

/** @throws {DataError} `filter_required`: who means every row says so, e.g. `id=not.is.null` */
const requireFilter = ({ request }: Work, where: Condition | null): Condition => {
  if (where !== null && !(where.kind === 'and' && where.parts.length === 0)) return where;
  throw new DataError(400, 'filter_required', `${request.method} needs a filter: it would touch every row.`, {
    hint: 'Name the rows, e.g. ?id=eq.1; all of them are ?id=not.is.null.',
  });
};

export const oneObject = (payload: Payload): Source => {
  if (payload.rows > 1) throw invalidBody('The body must be one object');
  return payload;
};

/** @throws {DataError} PGRST114: PostgREST once bounded the change by it, and does so no more; the rows must be named */
const refusePage = ({ request, query }: Work): void => {
  if (!hasPage(query.limit) && !hasPage(query.offset)) return;
  throw new DataError(400, 'PGRST114', `limit/offset querystring parameters are not allowed for ${request.method}`, {
    hint: 'Name the rows by filters, e.g. ?id=in.(1,2,3); max-affected with handling=strict refuses to change more than that.',
  });
};

/** How rows are meant: by filters, or one by its address. */
interface Chosen {
  readonly table: Table;
  readonly plan: ReadPlan;
  readonly where: Condition;
  readonly id: string | null;
}

const chosenOf = (work: Work, name: string, id: string | null): Chosen => {
  const table = tableOf(work.schema, name);
  const plan = planOf(work, table);
  const where = id === null ? requireFilter(work, plan.where) : bothConditions(plan.where, rowCondition(table, id));
  const chosen = requireFilter(work, where);
  refusePage(work);
  return { table, plan: returnedPlan(work, table), where: chosen, id };
};

type Dml = (builder: SqlBuilder, where: string, returning: string) => string;

/** PATCH and DELETE: the same but for the statement, and for what is said of it. */
const changeChosen = async (
  work: Work,
  { plan, where, id }: Chosen,
  dml: Dml,
  byDefault: Wanted,
): Promise<RestAnswer> => {
  const isRow = id !== null;
  const wanted = wantedOf(work, byDefault);
  const shaped: Work = isRow && work.form.kind === 'array' ? { ...work, form: { ...work.form, kind: 'object' } } : work;
  const change = {
    plan,
    dml: (b: SqlBuilder, returning: string) => dml(b, conditionSql(where, written, b), returning),
    merges: false,
  };
  const changed = await makeChange(shaped, change, { wanted, single: !isRow && work.form.kind === 'object' });
  if (isRow && changed.rows === 0) throw noSuchRow();
  const total = counted(work, changed.rows);
  const isUpdate = work.request.method === 'PATCH';
  return answerOf(shaped, changed, wanted, {
    status: wanted === 'rows' ? 200 : 204,
    range: isUpdate && changed.rows > 0 ? `0-${changed.rows - 1}/${total}` : `*/${total}`,
    applied: ['return', 'count', ...(isUpdate ? (['missing'] as const) : []), 'handling', 'timezone', 'maxAffected'],
  });
};

/** @param id of one row; null: those that the filters choose */
export const updateRows = (work: Work, name: string, id: string | null): Promise<RestAnswer> => {
  const chosen = chosenOf(work, name, id);
  const { table } = chosen;
  const payload = payloadOf(work.request);
  const columns = writtenColumns(work, table, payload);
  const update = { table, columns: payload.rows === 0 ? [] : columns, source: oneObject(payload) };
  // A row that is asked to change in nothing is there all the same.
  const stays = id !== null && update.columns.length === 0;
  const dml: Dml = (builder, where, returning) =>
    stays ? unchangedSql(table, where, returning) : updateSql(update, builder.bind, where, returning);
  return changeChosen(work, chosen, dml, id === null ? 'nothing' : 'rows');
};

/** @param id of one row; null: those that the filters choose */
export const deleteRows = (work: Work, name: string, id: string | null): Promise<RestAnswer> => {
  const chosen = chosenOf(work, name, id);
  const dml: Dml = (_builder, where, returning) => deleteSql(chosen.table, where, returning);
  return changeChosen(work, chosen, dml, 'nothing');
};
