import type { SelectionSetNode } from 'graphql';
import { quoteName, quoteText } from '#domain/data-api/sql/names.ts';
import { piecesSql } from '#domain/data-api/sql/pieces.ts';
import { fetchable } from '#domain/data-api/sql/within.ts';
import { type Making, type SelectedField, collect } from './collect.ts';
import type { GraphTable } from './model.ts';
import { fieldsSql } from './select.ts';

interface Change {
  readonly table: GraphTable;
  readonly alias: string;
  /** The statement without RETURNING. */
  readonly text: string;
}

/** The rows that a change left are in a CTE of this name. */
const changed = 'changed';

/**
 * Returns the list of RETURNING: no columns of the rows unless the answer shows them, because they require the right to
 * read.
 */
const withChanged = ({ alias, text }: Change, shows: boolean): string =>
  `with ${changed} as (${text} returning ${shows ? `${alias}.*` : '1'})`;

/** How many levels there are above the fields of a row, and how many rows are reckoned with. */
const place = (level: number) => ({ level, rows: 1 });

const rowsSql = ({ table }: Change, sets: readonly SelectionSetNode[], level: number, making: Making): string => {
  const [source, row] = [making.builder.alias(), making.builder.alias()];
  const list = fieldsSql(table, sets, { alias: source, place: place(level) }, making);
  return `(select ${list} from ${changed} ${source}) ${row}`;
};

const aliasOf = (rows: string): string => rows.slice(rows.lastIndexOf(' ') + 1);

const partSql = (one: SelectedField, change: Change, making: Making): string => {
  if (one.name === '__typename') return `${quoteText(`${change.table.name}_mutation_response`)}::text`;
  if (one.name === 'affected_rows') return `(select count(*) from ${changed})`;
  const rows = rowsSql(change, one.sets, 2, making);
  return `(select coalesce(json_agg(${aliasOf(rows)}.*), '[]'::json) from ${rows})`;
};

/** A statement that changes rows and answers the `t_mutation_response` as JSON text, in pieces. */
export const responseSql = (selected: SelectedField, change: Change, making: Making): string => {
  const parts = collect(selected.sets, making);
  making.budget.fields(parts.length, 2);
  const list = parts.map((one) => `${partSql(one, change, making)} as ${quoteName(one.key)}`).join(', ');
  const row = making.builder.alias();
  const shows = parts.some(({ name }) => name === 'returning');
  const answer = `select ${fetchable(`row_to_json(${row}.*)::text`)} as "body" from (select ${list}) ${row}`;
  return `${withChanged(change, shows)} ${piecesSql(answer, [], making.builder)}`;
};

/** A statement that changes one row at most and answers it as JSON text, in pieces, or null. */
export const rowSql = (selected: SelectedField, change: Change, making: Making): string => {
  const rows = rowsSql(change, selected.sets, 1, making);
  const body = fetchable(`row_to_json(${aliasOf(rows)}.*)::text`);
  const answer = `select (select ${body} from ${rows}) as "body"`;
  return `${withChanged(change, true)} ${piecesSql(answer, [], making.builder)}`;
};
