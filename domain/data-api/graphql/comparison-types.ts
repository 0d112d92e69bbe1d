import { GraphQLBoolean, GraphQLInputObjectType, GraphQLList } from 'graphql';
import type { GraphQLInputFieldConfigMap, GraphQLInputType } from 'graphql';
import type { Column } from '#domain/data-api/schema/types.ts';
import { elementType, isArray, isJson, isText } from './scalars.ts';
import { type Types, type ValueType, listOf } from './types.ts';
import { containOperators, plainOperators, textOperators } from './where.ts';

const ending = '_comparison_exp';

/** Whether a type compares a column: where it is expected, the value alone may stand, too. */
export const isComparison = (name: string): boolean => name.endsWith(ending);

const each = (names: object, type: GraphQLInputType): GraphQLInputFieldConfigMap =>
  Object.fromEntries(Object.keys(names).map((name) => [name, { type }]));

const fieldsOf = (column: Column, type: ValueType): GraphQLInputFieldConfigMap => {
  const isList = isArray(column.baseType);
  const base = elementType(column);
  return {
    ...each(plainOperators, type),
    _in: { type: listOf(type) },
    _nin: { type: listOf(type) },
    _is_null: { type: GraphQLBoolean },
    ...(!isList && isText(base) && each(textOperators, type)),
    ...((isList || isJson(base)) && each(containOperators, type)),
  };
};

const description =
  'Conditions on one column, all of which have to hold. In place of the object the value itself may stand: `{title: "x"}` is `{title: {_eq: "x"}}`, and null is `{_is_null: true}`.';

/** One type for each type of column. */
export const comparisonTypes = (column: Types['column'], scalar: Types['scalar']): Types['comparison'] => {
  const made = new Map<string, GraphQLInputObjectType>();
  return (of) => {
    const isList = isArray(of.baseType);
    const name = `${String(scalar(elementType(of)))}${isList ? '_array' : ''}${ending}`;
    const known = made.get(name);
    if (known) return known;
    const element = scalar(elementType(of));
    const type = isList ? new GraphQLList(element) : column(of);
    const comparison = new GraphQLInputObjectType({ name, description, fields: () => fieldsOf(of, type) });
    made.set(name, comparison);
    return comparison;
  };
};
