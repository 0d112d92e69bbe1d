import { GraphQLList, GraphQLNonNull } from 'graphql';
import type {
  GraphQLEnumType,
  GraphQLFieldConfigMap,
  GraphQLInputObjectType,
  GraphQLNullableType,
  GraphQLObjectType,
  GraphQLScalarType,
} from 'graphql';
import type { Column } from '#domain/data-api/schema/types.ts';
import type { GraphTable } from './model.ts';

export type Fields = GraphQLFieldConfigMap<unknown, unknown>;
/** The type of a column. */
export type ValueType = GraphQLScalarType | GraphQLList<GraphQLScalarType>;

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

/** The types of one schema, each made once, when it is first asked for. */
export interface Types {
  readonly orderBy: GraphQLEnumType;
  readonly column: (column: Column) => ValueType;
  readonly scalar: (baseType: string) => GraphQLScalarType;
  /** `String_comparison_exp` and so on. */
  readonly comparison: (column: Column) => GraphQLInputObjectType;
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
