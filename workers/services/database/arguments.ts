import { z } from 'zod';
import { CallFault } from '../../runtimes/runtime.ts';
import type { Row } from './statements.ts';

/** The arguments of a call. User code wrote them: nothing is trusted before it was checked here. */

// The protocol counts parameters in 16 bits.
const maxParams = 65_535;
const maxRows = 10_000;

const isRow = (value: unknown): value is Row => typeof value === 'object' && value !== null && !Array.isArray(value);
const withoutNul = (text: string): boolean => !text.includes('\0');

const sqlText = (what: string) =>
  z.string({ error: `${what} must be SQL text` }).refine(withoutNul, `${what} must not hold NUL`);

const tx = z.int('the transaction is unknown').nullish();
const style = z.literal('percent').nullish();
const params = z
  .array(z.unknown(), 'params must be a list')
  .max(maxParams, `at most ${maxParams} params are possible`)
  .nullish();
const table = z.string({ error: 'the table’s name must be text' });
const row = z.custom<Row>(isRow, 'data must be an object of columns and values');
const isRows = (value: unknown): value is Row | Row[] => isRow(value) || (Array.isArray(value) && value.every(isRow));
const rows = z
  .custom<Row | Row[]>(isRows, 'data must be a row, or a list of rows')
  .refine(
    (data) => !Array.isArray(data) || data.length <= maxRows,
    `at most ${maxRows} rows may be inserted at a time`,
  );

const needsWhere = 'where must be SQL text that says which rows; "true" means all of them';
const required = z.string({ error: needsWhere }).refine((text) => text.trim() !== '', needsWhere);

export const queryArgs = z.object({ tx, style, sql: sqlText('sql'), params });
export const insertArgs = z.object({ tx, table, data: rows });
export const selectArgs = z.object({ tx, style, table, where: sqlText('where').nullish(), params });
export const updateArgs = z.object({
  tx,
  style,
  table,
  data: row,
  where: required.refine(withoutNul, 'where must not hold NUL'),
  params,
});
export const removeArgs = z.object({
  tx,
  style,
  table,
  where: required.refine(withoutNul, 'where must not hold NUL'),
  params,
});
export const endArgs = z.object({ tx: z.int('the transaction is unknown') });

/** @throws {CallFault} that says what is wrong first */
export const parseArgs = <Schema extends z.ZodType>(schema: Schema, op: string, args: unknown): z.output<Schema> => {
  const parsed = schema.safeParse(args);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new CallFault('TypeError', `${op}: ${issue?.message ?? 'the arguments are not understood'}.`);
};
