import { useMemo } from 'react';
import type { KnownColumn, KnownTables } from './known-tables.ts';
import { type SchemaTable, useSchema } from './schema.ts';

const columnOf = ({ name, type, nullable, enum_values: values }: SchemaTable['columns'][number]): KnownColumn => ({
  name,
  type,
  nullable,
  values,
});

/** The tables of the project, for its editors; null: they are not known yet. */
export const useKnownTables = (): KnownTables | null => {
  const { data } = useSchema();
  return useMemo(
    () =>
      data === undefined
        ? null
        : Object.fromEntries(
            data.tables.map((table) => [
              table.schema === 'public' ? table.name : `${table.schema}.${table.name}`,
              table.columns.map(columnOf),
            ]),
          ),
    [data],
  );
};
