import type { Column } from '#domain/data-api/schema/types.ts';
import { failure } from './failure.ts';
import { type Fields, VariableUse, isFields, numberText } from './literals.ts';
import { elementType, isArray, isJson } from './scalars.ts';

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
