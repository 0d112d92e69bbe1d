import {
  GraphQLBoolean,
  GraphQLFloat,
  type GraphQLInputObjectType,
  GraphQLInt,
  type GraphQLNamedType,
  GraphQLObjectType,
  GraphQLString,
  getNamedType,
} from 'graphql';
import { renamed } from './inputs.ts';
import { type GraphModel, type GraphTable, type Suffix, endings } from './model.ts';
import { type TableInputs, type Types, comparisonEnding, isComparison } from './types.ts';

// Types are found by their names: a document names few of what may be thousands.

type NullableType = GraphQLNamedType | null | undefined;

const fieldType = (type: GraphQLObjectType | GraphQLInputObjectType | null, name: string): NullableType => {
  const field = type?.getFields()[name];
  return field && getNamedType(field.type);
};

const aggregateFields = (table: GraphTable, types: Types): GraphQLObjectType | null => {
  const fields = fieldType(types.aggregate(table), 'aggregate');
  return fields instanceof GraphQLObjectType ? fields : null;
};

const ofInputs =
  (pick: (inputs: TableInputs) => NullableType) =>
  (table: GraphTable, types: Types): NullableType =>
    pick(types.inputs(table));

const figure =
  (name: string) =>
  (table: GraphTable, types: Types): NullableType =>
    fieldType(aggregateFields(table, types), name);

const bySuffix: Readonly<Record<Suffix, (table: GraphTable, types: Types) => NullableType>> = {
  aggregate: (table, types) => types.aggregate(table),
  aggregate_fields: aggregateFields,
  avg_fields: figure('avg'),
  sum_fields: figure('sum'),
  min_fields: figure('min'),
  max_fields: figure('max'),
  bool_exp: ofInputs(({ boolExp }) => boolExp),
  order_by: ofInputs(({ orderBy }) => orderBy),
  select_column: ofInputs(({ selectColumn }) => selectColumn),
  update_column: ofInputs(({ onConflict }) => fieldType(onConflict, 'update_columns')),
  insert_input: ofInputs(({ insert }) => insert),
  set_input: ofInputs(({ set }) => set),
  inc_input: ofInputs(({ inc }) => inc),
  pk_columns_input: ofInputs(({ key }) => key),
  obj_rel_insert_input: ofInputs(({ objectRelation }) => objectRelation),
  arr_rel_insert_input: ofInputs(({ arrayRelation }) => arrayRelation),
  constraint: ofInputs(({ onConflict }) => fieldType(onConflict, 'constraint')),
  on_conflict: ofInputs(({ onConflict }) => onConflict),
  mutation_response: (table, types) => types.response(table),
  // The end of a field's name, and of no type's.
  by_pk: () => null,
};

/** The table that a type is made of, and the kind of the type; null: that of its rows. */
export const tableOfType = (
  name: string,
  model: GraphModel,
): { readonly table: GraphTable; readonly suffix: Suffix | null } | null => {
  const own = model.table(name);
  if (own) return { table: own, suffix: null };
  for (const [owner, suffix] of endings(name)) {
    const table = model.table(owner);
    if (table) return { table, suffix };
  }
  return null;
};

const tableType = (name: string, model: GraphModel, types: Types): NullableType => {
  const found = tableOfType(name, model);
  if (found === null) return null;
  return found.suffix === null ? types.object(found.table) : bySuffix[found.suffix](found.table, types);
};

const builtIn: ReadonlyMap<string, GraphQLNamedType> = new Map(
  [GraphQLInt, GraphQLFloat, GraphQLString, GraphQLBoolean].map((type) => [type.name, type]),
);

/** A type of the server for each of GraphQL's own. */
const serverTypes: Readonly<Record<string, string>> = {
  ...Object.fromEntries(Object.entries(renamed).map(([type, name]) => [name, type])),
  Int: 'int4',
  Float: 'float8',
  String: 'text',
  Boolean: 'bool',
};

/** The server's type behind the name of a scalar, where a column has it. */
const baseTypeOf = (name: string, { schema: { baseTypes }, table }: GraphModel): string | null => {
  if (table(name) !== undefined) return null;
  const type = serverTypes[name] ?? name;
  return builtIn.has(name) || baseTypes.has(type) || baseTypes.has(`_${type}`) ? type : null;
};

const comparisonType = (name: string, model: GraphModel, types: Types): NullableType => {
  const of = name.slice(0, -comparisonEnding.length);
  const own = baseTypeOf(of, model);
  if (own !== null) return types.comparison({ baseType: own });
  const element = of.endsWith('_array') ? baseTypeOf(of.slice(0, -'_array'.length), model) : null;
  return element === null ? undefined : types.comparison({ baseType: `_${element}` });
};

const scalarType = (name: string, model: GraphModel, types: Types): NullableType => {
  const type = baseTypeOf(name, model);
  return type === null ? undefined : types.scalar(type);
};

/** Finds a type that a document names. @throws {GraphQLError} when it is made of too many columns */
export const typeNamed = (name: string, model: GraphModel, types: Types): NullableType => {
  if (name === 'order_by') return types.orderBy;
  if (isComparison(name)) return comparisonType(name, model, types);
  return builtIn.get(name) ?? tableType(name, model, types) ?? scalarType(name, model, types);
};
