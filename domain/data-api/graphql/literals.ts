import type { ValueNode } from 'graphql';

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
export const numberText = (value: unknown): string | null => {
  if (isRawJson(value)) return value.rawJSON;
  return typeof value === 'number' ? String(value) : null;
};

/** The literals that GraphQL's own Int and Float accept. */
export const plainNumber = (value: unknown): unknown => (isRawJson(value) ? Number(value.rawJSON) : value);
