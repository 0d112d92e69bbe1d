import { DataError } from '#domain/data-api/errors.ts';
import type { DataSchema, Junction, Relationship, Table } from '#domain/data-api/schema/types.ts';
import type { RelationAst } from './grammar/ast.ts';
import { nearest } from '#lib/nearest.ts';

type Wanted = Pick<RelationAst, 'name' | 'hint'>;

const isKeyColumn = ({ kind, columns }: Relationship, name: string): boolean =>
  kind !== 'many-to-many' && columns.length === 1 && columns[0] === name;

const isTargetKeyColumn = ({ holdsKey, kind, targetColumns }: Relationship, name: string): boolean =>
  !holdsKey && kind !== 'many-to-many' && targetColumns.length === 1 && targetColumns[0] === name;

/** The other table, the constraint or the column of the foreign key can be asked for by name. */
const isNamed = (relationship: Relationship, name: string): boolean =>
  relationship.target === name ||
  (relationship.junction === null && relationship.constraint === name) ||
  (relationship.holdsKey && isKeyColumn(relationship, name));

/** The table between, or the key in it that leads to the target: both ways of a table to itself have the same table. */
const isHintedThrough = ({ table, constraints: [, far], farColumns }: Junction, hint: string): boolean =>
  table === hint || far === hint || (farColumns.length === 1 && farColumns[0] === hint);

/** The constraint, the key's column on either side, or the table between. */
const isHinted = (relationship: Relationship, hint: string): boolean => {
  const { junction, constraint, holdsKey } = relationship;
  if (junction !== null) return isHintedThrough(junction, hint);
  if (constraint === hint) return true;
  return holdsKey ? isKeyColumn(relationship, hint) : isTargetKeyColumn(relationship, hint);
};

/**
 * A foreign key to the own table is a relationship twice. With its column for a hint it is the row that the column refers
 * to, otherwise the rows that refer to this one, as in PostgREST.
 */
const oneOfSelf = (found: readonly Relationship[], { hint }: Wanted): Relationship | null => {
  const [first, second] = found;
  if (found.length !== 2 || first === undefined || second === undefined) return null;
  const isSame = first.constraint === second.constraint && first.target === second.target;
  if (!isSame || first.junction !== null) return null;
  const holder = first.holdsKey ? first : second;
  const other = first.holdsKey ? second : first;
  return hint !== null && isKeyColumn(holder, hint) ? holder : other;
};

const columnList = (table: string, columns: readonly string[]): string => `${table}(${columns.join(', ')})`;

const describe = (table: Table, relationship: Relationship): Readonly<Record<string, string>> => {
  const { kind, constraint, columns, target, targetColumns, junction } = relationship;
  const used =
    junction === null
      ? `${constraint} using ${columnList(table.name, columns)} and ${columnList(target, targetColumns)}`
      : `${junction.table} using ${columnList(junction.constraints[0], junction.nearColumns)} and ` +
        columnList(junction.constraints[1], junction.farColumns);
  return { cardinality: kind, embedding: `${table.name} with ${target}`, relationship: used };
};

/** A hint that no other of the relationships fits. */
const hintOf = ({ constraint, junction }: Relationship, others: readonly Relationship[]): string => {
  if (junction === null) return constraint;
  const isShared = others.filter((other) => other.junction?.table === junction.table).length > 1;
  return isShared ? junction.constraints[1] : junction.table;
};

const refuseAmbiguous = (table: Table, { name }: Wanted, found: readonly Relationship[]): never => {
  const choices = found.map((relationship) => `'${name}!${hintOf(relationship, found)}'`).join(', ');
  throw new DataError(
    300,
    'PGRST201',
    `Could not embed because more than one relationship was found for '${table.name}' and '${name}'`,
    {
      details: found.map((relationship) => describe(table, relationship)),
      hint: `Try changing '${name}' to one of the following: ${choices}. Find the desired relationship in the 'details' key.`,
    },
  );
};

const refuseUnknown = (schema: DataSchema, table: Table, { name, hint }: Wanted): never => {
  const near =
    nearest(name, new Set(table.relationships.map(({ target }) => target))) ??
    (schema.tables.has(name) ? null : nearest(name, schema.tables.keys()));
  const using = hint === null ? '' : ` using the hint '${hint}'`;
  throw new DataError(
    400,
    'PGRST200',
    `Could not find a relationship between '${table.name}' and '${name}' in the schema cache`,
    {
      details:
        `Searched for a foreign key relationship between '${table.name}' and '${name}'${using} in the schema '${schema.name}', ` +
        'but no matches were found.',
      hint: near === null || near === name ? null : `Perhaps you meant '${near}' instead of '${name}'.`,
    },
  );
};

/**
 * The relationship that an embedding asks for.
 * @throws {DataError} PGRST200 (400) when there is none, PGRST201 (300) when there are several
 */
export const findRelationship = (schema: DataSchema, table: Table, wanted: Wanted): Relationship => {
  const { name, hint } = wanted;
  const found = table.relationships
    .filter((relationship) => isNamed(relationship, name) && schema.tables.has(relationship.target))
    .filter((relationship) => hint === null || isHinted(relationship, hint));
  const [only] = found;
  if (only === undefined) return refuseUnknown(schema, table, wanted);
  if (found.length === 1) return only;
  return oneOfSelf(found, wanted) ?? refuseAmbiguous(table, wanted, found);
};

/** The table at the other end. */
export const targetOf = (schema: DataSchema, relationship: Relationship): Table => {
  const target = schema.tables.get(relationship.target);
  if (target === undefined)
    throw new Error(`the schema has a relationship to ${relationship.target} and no such table`);
  return target;
};
