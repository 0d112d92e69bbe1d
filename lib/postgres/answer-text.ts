import type { ClientBase } from 'pg';
import { type Answer, maxBytes, runBound } from './bound-query.ts';
import { tooMuch } from './answer-too-large.ts';
import { JsonText } from '../json-text.ts';
import { type ToJson, isOwnType, toJsonOf } from './values.ts';

/** Which types of a database are arrays. A type keeps its number for life. */
export class OwnTypes {
  readonly #known = new Set<number>();
  readonly #arrays = new Set<number>();

  /**
   * The array types among those of the database's own that an answer holds; asks the catalog for those not seen before.
   */
  async arraysOf(client: ClientBase, { columns }: Answer): Promise<ReadonlySet<number>> {
    const unknown = columns.map(({ type }) => type).filter((type) => isOwnType(type) && !this.#known.has(type));
    // In a transaction that has failed there is nothing to ask; there are no rows either.
    if (unknown.length > 0 && client.getTransactionStatus() !== 'E') await this.#learn(client, unknown);
    return this.#arrays;
  }

  async #learn(client: ClientBase, types: readonly number[]): Promise<void> {
    const sql = `select oid from pg_catalog.pg_type
      where oid operator(pg_catalog.=) any ($1::pg_catalog.oid[]) and typcategory operator(pg_catalog.=) 'A'`;
    const { rows } = await runBound(client, { sql, params: [`{${types.join(',')}}`] });
    for (const [oid] of rows) this.#arrays.add(Number(oid));
    for (const type of types) this.#known.add(type);
  }
}

/** The longest answer as JSON: escapes and the names of columns, which each row repeats, come on top of the values. */
const maxTextLength = 2 * maxBytes;

/** Rows as a JSON array of objects. @throws {AnswerTooLarge} */
export const rowsText = ({ columns, rows }: Answer, ownArrays: ReadonlySet<number>): JsonText => {
  const writers = columns.map(({ name, type }) => ({
    key: `${JSON.stringify(name)}:`,
    toJson: toJsonOf(type, ownArrays),
  }));
  let length = 0;
  const texts = rows.map((row) => {
    const text = rowText(row, writers);
    length += text.length;
    if (length > maxTextLength) throw tooMuch(`more than ${maxTextLength / 1024 / 1024} MB as JSON`);
    return text;
  });
  return new JsonText(`[${texts.join(',')}]`);
};

const rowText = (
  row: readonly (string | null)[],
  writers: readonly { readonly key: string; readonly toJson: ToJson }[],
): string => {
  const parts = writers.map(({ key, toJson }, index) => {
    const value = row[index] ?? null;
    return key + (value === null ? 'null' : toJson(value));
  });
  return `{${parts.join(',')}}`;
};
