import type { AnswerBody } from '#domain/data-api/answer-body.ts';
import type { TextRow } from '#domain/data-api/db.ts';
import type { SqlBuilder } from './builder.ts';

/**
 * Bytes of one piece. As one row, 12 MB held the event loop up for 60 ms and more: the text was copied eight times while it
 * arrived, and then decoded at once.
 */
export const pieceBytes = 96 * 1024;

/** Where a piece begins that shall begin at `at`: up to three bytes before it, where a character of UTF-8 would be split. */
const startSql = (bytes: string, at: string): string => {
  const isInside = (back: number): string => `get_byte(${bytes}, ${at} - ${back}) & 192 = 128`;
  const back = `case when ${at} >= length(${bytes}) or not ${isInside(0)} then 0 when not ${isInside(1)} then 1 when not ${isInside(2)} then 2 else 3 end`;
  return `(${at} - ${back})`;
};

/**
 * Cuts the column `body text` of an answer of one row: a text of more than {@link pieceBytes} comes in as many rows as it
 * has pieces, in order; any other, and null, as it is. It is cut by bytes, so that no value, however long, comes at once.
 * @param answer a SELECT that can bear an OFFSET
 * @param columns the others of its columns, which are the same in each row
 */
export const piecesSql = (answer: string, columns: readonly string[], builder: SqlBuilder): string => {
  const [one, whole, cut] = [builder.alias(), builder.alias(), builder.alias()];
  // The offset keeps the server from making the body for each of its uses.
  const long = `case when octet_length(${one}."body") > ${pieceBytes} then convert_to(${one}."body", 'UTF8') end`;
  const wholes = `select ${one}.*, ${long} as "bytes" from (${answer} offset 0) ${one} offset 0`;
  const at = `generate_series(0, coalesce(length(${whole}."bytes") - 1, 0), ${pieceBytes})`;
  const cuts = `select ${whole}.*, ${at} as "at" from (${wholes}) ${whole}`;
  const bytes = `${cut}."bytes"`;
  const start = startSql(bytes, `${cut}."at"`);
  const end = startSql(bytes, `(${cut}."at" + ${pieceBytes})`);
  const piece = `convert_from(substr(${bytes}, ${start} + 1, ${end} - ${start}), 'UTF8')`;
  const body = `case when ${bytes} is null then ${cut}."body" else ${piece} end as "body"`;
  return `select ${[body, ...columns.map((name) => `${cut}."${name}"`)].join(', ')} from (${cuts}) ${cut}`;
};

/** The body out of the rows that {@link piecesSql} answers: their first column. Null where it is null. */
export const bodyOf = (rows: readonly TextRow[]): AnswerBody | null =>
  rows.length > 1 ? rows.map(([piece]) => piece ?? '') : (rows[0]?.[0] ?? null);

/**
 * Several expressions of type text as one answer: rows `body text, part int`, where `part` is the place in the list of the
 * text that the piece is of.
 */
export const partsSql = (texts: readonly string[], builder: SqlBuilder): string => {
  const [row, part] = [builder.alias(), builder.alias()];
  const columns = texts.map((text, index) => `${text} as "c${index}"`);
  const values = texts.map((_, index) => `(${row}."c${index}", ${index})`);
  const answer = `select ${part}."body", ${part}."part" from (select ${columns.join(', ')} offset 0) ${row}
    cross join lateral (values ${values.join(', ')}) ${part}("body", "part")`;
  return piecesSql(answer, ['part'], builder);
};

/** The texts out of the rows that {@link partsSql} answers. */
export const bodiesOf = (rows: readonly TextRow[]): (AnswerBody | null)[] =>
  Array.from(Map.groupBy(rows, ([, part]) => part).values(), bodyOf);
