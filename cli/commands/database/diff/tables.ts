import type { Change, Question } from './changes.ts';
import type { SchemaObject } from './objects.ts';
import { bracketsOf, identifier, splitAt, splitBefore } from './sql.ts';

interface Column {
  readonly name: string;
  /** The whole line. */
  readonly line: string;
  /** With its collation. */
  readonly type: string;
  /** `default …` or `generated …`; null: neither. */
  readonly value: string | null;
  readonly notNull: boolean;
}

interface Table {
  readonly columns: ReadonlyMap<string, Column>;
  /** Constraints by their names. */
  readonly constraints: ReadonlyMap<string, string>;
  /** The text before and behind the brackets: `unlogged`, `inherits`, `partition by`, `with`. */
  readonly frame: string;
}

const columnOf = (line: string): Column => {
  const [, name = '', rest = ''] = new RegExp(`^(${identifier}) ([\\s\\S]*)$`).exec(line) ?? [];
  const notNull = / not null$/i.test(rest);
  const [type, value] = splitBefore(rest.replace(/ not null$/i, ''), ['default', 'generated']);
  return { name, line, type, value, notNull };
};

const constraintForm = new RegExp(`^constraint (${identifier}) `, 'i');

const tableOf = ({ sql, name }: SchemaObject): Table => {
  const { before, inner, after } = bracketsOf(sql);
  const lines = splitAt(inner, ',').filter((line) => line !== '');
  const columns = lines.filter((line) => !constraintForm.test(line)).map(columnOf);
  const constraints = lines.filter((line) => constraintForm.test(line));
  return {
    columns: new Map(columns.map((column) => [column.name, column])),
    constraints: new Map(constraints.map((line) => [constraintForm.exec(line)?.[1] ?? line, line])),
    frame: `${before.replace(name, '')} ${after}`,
  };
};

/** The text of a table without its name: two tables of the same shape have the same. */
export const shapeOf = (table: SchemaObject): string => table.sql.replace(table.name, '');

const isGenerated = (value: string | null): boolean => value?.startsWith('generated') ?? false;

const changedColumn = (alter: string, from: Column, to: Column): { safe: string[]; left: string[] } => {
  const column = `${alter} alter column ${to.name}`;
  const [statements, undecided]: [string[], string[]] = [[], []];
  if (from.type !== to.type) {
    statements.push(`${column} type ${to.type} using ${to.name}::${splitBefore(to.type, ['collate'])[0]}`);
  }
  if (from.value !== to.value && (isGenerated(from.value) || isGenerated(to.value))) {
    undecided.push(`-- ${to.name} is ${to.value ?? 'not generated'} now, and was ${from.value ?? 'not generated'}`);
  } else if (from.value !== to.value) {
    statements.push(to.value === null ? `${column} drop default` : `${column} set ${to.value}`);
  }
  if (from.notNull !== to.notNull) statements.push(`${column} ${to.notNull ? 'set' : 'drop'} not null`);
  return { safe: statements, left: undecided };
};

const shapeOfColumn = ({ line, name }: Column): string => line.slice(name.length);

/** Columns that went, each with those that came and look alike. */
const renamesIn = (alter: string, gone: readonly Column[], come: readonly Column[]): Question[] =>
  gone.flatMap((column) =>
    come
      .filter((other) => shapeOfColumn(other) === shapeOfColumn(column))
      .map((other) => ({
        text: `Was ${column.name} renamed to ${other.name}? Then take this, and neither add the one nor drop the other:`,
        sql: `${alter} rename column ${column.name} to ${other.name}`,
      })),
  );

const changedConstraints = (alter: string, from: Table, to: Table): { safe: string[]; left: string[] } => {
  const [statements, undecided]: [string[], string[]] = [[], []];
  for (const [name, line] of from.constraints) {
    const now = to.constraints.get(name);
    if (now === undefined) undecided.push(`${alter} drop constraint ${name}`);
    else if (now !== line) statements.push(`${alter} drop constraint ${name}`, `${alter} add ${now}`);
  }
  for (const [name, line] of to.constraints) {
    if (!from.constraints.has(name)) statements.push(`${alter} add ${line}`);
  }
  return { safe: statements, left: undecided };
};

/** A column that must have a value can be added to an empty table only. */
const addedColumn = (alter: string, column: Column): string[] => [
  ...(column.notNull && column.value === null
    ? [`-- this needs an empty table, or a default for the rows that are there`]
    : []),
  `${alter} add column ${column.line}`,
];

/** The change that makes the one table the other. Columns that went are left out, and the order of columns cannot change. */
export const changedTable = (from: SchemaObject, to: SchemaObject): Change => {
  const [before, after] = [tableOf(from), tableOf(to)];
  const alter = `alter table ${to.name}`;
  const gone = [...before.columns.values()].filter(({ name }) => !after.columns.has(name));
  const come = [...after.columns.values()].filter(({ name }) => !before.columns.has(name));
  const kept = [...after.columns.values()].flatMap((column) => {
    const former = before.columns.get(column.name);
    return former === undefined || former.line === column.line ? [] : [changedColumn(alter, former, column)];
  });
  const constraints = changedConstraints(alter, before, after);
  return {
    safe: [
      ...come.flatMap((column) => addedColumn(alter, column)),
      ...kept.flatMap((change) => change.safe),
      ...constraints.safe,
    ],
    left: [
      ...kept.flatMap((change) => change.left),
      ...constraints.left,
      ...gone.map(({ name }) => `${alter} drop column ${name}`),
      ...(before.frame === after.frame ? [] : [`-- ${to.name} is now: ${after.frame.trim()}`]),
    ],
    questions: renamesIn(alter, gone, come),
  };
};
