import { GraphQLBoolean, GraphQLFloat, GraphQLInt, GraphQLObjectType } from 'graphql';
import type { GraphQLFieldConfigArgumentMap, GraphQLOutputType } from 'graphql';
import type { Column } from '#domain/data-api/schema/types.ts';
import type { GraphTable } from './model.ts';
import { isArray, isNumber, isText } from './scalars.ts';
import { type Fields, type Types, listOf, required } from './types.ts';

/** The arguments of whatever lists rows. */
export const listArgs = (table: GraphTable, types: Types): GraphQLFieldConfigArgumentMap => {
  const { boolExp, orderBy, selectColumn } = types.inputs(table);
  return {
    where: { type: boolExp },
    order_by: { type: listOf(orderBy) },
    limit: { type: GraphQLInt },
    offset: { type: GraphQLInt },
    ...(selectColumn && { distinct_on: { type: listOf(selectColumn) } }),
  };
};

const columnFields = (table: GraphTable, types: Types): Fields =>
  Object.fromEntries(
    [...table.columns.values()].map((column) => {
      const type = types.column(column);
      return [column.name, { type: column.nullable ? type : required(type), description: column.comment }];
    }),
  );

const relationFields = (table: GraphTable, types: Types): Fields => {
  const fields: Fields = {};
  for (const { name, many, target } of table.relations.values()) {
    if (!many) {
      fields[name] = { type: types.object(target) };
      continue;
    }
    fields[name] = { type: required(listOf(types.object(target))), args: listArgs(target, types) };
    fields[`${name}_aggregate`] = { type: required(types.aggregate(target)), args: listArgs(target, types) };
  }
  return fields;
};

export const rowObject = (table: GraphTable, types: Types): GraphQLObjectType =>
  new GraphQLObjectType({
    name: table.name,
    description: table.table.comment,
    fields: () => ({ ...columnFields(table, types), ...relationFields(table, types) }),
  });

// Types whose values the server can order in a way that means something to people, and has min and max for.
const ordered = /^(date|time|timetz|timestamp|timestamptz|interval|inet|oid)$/;

const isOrdered = ({ baseType, enumValues }: Column): boolean =>
  !isArray(baseType) &&
  (enumValues !== null || isNumber(baseType) || isText(baseType) || ordered.test(baseType)) &&
  baseType !== 'name';

const sumType = ({ baseType }: Column, types: Types): GraphQLOutputType => {
  const widened: Readonly<Record<string, string>> = { int2: 'int8', int4: 'int8', int8: 'numeric' };
  return types.scalar(widened[baseType] ?? baseType);
};

/** `sum { price }` and its kin; none where no column has such a figure. */
const figureField = (table: GraphTable, name: string, type: (column: Column) => GraphQLOutputType | null): Fields => {
  const typed = [...table.columns.values()].flatMap((column) => {
    const found = type(column);
    return found === null ? [] : [[column.name, { type: found }] as const];
  });
  if (typed.length === 0) return {};
  return {
    [name]: {
      type: new GraphQLObjectType({ name: `${table.name}_${name}_fields`, fields: Object.fromEntries(typed) }),
    },
  };
};

const numeric =
  (type: (column: Column) => GraphQLOutputType) =>
  (column: Column): GraphQLOutputType | null =>
    isNumber(column.baseType) ? type(column) : null;

const figures = (table: GraphTable, types: Types): Fields => {
  const { selectColumn } = types.inputs(table);
  const extreme = (column: Column): GraphQLOutputType | null => (isOrdered(column) ? types.column(column) : null);
  const args = selectColumn ? { columns: { type: listOf(selectColumn) }, distinct: { type: GraphQLBoolean } } : {};
  return {
    count: { type: required(GraphQLInt), args },
    ...figureField(
      table,
      'sum',
      numeric((column) => sumType(column, types)),
    ),
    ...figureField(
      table,
      'avg',
      numeric(() => GraphQLFloat),
    ),
    ...figureField(table, 'min', extreme),
    ...figureField(table, 'max', extreme),
  };
};

export const aggregateObject = (table: GraphTable, types: Types): GraphQLObjectType =>
  new GraphQLObjectType({
    name: `${table.name}_aggregate`,
    fields: () => ({
      aggregate: {
        type: new GraphQLObjectType({
          name: `${table.name}_aggregate_fields`,
          fields: () => figures(table, types),
        }),
      },
      nodes: { type: required(listOf(types.object(table))) },
    }),
  });

export const responseObject = (table: GraphTable, types: Types): GraphQLObjectType =>
  new GraphQLObjectType({
    name: `${table.name}_mutation_response`,
    fields: () => ({
      affected_rows: { type: required(GraphQLInt) },
      returning: { type: required(listOf(types.object(table))) },
    }),
  });
