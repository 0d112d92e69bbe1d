import {
  GraphQLList,
  GraphQLNonNull,
  GraphQLEnumType,
  type GraphQLFieldConfigMap,
  GraphQLInputObjectType,
  type GraphQLNullableType,
  GraphQLObjectType,
  type GraphQLScalarType,
  GraphQLBoolean,
  type GraphQLInputFieldConfigMap,
  type GraphQLInputType,
  GraphQLFloat,
  GraphQLInt,
  type GraphQLFieldConfigArgumentMap,
  type GraphQLOutputType,
  GraphQLString,
  getNamedType,
} from 'graphql';
import type { Column } from '../schema/schema.ts';
import type { GraphTable, Relation } from './model.ts';
import { elementType, isArray, isJson, isText, isNumber } from './inputs.ts';
import { containOperators, plainOperators, textOperators } from './where.ts';

export type ObjectFields = GraphQLFieldConfigMap<unknown, unknown>;
/** The type of a column. */
type ValueType = GraphQLScalarType | GraphQLList<GraphQLScalarType>;

/** The input types of a table. Null: GraphQL knows no type without fields. */
export interface TableInputs {
  readonly boolExp: GraphQLInputObjectType;
  readonly orderBy: GraphQLInputObjectType;
  readonly selectColumn: GraphQLEnumType | null;
  readonly insert: GraphQLInputObjectType;
  readonly objectRelation: GraphQLInputObjectType;
  readonly arrayRelation: GraphQLInputObjectType;
  readonly onConflict: GraphQLInputObjectType | null;
  readonly set: GraphQLInputObjectType | null;
  readonly inc: GraphQLInputObjectType | null;
  readonly key: GraphQLInputObjectType | null;
}

/** A column, or anything else that has the type of one. */
export type Typed = Pick<Column, 'baseType'>;

/** The types of one schema, each made once, when it is first asked for. */
export interface Types {
  readonly orderBy: GraphQLEnumType;
  readonly column: (column: Typed) => ValueType;
  readonly scalar: (baseType: string) => GraphQLScalarType;
  /** `String_comparison_exp` and so on. */
  readonly comparison: (column: Typed) => GraphQLInputObjectType;
  readonly object: (table: GraphTable) => GraphQLObjectType;
  readonly aggregate: (table: GraphTable) => GraphQLObjectType;
  readonly response: (table: GraphTable) => GraphQLObjectType;
  readonly inputs: (table: GraphTable) => TableInputs;
}

/** Keeps what was made for a key. */
export const memoized = <K, V>(make: (key: K) => V): ((key: K) => V) => {
  const made = new Map<K, V>();
  return (key) => {
    const known = made.get(key);
    if (known !== undefined) return known;
    const value = make(key);
    made.set(key, value);
    return value;
  };
};

export const required = <T extends GraphQLNullableType>(type: T): GraphQLNonNull<T> => new GraphQLNonNull(type);

/** `[T!]` */
export const listOf = <T extends GraphQLNullableType>(type: T): GraphQLList<GraphQLNonNull<T>> =>
  new GraphQLList(new GraphQLNonNull(type));

/** The end of the names of types that compare a column. */
export const comparisonEnding = '_comparison_exp';

/** Whether a type compares a column: where it is expected, the value alone may stand, too. */
export const isComparison = (name: string): boolean => name.endsWith(comparisonEnding);

const inputsOfNames = (names: object, type: GraphQLInputType): GraphQLInputFieldConfigMap =>
  Object.fromEntries(Object.keys(names).map((name) => [name, { type }]));

const fieldsOf = (column: Typed, type: ValueType): GraphQLInputFieldConfigMap => {
  const isList = isArray(column.baseType);
  // A type whose name GraphQL cannot hold is a String: which column is asked for first must not decide.
  const base = getNamedType(type) === GraphQLString ? 'text' : elementType(column);
  return {
    ...inputsOfNames(plainOperators, type),
    _in: { type: listOf(type) },
    _nin: { type: listOf(type) },
    _is_null: { type: GraphQLBoolean },
    ...(!isList && isText(base) && inputsOfNames(textOperators, type)),
    ...((isList || isJson(base)) && inputsOfNames(containOperators, type)),
  };
};

const description =
  'Conditions on one column, all of which have to hold. In place of the object the value itself may stand: `{title: "x"}` is `{title: {_eq: "x"}}`, and null is `{_is_null: true}`.';

/** One type for each type of column. */
export const comparisonTypes = (column: Types['column'], scalar: Types['scalar']): Types['comparison'] => {
  const made = new Map<string, GraphQLInputObjectType>();
  return (of) => {
    const isList = isArray(of.baseType);
    const name = `${String(scalar(elementType(of)))}${isList ? '_array' : ''}${comparisonEnding}`;
    const known = made.get(name);
    if (known) return known;
    const element = scalar(elementType(of));
    const type = isList ? new GraphQLList(element) : column(of);
    const comparison = new GraphQLInputObjectType({ name, description, fields: () => fieldsOf(of, type) });
    made.set(name, comparison);
    return comparison;
  };
};

type FieldMap = GraphQLInputFieldConfigMap;

const entriesOf = <T>(items: Iterable<T>, entry: (item: T) => readonly [string, GraphQLInputType]): FieldMap =>
  Object.fromEntries(
    [...items].map((item) => {
      const [name, type] = entry(item);
      return [name, { type }];
    }),
  );

const boolExp = (table: GraphTable, types: Types): GraphQLInputObjectType => {
  const type: GraphQLInputObjectType = new GraphQLInputObjectType({
    name: `${table.name}_bool_exp`,
    description: `Which rows of ${table.name}: all that is named has to hold.`,
    fields: () => ({
      _and: { type: listOf(type) },
      _or: { type: listOf(type) },
      _not: { type },
      ...entriesOf(table.columns.values(), (column) => [column.name, types.comparison(column)]),
      ...entriesOf(table.relations.values(), ({ name, target }) => [name, types.inputs(target).boolExp]),
    }),
  });
  return type;
};

const orderBy = (table: GraphTable, types: Types): GraphQLInputObjectType =>
  new GraphQLInputObjectType({
    name: `${table.name}_order_by`,
    fields: () => ({
      ...entriesOf(table.columns.keys(), (name) => [name, types.orderBy]),
      ...entriesOf(
        [...table.relations.values()].filter(({ many }) => !many),
        ({ name, target }) => [name, types.inputs(target).orderBy],
      ),
    }),
  });

const enumOf = (name: string, values: Iterable<string>): GraphQLEnumType | null => {
  // The three names that GraphQL keeps for itself.
  const possible = [...values].filter((value) => !['true', 'false', 'null'].includes(value));
  if (possible.length === 0) return null;
  return new GraphQLEnumType({ name, values: Object.fromEntries(possible.map((value) => [value, {}])) });
};

const inputOf = (name: string, columns: readonly Column[], type: (column: Column) => GraphQLInputType) =>
  columns.length === 0
    ? null
    : new GraphQLInputObjectType({ name, fields: () => entriesOf(columns, (column) => [column.name, type(column)]) });

const relationInput = ({ many, target }: Relation, types: Types): GraphQLInputObjectType => {
  const { arrayRelation, objectRelation } = types.inputs(target);
  return many ? arrayRelation : objectRelation;
};

const written = (table: GraphTable): Column[] => [...table.columns.values()].filter(({ generated }) => !generated);

const insertInput = (table: GraphTable, types: Types): GraphQLInputObjectType =>
  new GraphQLInputObjectType({
    name: `${table.name}_insert_input`,
    fields: () => ({
      ...entriesOf(written(table), (column) => [column.name, types.column(column)]),
      ...entriesOf(
        [...table.relations.values()].filter(({ target }) => target.insertable),
        (relation) => [relation.name, relationInput(relation, types)],
      ),
    }),
  });

const onConflict = (table: GraphTable, own: () => TableInputs): GraphQLInputObjectType | null => {
  const constraint = enumOf(`${table.name}_constraint`, table.constraints.keys());
  const column = enumOf(
    `${table.name}_update_column`,
    written(table).map(({ name }) => name),
  );
  if (constraint === null || column === null) return null;
  return new GraphQLInputObjectType({
    name: `${table.name}_on_conflict`,
    description: 'What to do with a row that is there already. Without columns to update it stays as it is.',
    fields: () => ({
      constraint: { type: required(constraint) },
      update_columns: { type: listOf(column) },
      where: { type: own().boolExp },
    }),
  });
};

const nested = (
  table: GraphTable,
  kind: 'obj' | 'arr',
  own: () => Pick<TableInputs, 'insert' | 'onConflict'>,
): GraphQLInputObjectType =>
  new GraphQLInputObjectType({
    name: `${table.name}_${kind}_rel_insert_input`,
    fields: () => {
      const { insert, onConflict: conflict } = own();
      return {
        data: { type: kind === 'obj' ? required(insert) : required(new GraphQLList(required(insert))) },
        ...(conflict && { on_conflict: { type: conflict } }),
      };
    },
  });

/** The input types of a table. */
export const tableInputs = (table: GraphTable, types: Types): TableInputs => {
  const { name } = table;
  const own = (): TableInputs => types.inputs(table);
  const type = (column: Column): ValueType => types.column(column);
  const numbers = written(table).filter(({ baseType }) => isNumber(baseType));
  return {
    boolExp: boolExp(table, types),
    orderBy: orderBy(table, types),
    selectColumn: enumOf(`${name}_select_column`, table.columns.keys()),
    insert: insertInput(table, types),
    objectRelation: nested(table, 'obj', own),
    arrayRelation: nested(table, 'arr', own),
    onConflict: onConflict(table, own),
    set: inputOf(`${name}_set_input`, written(table), type),
    inc: inputOf(`${name}_inc_input`, numbers, type),
    key: inputOf(`${name}_pk_columns_input`, table.key, (column) => required(type(column))),
  };
};

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

const columnFields = (table: GraphTable, types: Types): ObjectFields =>
  Object.fromEntries(
    [...table.columns.values()].map((column) => {
      const type = types.column(column);
      return [column.name, { type: column.nullable ? type : required(type), description: column.comment }];
    }),
  );

const relationFields = (table: GraphTable, types: Types): ObjectFields => {
  const fields: ObjectFields = {};
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
const figureField = (
  table: GraphTable,
  name: string,
  type: (column: Column) => GraphQLOutputType | null,
): ObjectFields => {
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

const figures = (table: GraphTable, types: Types): ObjectFields => {
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
