import { GraphQLBoolean, GraphQLEnumType, GraphQLList, GraphQLObjectType, GraphQLSchema } from 'graphql';
import type { GraphQLFieldConfig, GraphQLFieldConfigArgumentMap } from 'graphql';
import type { Column } from '#domain/data-api/schema/types.ts';
import { comparisonTypes } from './comparison-types.ts';
import type { GraphModel, GraphTable, RootField } from './model.ts';
import { aggregateObject, listArgs, responseObject, rowObject } from './objects.ts';
import { elementType, isArray, scalarTypes } from './scalars.ts';
import { tableInputs } from './table-inputs.ts';
import { type Fields, type Types, listOf, memoized, required } from './types.ts';

const orderBy = (): GraphQLEnumType => {
  const ways = ['asc', 'asc_nulls_first', 'asc_nulls_last', 'desc', 'desc_nulls_first', 'desc_nulls_last'];
  return new GraphQLEnumType({ name: 'order_by', values: Object.fromEntries(ways.map((way) => [way, {}])) });
};

const makeTypes = (model: GraphModel): Types => {
  const scalar = scalarTypes((name) => model.tables.has(name));
  const column = memoized((of: Column) => {
    const element = scalar(elementType(of));
    return isArray(of.baseType) ? new GraphQLList(element) : element;
  });
  const types: Types = {
    orderBy: orderBy(),
    scalar,
    column,
    comparison: comparisonTypes(column, scalar),
    object: memoized((table: GraphTable) => rowObject(table, types)),
    aggregate: memoized((table: GraphTable) => aggregateObject(table, types)),
    response: memoized((table: GraphTable) => responseObject(table, types)),
    inputs: memoized((table: GraphTable) => tableInputs(table, types)),
  };
  return types;
};

const keyArgs = (table: GraphTable, types: Types): GraphQLFieldConfigArgumentMap =>
  Object.fromEntries(table.key.map((column) => [column.name, { type: required(types.column(column)) }]));

const insertArgs = (table: GraphTable, types: Types, one: boolean): GraphQLFieldConfigArgumentMap => {
  const { insert, onConflict } = types.inputs(table);
  return {
    ...(one ? { object: { type: required(insert) } } : { objects: { type: required(listOf(insert)) } }),
    ...(onConflict && { on_conflict: { type: onConflict } }),
  };
};

const changeArgs = (table: GraphTable, types: Types): GraphQLFieldConfigArgumentMap => {
  const { set, inc } = types.inputs(table);
  return { ...(set && { _set: { type: set } }), ...(inc && { _inc: { type: inc } }) };
};

const pkArgs = (table: GraphTable, types: Types): GraphQLFieldConfigArgumentMap => {
  const { key } = types.inputs(table);
  return key === null ? {} : { pk_columns: { type: required(key) } };
};

const whereArgs = (table: GraphTable, types: Types): GraphQLFieldConfigArgumentMap => ({
  where: { type: required(types.inputs(table).boolExp) },
});

type Field = GraphQLFieldConfig<unknown, unknown>;

const fieldOf = ({ kind, table }: RootField, types: Types): Field => {
  const row = (args: GraphQLFieldConfigArgumentMap): Field => ({ type: types.object(table), args });
  const response = (args: GraphQLFieldConfigArgumentMap): Field => ({ type: types.response(table), args });
  switch (kind) {
    case 'list':
      return { type: required(listOf(types.object(table))), args: listArgs(table, types) };
    case 'aggregate':
      return { type: required(types.aggregate(table)), args: listArgs(table, types) };
    case 'by_pk':
    case 'delete_by_pk':
      return row(keyArgs(table, types));
    case 'insert':
      return response(insertArgs(table, types, false));
    case 'insert_one':
      return row(insertArgs(table, types, true));
    case 'update':
      return response({ ...whereArgs(table, types), ...changeArgs(table, types) });
    case 'update_by_pk':
      return row({ ...pkArgs(table, types), ...changeArgs(table, types) });
    case 'delete':
      return response(whereArgs(table, types));
    default:
      return kind satisfies never;
  }
};

const fieldsOf = (fields: ReadonlyMap<string, RootField>, types: Types): Fields =>
  Object.fromEntries([...fields].map(([name, field]) => [name, fieldOf(field, types)]));

// GraphQL has no type without fields, and a project may have no table.
const empty: Fields = { no_tables: { type: GraphQLBoolean, description: 'Always null: there is no table yet.' } };

/**
 * The GraphQL schema of a project's tables, for validation and introspection: nothing in it can be executed.
 * It is known to be valid, and so not checked again; that would take longer than making it.
 */
export const graphqlSchema = (model: GraphModel): GraphQLSchema => {
  const types = makeTypes(model);
  const mutations = model.mutations.size > 0;
  return new GraphQLSchema({
    assumeValid: true,
    query: new GraphQLObjectType({
      name: 'query_root',
      fields: () => (model.queries.size > 0 ? fieldsOf(model.queries, types) : empty),
    }),
    mutation: mutations
      ? new GraphQLObjectType({ name: 'mutation_root', fields: () => fieldsOf(model.mutations, types) })
      : null,
  });
};
