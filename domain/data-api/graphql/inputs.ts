import { type ValueNode, GraphQLBoolean, GraphQLFloat, GraphQLInt, GraphQLScalarType, GraphQLString } from 'graphql';
import type { Column } from '../schema/schema.ts';
import { isName, failure } from './model.ts';

// ECMAScript 2026; TypeScript's own libraries do not declare it yet.
const rawJson = Reflect.get(JSON, 'rawJSON') as (text: string) => unknown;
const isRawJson = Reflect.get(JSON, 'isRawJSON') as (value: unknown) => value is { readonly rawJSON: string };

/** Where a document names a variable: what it is worth is asked for where it is used. */
export class VariableUse {
  readonly name: string;

  constructor(name: string) {
    this.name = name;
  }
}

export type Fields = Readonly<Record<string, unknown>>;

/** Whether a value is an object with fields, and no number that is kept as it was written. */
export const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' &&
  value !== null &&
  !Array.isArray(value) &&
  !isRawJson(value) &&
  !(value instanceof VariableUse);

const ownFields = (entries: Iterable<readonly [string, unknown]>): Fields =>
  Object.assign(Object.create(null) as object, Object.fromEntries(entries)) as Fields;

/** Numbers stay as they were written; variables stay variables. */
export const valueOf = (node: ValueNode): unknown => {
  switch (node.kind) {
    case 'Variable':
      return new VariableUse(node.name.value);
    case 'NullValue':
      return null;
    case 'IntValue':
    case 'FloatValue':
      return rawJson(node.value);
    case 'ListValue':
      return node.values.map(valueOf);
    case 'ObjectValue':
      return ownFields(node.fields.map(({ name, value }) => [name.value, valueOf(value)]));
    case 'StringValue':
    case 'EnumValue':
    case 'BooleanValue':
      return node.value;
    default:
      return node satisfies never;
  }
};

/** A number as it was written, or as JavaScript writes it. */
const numberText = (value: unknown): string | null => {
  if (isRawJson(value)) return value.rawJSON;
  return typeof value === 'number' ? String(value) : null;
};

/** The literals that GraphQL's own Int and Float accept. */
export const plainNumber = (value: unknown): unknown => (isRawJson(value) ? Number(value.rawJSON) : value);

/** `int4` of `_int4`. */
export const elementType = ({ baseType }: Pick<Column, 'baseType'>): string =>
  isArray(baseType) ? baseType.slice(1) : baseType;

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

/** As Hasura calls them. */
export const renamed: Readonly<Record<string, string>> = { int2: 'smallint', int8: 'bigint' };

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

type Encode = (value: unknown) => string;

const quoted = (text: string): string => `"${text.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`;

const elementsText = (values: readonly unknown[], encode: Encode): string => {
  const textOf = (value: unknown): string => {
    if (value === null || value === undefined) return 'NULL';
    return Array.isArray(value) ? elementsText(value, encode) : quoted(encode(value));
  };
  return `{${values.map(textOf).join(',')}}`;
};

/** In the text form of the server. @throws {GraphQLError} NUL and objects, which it cannot take */
export const scalarText: Encode = (value) => {
  const number = numberText(value);
  if (number !== null) return number;
  if (typeof value === 'boolean') return String(value);
  if (typeof value !== 'string') throw failure('validation_failed', 'An object or a list stands where a value should.');
  if (value.includes('\0')) throw failure('22021', 'Text must not contain NUL.');
  return value;
};

const jsonText: Encode = (value) => JSON.stringify(value);

const listText =
  (encode: Encode): Encode =>
  (value) =>
    elementsText(Array.isArray(value) ? value : [value], encode);

const elementEncoder = (column: Column): Encode => (isJson(elementType(column)) ? jsonText : scalarText);

/** How a value of a column goes to the server. */
export const encoderOf = (column: Column): Encode =>
  isArray(column.baseType) ? listText(elementEncoder(column)) : elementEncoder(column);

/** How a list of values of a column does, for `= any(…)`. */
export const listEncoderOf = (column: Column): Encode =>
  isArray(column.baseType)
    ? (value) => elementsText([value].flat(), (part) => encoderOf(column)(part))
    : listText(elementEncoder(column));

/** The value of a variable in `Sql.params`; text of a client has no NUL. */
const markerOf = (index: number): string => `\0${index}`;

interface Late {
  readonly name: string;
  readonly encode: Encode;
}

/** The values of variables that one compilation depended on: it fits any request with the same ones. */
export interface Trace {
  /** Variables that stand in for values only, and were not null. */
  readonly late: readonly Late[];
  /** The names of all other variables that were read. */
  readonly seen: ReadonlySet<string>;
}

/** The values of a request, and a record of those that were read. */
export interface Inputs {
  readonly trace: Trace;
  /** The value itself, with what it is nested in. Undefined: a variable that was not given. */
  readonly resolveVariables: (value: unknown) => unknown;
  /** Text for the server, or what will be replaced by it (`bound`). */
  readonly text: (value: unknown, encode: Encode) => string | null;
}

/** Everything replaced in depth, for values that are passed on as a whole. */
const deep = (value: unknown, resolveVariables: (value: unknown) => unknown): unknown => {
  const here = resolveVariables(value);
  if (Array.isArray(here)) return here.map((part) => deep(part, resolveVariables));
  if (!isFields(here)) return here;
  return Object.fromEntries(Object.entries(here).map(([key, part]) => [key, deep(part, resolveVariables)]));
};

/** @param how `now`: nothing is left for later, because what is written of a variable depends on its value */
export const inputsOf = (variables: Fields, how: 'late' | 'now'): Inputs => {
  const late: Late[] = [];
  const seen = new Set<string>();
  const resolveVariables = (value: unknown): unknown => {
    if (!(value instanceof VariableUse)) return value;
    seen.add(value.name);
    return variables[value.name];
  };
  return {
    trace: { late, seen },
    resolveVariables,
    text: (value, encode) => {
      if (how === 'late' && value instanceof VariableUse && (variables[value.name] ?? null) !== null)
        return markerOf(late.push({ name: value.name, encode }) - 1);
      const found = deep(value, resolveVariables) ?? null;
      return found === null ? null : encode(found);
    },
  };
};

/** The variables that a compilation read, as JSON: its result holds for requests with the same ones. */
export const seenOf = ({ seen }: Trace, variables: Fields): string =>
  JSON.stringify([...seen].map((name) => [variables[name]]));

/** Whether what stands in for values only has values, as it had when the statement was made. */
export const hasValues = ({ late }: Trace, variables: Fields): boolean =>
  late.every(({ name }) => (variables[name] ?? null) !== null);

/** The parameters of a statement with the variables' values in their places. */
export const bound = (
  params: readonly (string | null)[],
  { late }: Trace,
  variables: Fields,
): readonly (string | null)[] =>
  params.map((param) => {
    if (param === null || !param.startsWith('\0')) return param;
    const one = late[Number(param.slice(1))];
    return one === undefined ? null : one.encode(variables[one.name]);
  });
