import { type Change, type Question, changed, removed } from './changes.ts';
import { type SchemaObject, objectsOf, titleOf } from './objects.ts';
import { changedTable, shapeOf } from './tables.ts';

/** How two schemas differ, in objects. */
export interface Difference {
  readonly change: 'added' | 'removed' | 'changed';
  readonly object: string;
}

interface Compared {
  readonly added: readonly SchemaObject[];
  readonly removed: readonly SchemaObject[];
  readonly changed: readonly (readonly [SchemaObject, SchemaObject])[];
  /** Everything of the new schema that is new or changed, in its order. */
  readonly inOrder: readonly { readonly from: SchemaObject | undefined; readonly to: SchemaObject }[];
}

const compare = (from: string, to: string): Compared => {
  const [before, after] = [objectsOf(from), objectsOf(to)];
  const inOrder = [...after]
    .map(([key, object]) => ({ from: before.get(key), to: object }))
    .filter(({ from: former, to: now }) => former?.sql !== now.sql);
  return {
    added: inOrder.filter((one) => one.from === undefined).map((one) => one.to),
    changed: inOrder.flatMap((one) => (one.from === undefined ? [] : [[one.from, one.to] as const])),
    removed: [...before].filter(([key]) => !after.has(key)).map(([, object]) => object),
    inOrder,
  };
};

/** The objects in which two schemas differ; none: they make the same. */
export const differencesOf = (from: string, to: string): Difference[] => {
  const { added, removed: gone, changed: other } = compare(from, to);
  return [
    ...added.map((object) => ({ change: 'added' as const, object: titleOf(object) })),
    ...other.map(([, object]) => ({ change: 'changed' as const, object: titleOf(object) })),
    ...gone.map((object) => ({ change: 'removed' as const, object: titleOf(object) })),
  ];
};

/** Tables that went, each with those that came and look alike. */
const renamedTables = ({ added, removed: gone }: Compared): Question[] =>
  gone
    .filter(({ kind }) => kind === 'table')
    .flatMap((table) =>
      added
        .filter((other) => other.kind === 'table' && shapeOf(other) === shapeOf(table))
        .map((other) => ({
          text: `Was ${table.name} renamed to ${other.name}? Then take this, and neither create the one nor drop the other:`,
          sql: `alter table ${table.name} rename to ${other.name.split('.').at(-1) ?? other.name}`,
        })),
    );

/** Whether an object goes by itself with the table or the column that it is on. */
const goesWith = (
  { kind, name, parts }: SchemaObject,
  tables: readonly string[],
  columns: readonly string[],
): boolean => {
  if (kind === 'table') return false;
  if (kind === 'comment' || kind === 'grant') {
    const words = name.split(' ');
    return words.some(
      (word) => tables.includes(word) || tables.some((table) => word.startsWith(`${table}.`)) || columns.includes(word),
    );
  }
  return parts.some((part) => tables.includes(part)) || columns.includes(parts.join('.'));
};

const comment = (text: string): string =>
  text
    .split('\n')
    .map((line) => `-- ${line}`.trimEnd())
    .join('\n');

/** A note stays as it is, a statement becomes a comment. */
const asComment = (statement: string): string => (statement.startsWith('--') ? statement : comment(`${statement};`));

const asStatement = (statement: string): string => (statement.startsWith('--') ? statement : `${statement};`);

const changeOf = ({ from, to }: Compared['inOrder'][number]): Change => {
  if (from === undefined) return { safe: [to.sql], left: [] };
  return to.kind === 'table' ? changedTable(from, to) : changed(from, to);
};

const droppedColumn = / alter table ([^\n]+) drop column ([^\n;]+)$/;

const columnsOf = (changes: readonly Change[]): string[] =>
  changes.flatMap(({ left }) =>
    left.flatMap((statement) => {
      const [, table, column] = droppedColumn.exec(` ${statement}`) ?? [];
      return table === undefined ? [] : [`${table}.${column ?? ''}`];
    }),
  );

const block = (title: string, lines: readonly string[]): string[] =>
  lines.length === 0 ? [] : [`${comment(title)}\n${lines.join('\n')}`];

/**
 * A draft of the migration that makes the one schema the other, for a person to read and to change. Nothing in it
 * deletes: what went stands as a comment, and so does each rename that may have been meant.
 * @param from, to as `db/schema.sql` answers them
 * @returns null when both make the same
 */
export const draftOf = (from: string, to: string): string | null => {
  const compared = compare(from, to);
  if (compared.inOrder.length === 0 && compared.removed.length === 0) return null;
  const changes = compared.inOrder.map(changeOf);
  const tables = compared.removed.filter(({ kind }) => kind === 'table').map(({ name }) => name);
  const columns = columnsOf(changes);
  const gone = compared.removed
    .toReversed()
    .filter((object) => !goesWith(object, tables, columns))
    .map(removed);
  const questions = [...renamedTables(compared), ...changes.flatMap((change) => change.questions ?? [])];
  const left = [...changes, ...gone].flatMap((change) => change.left);
  const safe = [...gone, ...changes].flatMap((change) => change.safe);
  return `${[
    comment('A draft: read it before it is applied.'),
    ...questions.flatMap(({ text, sql }) => block(text, [asComment(sql)])),
    ...(safe.length === 0 ? [] : [safe.map(asStatement).join('\n\n')]),
    ...block('This was left out, since it deletes or cannot be done without a decision:', left.map(asComment)),
  ].join('\n\n')}\n`;
};
