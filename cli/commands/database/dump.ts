import { mkdir, open, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { type InProject, type Run, inProject, isOn, shownPath, textOption } from '../../cli.ts';
import { usage } from '../../errors.ts';
import { fileFailure, randomDigits } from '../../files.ts';
import { type TableShape, query, tablesOf } from './exact.ts';
import { presentSchema } from './shadow.ts';

const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`;
const literal = (text: string): string => `'${text.replaceAll("'", "''")}'`;

const keyOf = (schema: string, name: string): string => `${quoted(schema)}.${quoted(name)}`;

/** Each table after those that it refers to. Where they go round in a circle, in the order of their names. */
export const inOrder = (tables: readonly TableShape[]): TableShape[] => {
  const byKey = new Map(tables.map((table) => [keyOf(table.schema, table.name), table]));
  const done: TableShape[] = [];
  const seen = new Set<string>();
  const visit = (key: string): void => {
    const table = byKey.get(key);
    if (table === undefined || seen.has(key)) return;
    seen.add(key);
    for (const { references } of table.foreign_keys) visit(keyOf(references.schema, references.table));
    done.push(table);
  };
  for (const key of [...byKey.keys()].toSorted()) visit(key);
  return done;
};

const escapes: Readonly<Record<string, string>> = {
  '\\': '\\\\',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
  '\b': '\\b',
  '\f': '\\f',
  '\v': '\\v',
};

/** A value in the text format of COPY. */
const copied = (value: string | null): string =>
  value === null ? String.raw`\N` : value.replaceAll(/[\\\n\r\t\b\f\v]/g, (sign) => escapes[sign] ?? sign);

const most = 2000;

/** The rows of a table in pieces, in the order in which they lie. What changes meanwhile may be missing. */
const rowsOf = async function* (
  project: InProject,
  table: TableShape,
  columns: readonly string[],
): AsyncGenerator<string> {
  // As the type writes itself: the project may have made another cast to text.
  const values = columns
    .map((name) => `case when ${quoted(name)} is distinct from null then pg_catalog.format('%s', ${quoted(name)}) end`)
    .join(', ');
  let [after, size] = ['(0,0)', most];
  for (;;) {
    const sql = `select ctid::text as at, array[${values}]::text[] as row from only ${keyOf(table.schema, table.name)}
      where ctid > $1::tid order by ctid limit ${size}`;
    const { rows, truncated } = await query(project, sql, [after]);
    // An answer has a bound in bytes; of a single row the platform sends as much as it has.
    if (truncated === true && rows.length === 0) throw usage(`A row of ${table.name} is too large to be dumped.`);
    const text = rows.map(({ row }) => `${(row as (string | null)[]).map(copied).join('\t')}\n`).join('');
    if (text !== '') yield text;
    if (truncated !== true && rows.length < size) return;
    after = (rows.at(-1)?.['at'] as string | undefined) ?? after;
    size = truncated === true ? Math.max(1, Math.floor(rows.length / 2)) : most;
  }
};

const tableText = async function* (project: InProject, table: TableShape): AsyncGenerator<string> {
  const columns = table.columns
    .filter(({ generated }) => generated !== 'stored' && generated !== 'virtual')
    .map(({ name }) => name);
  if (columns.length === 0) return;
  let isStarted = false;
  for await (const text of rowsOf(project, table, columns)) {
    if (!isStarted) yield `copy ${keyOf(table.schema, table.name)} (${columns.map(quoted).join(', ')}) from stdin;\n`;
    isStarted = true;
    yield text;
  }
  if (isStarted) yield '\\.\n\n';
};

const sequences = `select schemaname, sequencename, last_value::text as value from pg_sequences
  where last_value is not null and sequenceowner = current_user order by 1, 2`;

/** The rows of all tables as `plinth db seed` and psql take them. */
const dataOf = async function* (project: InProject): AsyncGenerator<string> {
  yield '-- The rows of all tables, read one table after the other: writes that came meanwhile may be missing.\n\n';
  const tables = inOrder((await tablesOf(project)).filter(({ kind }) => kind === 'table'));
  for (const table of tables) yield* tableText(project, table);
  const { rows } = await query(project, sequences);
  for (const { schemaname, sequencename, value } of rows) {
    const name = literal(keyOf(String(schemaname), String(sequencename)));
    yield `select pg_catalog.setval(${name}, ${String(value)}, true);\n`;
  }
};

const schemaText = async function* (project: InProject): AsyncGenerator<string> {
  yield await presentSchema(project);
};

/** Writes the whole file or nothing. */
const writePieces = async (file: string, pieces: AsyncIterable<string>): Promise<void> => {
  const next = `${file}.${randomDigits()}.part`;
  try {
    await mkdir(path.dirname(file), { recursive: true });
    const handle = await open(next, 'wx', 0o600);
    try {
      for await (const piece of pieces) await handle.write(piece);
    } finally {
      await handle.close();
    }
    await rename(next, file);
  } catch (error) {
    await rm(next, { force: true }).catch(() => undefined);
    throw fileFailure('written', file, error);
  }
};

/** Writes the schema, or the rows, as SQL. */
export const dump = async (run: Run): Promise<void> => {
  const { out, cwd } = run.cli;
  const given = textOption(run, 'output');
  if (given?.trim() === '') throw usage('--output must not be empty.');
  const project = await inProject(run);
  const pieces = isOn(run, 'data') ? dataOf(project) : schemaText(project);
  if (given !== undefined) {
    const file = path.resolve(cwd, given);
    await writePieces(file, pieces);
    out.say(`Wrote ${shownPath(run, file)}.`);
    return out.isJson ? out.data({ file }, '') : undefined;
  }
  if (out.isJson) {
    let sql = '';
    for await (const piece of pieces) sql += piece;
    return out.data({ sql }, '');
  }
  for await (const piece of pieces) await out.raw(Buffer.from(piece));
};
