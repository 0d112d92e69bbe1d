import {
  type GraphQLField,
  GraphQLObjectType,
  type GraphQLSchema,
  SchemaMetaFieldDef,
  TypeMetaFieldDef,
  getNamedType,
  getNullableType,
  isListType,
} from 'graphql';
import { type SelectedField, argument, collect } from './collect.ts';
import { createBudget } from './document.ts';
import { type Fields, type Inputs, inputsOf } from './inputs.ts';
import { failure } from './model.ts';
import type { Operation } from './operation.ts';

// All of 100 tables of 15 columns, in the words of the usual tools, is some 350,000 keys and values, 4 MB and 50 ms of
// the process, which does nothing else meanwhile.
const maxParts = 800_000;
const maxLetters = 8 * 1024 * 1024;

/** Keeps count of what is written, and throws as soon as it is too much. */
const createMeter = (): ((text: string) => string) => {
  let parts = 0;
  let letters = 0;
  return (text) => {
    parts += 1;
    letters += text.length;
    if (parts > maxParts || letters > maxLetters)
      throw failure(
        'query_too_costly',
        `The introspection query selects more than ${maxParts} keys and values, or ${maxLetters / 1024 / 1024} MB: ask for less at a time.`,
      );
    return text;
  };
};

type Resolve = (source: unknown) => unknown;
type Write = (value: unknown) => string;

/** One key of the objects that a selection makes. */
interface Entry {
  /** `"key":` */
  readonly head: string;
  readonly resolve: Resolve;
  readonly write: Write;
}

interface Work {
  readonly schema: GraphQLSchema;
  readonly inputs: Inputs;
  readonly collected: (selected: SelectedField) => readonly SelectedField[];
  readonly meter: (text: string) => string;
}

// The arguments that graphql-js gives its resolvers besides: those of introspection read the schema and nothing else.
type Info = Parameters<NonNullable<GraphQLField<unknown, unknown>['resolve']>>[3];

const resolverOf = (
  { resolve }: GraphQLField<unknown, unknown>,
  selected: SelectedField,
  { schema, inputs }: Work,
): Resolve => {
  const args = {
    name: inputs.resolveVariables(argument(selected, 'name')),
    includeDeprecated: inputs.resolveVariables(argument(selected, 'includeDeprecated')) === true,
  };
  return (source) => resolve?.(source, args, undefined, { schema } as Info);
};

const leafWriter =
  ({ meter }: Work): Write =>
  (value) =>
    meter(JSON.stringify(value ?? null));

const objectWriter = (type: GraphQLObjectType, selected: SelectedField, work: Work): Write => {
  // Made with the first object: a selection that no object is there for costs nothing.
  let entries: readonly Entry[] | undefined;
  const { meter } = work;
  return (source) => {
    if (source === null || source === undefined) return meter('null');
    entries ??= work.collected(selected).map((one) => entryOf(type, one, work));
    let text = '';
    for (const { head, resolve, write } of entries)
      text += `${text === '' ? '{' : ','}${meter(head)}${write(resolve(source))}`;
    return `${text}}`;
  };
};

const listWriter =
  (write: Write, { meter }: Work): Write =>
  (values) =>
    Array.isArray(values) ? `[${values.map((value) => write(value)).join(',')}]` : meter('null');

const fieldEntry = (field: GraphQLField<unknown, unknown>, selected: SelectedField, work: Work): Entry => {
  const type = getNamedType(field.type);
  const one = type instanceof GraphQLObjectType ? objectWriter(type, selected, work) : leafWriter(work);
  const write = isListType(getNullableType(field.type)) ? listWriter(one, work) : one;
  return { head: `${JSON.stringify(selected.key)}:`, resolve: resolverOf(field, selected, work), write };
};

const entryOf = (type: GraphQLObjectType, selected: SelectedField, work: Work): Entry => {
  const field = type.getFields()[selected.name];
  if (field) return fieldEntry(field, selected, work);
  return { head: `${JSON.stringify(selected.key)}:`, resolve: () => type.name, write: leafWriter(work) };
};

/**
 * Writes the GraphQL schema's description of itself, as JSON text by the selected keys: field by field, and stopped
 * once it is too long. graphql-js itself would first hold all of it, however much fragments and aliases multiply.
 * @param variables as the operation's definitions read them
 * @throws {GraphQLError}
 */
export const introspect = (
  schema: GraphQLSchema,
  { fragments }: Operation,
  selected: readonly SelectedField[],
  variables: Fields,
): ReadonlyMap<string, string> => {
  const inputs = inputsOf(variables, 'now');
  const budget = createBudget();
  const collected = ({ sets }: SelectedField): readonly SelectedField[] => collect(sets, { inputs, fragments, budget });
  const work: Work = { schema, inputs, collected, meter: createMeter() };
  return new Map(
    selected.map((one) => {
      const { resolve, write } = fieldEntry(one.name === '__schema' ? SchemaMetaFieldDef : TypeMetaFieldDef, one, work);
      return [one.key, write(resolve(null))];
    }),
  );
};
