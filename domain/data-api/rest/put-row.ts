import { DataError } from '#domain/data-api/errors.ts';
import type { Condition } from '#domain/data-api/plan.ts';
import type { Table } from '#domain/data-api/schema/types.ts';
import type { SqlBuilder } from '#domain/data-api/sql/builder.ts';
import { insertSql } from '#domain/data-api/sql/write.ts';
import { type Changed, makeChange } from './change.ts';
import { payloadOf } from './body-reading.ts';
import type { RestAnswer, Work } from './request.ts';
import { hasPage, planOf, returnedPlan, tableOf } from './tables.ts';
import { answerOf, oneObject, wantedOf, writtenColumns } from './write-rows.ts';

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
