import { GraphQLBoolean, GraphQLFloat, GraphQLInt, GraphQLScalarType, GraphQLString } from 'graphql';
import type { Column } from '#domain/data-api/schema/types.ts';
import { valueOf } from './literals.ts';
import { isName } from './names.ts';

/** `int4` of `_int4`. */
export const elementType = ({ baseType }: Column): string => (isArray(baseType) ? baseType.slice(1) : baseType);

export const isArray = (baseType: string): boolean => baseType.startsWith('_');

export const isJson = (baseType: string): boolean => baseType === 'json' || baseType === 'jsonb';

const textTypes = new Set(['text', 'varchar', 'bpchar', 'char', 'name']);
const numberTypes = new Set(['int2', 'int4', 'int8', 'float4', 'float8', 'numeric', 'money']);

/** Whether `_like` and its kin are possible. */
export const isText = (baseType: string): boolean => textTypes.has(baseType) || baseType === 'citext';

export const isNumber = (baseType: string): boolean => numberTypes.has(baseType);

const builtIn: Readonly<Record<string, GraphQLScalarType>> = {
  int4: GraphQLInt,
  float8: GraphQLFloat,
  bool: GraphQLBoolean,
  ...Object.fromEntries([...textTypes].map((name) => [name, GraphQLString])),
};

// As Hasura calls them.
const renamed: Readonly<Record<string, string>> = { int2: 'smallint', int8: 'bigint' };

const asItIs = (value: unknown): unknown => value;

/** The server judges values: they travel as text that is not parsed here. */
const passing = (name: string): GraphQLScalarType =>
  new GraphQLScalarType({
    name,
    description: `PostgreSQL's ${name}.`,
    coerceInputValue: asItIs,
    coerceInputLiteral: valueOf,
    coerceOutputValue: asItIs,
  });

/**
 * The scalars of one schema: one GraphQL type for each type of the server.
 * @param isTaken whether a table has the name: types of other schemas may be called as it is
 */
export const scalarTypes = (isTaken: (name: string) => boolean): ((baseType: string) => GraphQLScalarType) => {
  const made = new Map<string, GraphQLScalarType>();
  return (baseType) => {
    const own = builtIn[baseType];
    if (own !== undefined) return own;
    const name = renamed[baseType] ?? baseType;
    if (!isName(name) || isTaken(name)) return GraphQLString;
    const scalar = made.get(name) ?? passing(name);
    made.set(name, scalar);
    return scalar;
  };
};
