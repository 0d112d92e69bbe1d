import type { AnswerBody } from '../answer-body.ts';
import { DataError } from '../errors.ts';
import type { RunRows, TextRow, ReadPlan, Sql, Condition } from '../data-api.ts';
import { type SqlBuilder, createSqlBuilder, quoteName, bodyOf, piecesSql, fetchable } from '../sql/sql.ts';
import { written, type InsertPlan, type Source, deleteSql, insertSql, unchangedSql, updateSql } from '../sql/write.ts';
import {
  notSingular,
  type Work,
  type Form,
  type PreferenceName,
  preferenceApplied,
  type RestAnswer,
  headersOf,
} from './request.ts';
import { pageSql, noSuchRow } from './read-rows.ts';
import type { Column, Table } from '../schema/schema.ts';
import { conditionSql } from '../sql/conditions.ts';
import { payloadOf, type Payload, invalidBody } from './payload.ts';
import { bothConditions, columnsOf, hasPage, planOf, returnedPlan, rowCondition, tableOf } from './tables.ts';

/** The part of the changed rows that is returned. */
type Wanted = 'rows' | 'keys' | 'nothing';

/** A change of rows, before it is SQL. */
interface Change {
  readonly plan: ReadPlan;
  /** INSERT, UPDATE or DELETE with that behind RETURNING. */
  readonly dml: (builder: SqlBuilder, returning: string) => string;
  /** Distinguishes inserted rows from updated ones. */
  readonly merges: boolean;
}

interface Changed {
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

interface ChangeOptions {
  readonly wanted: Wanted;
  /** The request asked for a single object: anything but one row is undone. */
  readonly single: boolean;
  /** Throws when what was done must not stay. */
  readonly check?: (changed: Changed) => void;
}

/** Makes the change; what a check refuses is rolled back. */
const makeChange = (work: Work, change: Change, options: ChangeOptions): Promise<Changed> => {
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

/** `headers-only` is for POST alone; elsewhere a header has nothing to report. */
const wantedOf = ({ preferences }: Work, byDefault: Wanted): Wanted => {
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

const answerOf = (work: Work, { body }: Changed, wanted: Wanted, answered: Answered): RestAnswer => ({
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
const writtenColumns = ({ query }: Work, table: Table, payload: Payload): Column[] => {
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

const oneObject = (payload: Payload): Source => {
  if (payload.rows > 1) throw invalidBody('The body must be one object');
  return payload;
};

/**
 * @throws {DataError} PGRST114: PostgREST once bounded the change by it, and does so no more; the rows must be named
 */
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

/** The columns that a condition compares by `eq`, and with what; null when it says anything else. */
const equalities = (where: Condition | null): ReadonlyMap<string, string> | null => {
  const parts = where?.kind === 'and' ? where.parts : [where];
  const values = new Map<string, string>();
  for (const part of parts) {
    const isEqual = part?.kind === 'compare' && part.operator === 'eq' && part.quantifier === undefined;
    const column = isEqual && part.value.path.length === 0 ? part.value.column : null;
    if (!isEqual || column === null || values.has(column.name)) return null;
    values.set(column.name, part.operand);
  }
  return values;
};

/** The values of the primary key that PUT's address names, each once and by `eq`. */
const addressed = ({ primaryKey }: Table, where: Condition | null): ReadonlyMap<string, string> => {
  const values = equalities(where);
  if (
    values !== null &&
    values.size > 0 &&
    values.size === primaryKey.length &&
    primaryKey.every((key) => values.has(key))
  )
    return values;
  const message = "Filters must include all and only primary key columns with 'eq' operators";
  throw new DataError(405, 'PGRST105', message);
};

const requireWritten = ({ rows }: Changed): void => {
  if (rows > 0) return;
  throw new DataError(400, 'PGRST115', 'Payload values do not match URL in primary key column(s)');
};

/** PUT: one row, created or merged into the one that is there. */
export const putRow = async (work: Work, name: string): Promise<RestAnswer> => {
  const table = tableOf(work.schema, name);
  if (hasPage(work.query.limit) || hasPage(work.query.offset)) {
    throw new DataError(400, 'PGRST114', 'limit/offset querystring parameters are not allowed for PUT');
  }
  const payload = payloadOf(work.request);
  const plan = planOf(work, table);
  const values = addressed(table, plan.where);
  const conflict = { columns: table.primaryKey, action: 'merge' } as const;
  const columns = writtenColumns(work, table, payload);
  // Without its key the object is not the row that the address means.
  if (!table.primaryKey.every((key) => columns.some((column) => column.name === key)))
    requireWritten({ body: '', rows: 0, inserted: 0, keys: [] });
  const source = oneObject(payload);
  const dml = (builder: SqlBuilder, returning: string): string => {
    const only = new Map([...values].map(([key, value]) => [key, builder.bind(value)]));
    return insertSql({ table, columns, source, missing: 'null', conflict, only }, builder.bind, returning);
  };
  const wanted = wantedOf(work, 'nothing');
  const change = { plan: returnedPlan(work, table), dml, merges: true };
  const changed = await makeChange(work, change, {
    wanted,
    single: work.form.kind === 'object',
    check: requireWritten,
  });
  const status = changed.inserted > 0 ? 201 : 200;
  return answerOf(work, changed, wanted, {
    status: wanted === 'rows' ? status : 204,
    range: '',
    applied: ['return', 'count', 'handling', 'timezone'],
  });
};
