import { DataError } from '../errors.ts';
import type { Sql, PathStep, Value, ComparisonOperator, Field, ReadPlan, TextRow } from '../data-api.ts';
import type { AnswerBody } from '../answer-body.ts';

/** The parameters of one statement, and the names that it gives to its parts. */
export interface SqlBuilder {
  /**
   * @param text in the server's text form; its type is what the statement makes of it
   * @returns `$n`
   * @throws {DataError} when a statement would bind more than the wire can carry
   */
  readonly bind: (text: string | null) => string;
  /**
   * Counts conditions on related rows.
   * @throws {DataError} 54001 when there are more than the server should have to plan
   */
  readonly relate: (conditions: number) => void;
  /** A name for a row source that no other part of the statement has. */
  readonly alias: () => string;
  /** The statement, once its text is written. */
  readonly finish: (text: string) => Sql;
}

// A Bind message counts its parameters in 16 bits.
const maxParams = 65_535;

// To the planner each is one more table to join: 40 in one SELECT took a session all its memory.
export const maxRelated = 15;
// Subqueries have conditions of their own, which are planned by themselves.
const maxRelatedTogether = 100;

const tooManyRelated = (): DataError =>
  new DataError(400, '54001', `At most ${maxRelated} conditions on related rows can be asked for.`, {
    hint: `An inner relation is one, and so is a filter on one; subqueries have their own, ${maxRelatedTogether} altogether.`,
  });

export const createSqlBuilder = (): SqlBuilder => {
  const params: (string | null)[] = [];
  let aliases = 0;
  let related = 0;
  return {
    bind: (text) => {
      if (params.length === maxParams)
        throw new DataError(400, '54000', 'The request holds too many values.', {
          hint: 'Put values of one column into one list: column=in.(1,2,3).',
        });
      params.push(text);
      return `$${params.length}`;
    },
    relate: (conditions) => {
      related += conditions;
      if (conditions > maxRelated || related > maxRelatedTogether) throw tooManyRelated();
    },
    alias: () => `t${(aliases += 1)}`,
    finish: (text) => ({ text, params }),
  };
};

/** The text of a statement ends at a NUL: what is written into it must not hold one. */
const refuseNul = (text: string): string => {
  if (text.includes('\0')) throw new DataError(400, '22021', 'A name or a key holds the character NUL.');
  return text;
};

/** A name as SQL writes it, whatever it holds. */
export const quoteName = (name: string): string => `"${refuseNul(name).replaceAll('"', '""')}"`;

/** A text constant that reads the same with `standard_conforming_strings` on and off. */
export const quoteText = (text: string): string => {
  const quoted = `'${refuseNul(text).replaceAll("'", "''")}'`;
  return quoted.includes('\\') ? ` E${quoted.replaceAll('\\', '\\\\')}` : quoted;
};

/** A one-dimensional array in the server's text form; nothing in it is read as NULL. */
export const arrayText = (elements: readonly string[]): string =>
  `{${elements.map((element) => `"${element.replaceAll(/[\\"]/g, String.raw`\$&`)}"`).join(',')}}`;

// Words that name a type in SQL's grammar only: quoted, the server would search for a type of the user's.
const grammarTypes = new Set([
  'bigint',
  'bit',
  'bit varying',
  'boolean',
  'char',
  'character',
  'character varying',
  'dec',
  'decimal',
  'double precision',
  'float',
  'int',
  'integer',
  'national character',
  'nchar',
  'real',
  'smallint',
  'time with time zone',
  'time without time zone',
  'timestamp with time zone',
  'timestamp without time zone',
]);

/** Letters, digits and `_` in words; `[]` makes it an array. */
const castForm = /^[\p{L}_][\p{L}\p{N}_$]*(?: [\p{L}\p{N}_$]+)*(?:\[\])?$/u;

/**
 * A type's name as SQL writes it, in lower case as SQL would read it.
 * @throws {DataError} PGRST100 when it is no name
 */
const typeName = (cast: string): string => {
  if (!castForm.test(cast)) throw new DataError(400, 'PGRST100', `"${cast}" is not the name of a type.`);
  const isArray = cast.endsWith('[]');
  const name = (isArray ? cast.slice(0, -2) : cast).toLowerCase();
  return (grammarTypes.has(name) ? name : quoteName(name)) + (isArray ? '[]' : '');
};

const isJson = (baseType: string): boolean => baseType === 'json' || baseType === 'jsonb';

// In parentheses: `->-1` would be read as an operator of its own by some.
const keySql = (key: string | number): string => (typeof key === 'number' ? `(${key})` : quoteText(key));

const stepSql = ({ text, key }: PathStep): string => (text ? '->>' : '->') + keySql(key);

const castSql = (sql: string, cast: string | undefined): string =>
  cast === undefined ? sql : `cast(${sql} as ${typeName(cast)})`;

/** The bytes of the row before several rows are combined. */
export const rowValueSql = ({ column, path, cast }: Value, alias: string): string => {
  if (column === null) return '1';
  const base = `${alias}.${quoteName(column.name)}`;
  if (path.length === 0) return castSql(base, cast);
  // Arrays and composites are reached into as their JSON.
  const json = isJson(column.baseType) ? base : `to_jsonb(${base})`;
  return castSql(`(${json}${path.map(stepSql).join('')})`, cast);
};

/** The aggregate over a value that `rowValueSql` gave. */
export const aggregateSql = ({ column, aggregate, aggregateCast }: Value, rowValue: string): string => {
  const argument = column === null ? '*' : rowValue;
  return castSql(`${aggregate ?? 'count'}(${argument})`, aggregateCast);
};

/**
 * All rows of a source as one JSON list; `.*` and not its bare name, which could be a column's. Gathered before they
 * are written: `json_agg` takes a fifth longer.
 */
export const listSql = (row: string): string => `coalesce(array_to_json(array_agg(${row}.*)), '[]'::json)`;

/** Which operator of the server each of PostgREST's names is. Source: its documentation, "Operators". */
export const operatorSql = {
  eq: '=',
  neq: '<>',
  gt: '>',
  gte: '>=',
  lt: '<',
  lte: '<=',
  like: 'like',
  ilike: 'ilike',
  match: '~',
  imatch: '~*',
  cs: '@>',
  cd: '<@',
  ov: '&&',
  sl: '<<',
  sr: '>>',
  nxr: '&<',
  nxl: '&>',
  adj: '-|-',
  isdistinct: 'is distinct from',
} as const satisfies Record<ComparisonOperator, string>;

/** How a full-text search reads its words. */
export const searchSql = {
  fts: 'to_tsquery',
  plfts: 'plainto_tsquery',
  phfts: 'phraseto_tsquery',
  wfts: 'websearch_to_tsquery',
} as const;

export const isSql = {
  null: 'null',
  not_null: 'not null',
  true: 'true',
  false: 'false',
  unknown: 'unknown',
} as const;

/** Whether a relation is asked for and nothing of it (`author!inner()`): it has no key. */
export const showsNothing = (plan: ReadPlan): boolean =>
  plan.fields.every((field) => field.kind === 'relation' && showsNothing(field.plan));

const keysOfField = (field: Field, plan: ReadPlan): string[] => {
  if (field.kind === 'all') return [...plan.table.columns.keys()];
  if (field.kind !== 'relation') return [field.as];
  if (showsNothing(field.plan)) return [];
  return field.spread ? keysOf(field.plan) : [field.as];
};

/** The keys of the plan's objects, in their order. */
export const keysOf = (plan: ReadPlan): string[] => plan.fields.flatMap((field) => keysOfField(field, plan));

/**
 * The body of a statement that may have changed something: refused, and the change with it, when it is larger than what
 * can be fetched (30 MB; `migrations/project/0005_data_api.sql`). What only reads needs none: there the connection is
 * cut.
 * @param body an expression of type text
 */
export const fetchable = (body: string): string => `plinth_api.within(${body})`;

/**
 * Bytes of one piece. As one row, 12 MB held the event loop up for 60 ms and more: the text was copied eight times
 * while it arrived, and then decoded at once.
 */
export const pieceBytes = 96 * 1024;

/**
 * Where a piece begins that shall begin at `at`: up to three bytes before it, where a character of UTF-8 would be
 * split.
 */
const startSql = (bytes: string, at: string): string => {
  const isInside = (back: number): string => `get_byte(${bytes}, ${at} - ${back}) & 192 = 128`;
  const back = `case when ${at} >= length(${bytes}) or not ${isInside(0)} then 0 when not ${isInside(1)} then 1 when not ${isInside(2)} then 2 else 3 end`;
  return `(${at} - ${back})`;
};

/**
 * Cuts the column `body text` of an answer of one row: a text of more than {@link pieceBytes} comes in as many rows as
 * it has pieces, in order; any other, and null, as it is. It is cut by bytes, so that no value, however long, comes at
 * once.
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
 * Several expressions of type text as one answer: rows `body text, part int`, where `part` is the place in the list of
 * the text that the piece is of.
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
