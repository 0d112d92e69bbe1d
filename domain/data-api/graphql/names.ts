import type { Relationship } from '#domain/data-api/schema/types.ts';

/** Whether GraphQL can hold a name. Two underscores at the beginning are GraphQL's own. */
export const isName = (name: string): boolean => /^(?!__)[A-Za-z_]\w*$/.test(name);

const withoutId = (column: string): string => column.replace(/_id$|(?<=[a-z0-9])I[dD]$/, '');

/** The foreign key's column without `_id`, else the name of the other table. */
const plainName = ({ holdsKey, columns, target }: Relationship): string => {
  const [column] = columns;
  if (!holdsKey || column === undefined || columns.length > 1) return target;
  const short = withoutId(column);
  return short === column ? target : short;
};

/** `posts_by_author_id`: the columns are the foreign key's, on whichever side it is. */
const longName = ({ holdsKey, columns, target, targetColumns }: Relationship): string =>
  `${target}_by_${(holdsKey ? columns : targetColumns).join('_')}`;

/**
 * The fields of a table's relationships. To one row: the foreign key's column without `_id` (`author`), else the other
 * table's name; to many: the other table's name. Those that would share a name, with each other or with a column, are
 * named after table and foreign key (`posts_by_author_id`), all of them, so that a further one renames no more than it
 * must.
 * @param taken names of columns
 */
export const relationNames = (
  relationships: readonly Relationship[],
  taken: ReadonlySet<string>,
): Map<Relationship, string> => {
  const wanted = Map.groupBy(relationships, plainName);
  const used = new Set(taken);
  const names = new Map<Relationship, string>();
  const give = (relationship: Relationship, name: string): void => {
    if (!isName(name) || used.has(name) || used.has(`${name}_aggregate`)) return;
    used.add(name);
    if (relationship.kind === 'one-to-many') used.add(`${name}_aggregate`);
    names.set(relationship, name);
  };
  for (const [name, those] of wanted) if (those.length === 1) for (const one of those) give(one, name);
  for (const one of relationships) if (!names.has(one)) give(one, longName(one));
  return names;
};
