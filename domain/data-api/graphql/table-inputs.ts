import { GraphQLEnumType, GraphQLInputObjectType, GraphQLList } from 'graphql';
import type { GraphQLInputFieldConfigMap, GraphQLInputType } from 'graphql';
import type { Column } from '#domain/data-api/schema/types.ts';
import type { GraphTable, Relation } from './model.ts';
import { isNumber } from './scalars.ts';
import { type TableInputs, type Types, type ValueType, listOf, required } from './types.ts';

type FieldMap = GraphQLInputFieldConfigMap;

const each = <T>(items: Iterable<T>, entry: (item: T) => readonly [string, GraphQLInputType]): FieldMap =>
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
      ...each(table.columns.values(), (column) => [column.name, types.comparison(column)]),
      ...each(table.relations.values(), ({ name, target }) => [name, types.inputs(target).boolExp]),
    }),
  });
  return type;
};

const orderBy = (table: GraphTable, types: Types): GraphQLInputObjectType =>
  new GraphQLInputObjectType({
    name: `${table.name}_order_by`,
    fields: () => ({
      ...each(table.columns.keys(), (name) => [name, types.orderBy]),
      ...each(
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
    : new GraphQLInputObjectType({ name, fields: () => each(columns, (column) => [column.name, type(column)]) });

const relationInput = ({ many, target }: Relation, types: Types): GraphQLInputObjectType => {
  const { arrayRelation, objectRelation } = types.inputs(target);
  return many ? arrayRelation : objectRelation;
};

const written = (table: GraphTable): Column[] => [...table.columns.values()].filter(({ generated }) => !generated);

const insertInput = (table: GraphTable, types: Types): GraphQLInputObjectType =>
  new GraphQLInputObjectType({
    name: `${table.name}_insert_input`,
    fields: () => ({
      ...each(written(table), (column) => [column.name, types.column(column)]),
      ...each(
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
