import type { Relationship, Table } from './types.ts';

export interface ForeignKey {
  readonly name: string;
  readonly table: string;
  readonly target: string;
  readonly columns: readonly string[];
  readonly targetColumns: readonly string[];
}

/** Whether at most one row has given values in these columns: a unique key lies within them. */
const isUnique = (table: Table, columns: readonly string[]): boolean =>
  table.uniques.some((key) => key.every((column) => columns.includes(column)));

const directOf = (key: ForeignKey, table: Table): readonly [near: Relationship, far: Relationship] => {
  const { name, target, columns, targetColumns } = key;
  const single = isUnique(table, columns);
  return [
    {
      constraint: name,
      kind: single ? 'one-to-one' : 'many-to-one',
      holdsKey: true,
      columns,
      target,
      targetColumns,
      junction: null,
    },
    {
      constraint: name,
      kind: single ? 'one-to-one' : 'one-to-many',
      holdsKey: false,
      columns: targetColumns,
      target: key.table,
      targetColumns: columns,
      junction: null,
    },
  ];
};

/** A table whose primary key holds both keys stands between their targets: its rows are the pairs. */
const isJunction = (table: Table, one: ForeignKey, other: ForeignKey): boolean =>
  one !== other && [...one.columns, ...other.columns].every((column) => table.primaryKey.includes(column));

const throughOf = (table: Table, near: ForeignKey, far: ForeignKey): Relationship => ({
  constraint: `${near.name} ${far.name}`,
  kind: 'many-to-many',
  holdsKey: false,
  columns: near.targetColumns,
  target: far.target,
  targetColumns: far.targetColumns,
  junction: {
    table: table.name,
    sql: table.sql,
    constraints: [near.name, far.name],
    nearColumns: near.columns,
    farColumns: far.columns,
  },
});

/** Every way from a table to another, by foreign keys: there, back, and across tables that stand between. */
export const relationshipsOf = (
  tables: ReadonlyMap<string, Table>,
  foreignKeys: readonly ForeignKey[],
): ReadonlyMap<string, readonly Relationship[]> => {
  const found = new Map<string, Relationship[]>();
  const add = (table: string, relationship: Relationship): void => {
    found.set(table, [...(found.get(table) ?? []), relationship]);
  };
  for (const key of foreignKeys) {
    const table = tables.get(key.table);
    if (table === undefined) continue;
    const [near, far] = directOf(key, table);
    add(key.table, near);
    add(key.target, far);
    for (const other of foreignKeys)
      if (other.table === key.table && isJunction(table, key, other)) add(key.target, throughOf(table, key, other));
  }
  return found;
};
