import { DataError } from '#domain/data-api/errors.ts';
import type { DataSchema, Routine } from '#domain/data-api/schema/types.ts';
import { nearest } from '#lib/nearest.ts';

/** The arguments of a call: names of arguments, or a body for a parameter without a name. */
export interface Given {
  readonly name: string;
  readonly names: readonly string[];
  /** Types of a single unnamed parameter that the body would fit; none for GET. */
  readonly bodyTypes: readonly string[];
  /** The body is nothing but such a parameter: text and bytes have no names in them. */
  readonly bodyOnly: boolean;
}

export interface Chosen {
  readonly routine: Routine;
  /** The body is its one parameter. */
  readonly takesBody: boolean;
}

const fits = ({ parameters }: Routine, names: readonly string[]): boolean =>
  parameters.every(({ name, optional }) => optional || names.includes(name)) &&
  names.every((given) => given !== '' && parameters.some(({ name }) => name === given));

const takesBody = ({ parameters }: Routine, types: readonly string[]): boolean => {
  const [first] = parameters;
  return first !== undefined && parameters.length === 1 && first.name === '' && types.includes(first.type);
};

/** PostgREST's words for a call: `public.add(a, b)`, `public.now`. */
const callText = (schema: DataSchema, name: string, names: readonly string[]): string =>
  `${schema.name}.${name}(${names.join(', ')})`;

const hintOf = (schema: DataSchema, { name }: Given, overloads: readonly Routine[]): string | null => {
  const [first] = overloads;
  if (first !== undefined) {
    const parameters = first.parameters.map((parameter) => parameter.name);
    return `Perhaps you meant to call the function ${callText(schema, name, parameters)}`;
  }
  const close = nearest(name, schema.routines.keys());
  return close === null ? null : `Perhaps you meant to call the function ${schema.name}.${close}`;
};

const wordsFor = ({ names, bodyTypes, bodyOnly }: Given): string => {
  const single = bodyTypes.length === 0 ? '' : `with a single unnamed ${bodyTypes.join('/')} parameter`;
  if (bodyOnly) return single;
  const plural = names.length > 1 ? 's' : '';
  const named = names.length === 0 ? 'without parameters' : `with parameter${plural} ${names.join(', ')}`;
  return single === '' ? named : `${named} or ${single}`;
};

const notFound = (schema: DataSchema, given: Given, overloads: readonly Routine[]): DataError => {
  const { name, names, bodyOnly } = given;
  const called = bodyOnly
    ? `${schema.name}.${name}`
    : `${schema.name}.${name}${names.length === 0 ? ' without parameters' : `(${names.join(', ')})`}`;
  return new DataError(404, 'PGRST202', `Could not find the function ${called} in the schema cache`, {
    details: `Searched for the function ${schema.name}.${name} ${wordsFor(given)}, but no matches were found in the schema cache.`,
    hint: bodyOnly && overloads.length > 0 ? null : hintOf(schema, given, overloads),
  });
};

const signature = (schema: DataSchema, { name, parameters }: Routine): string =>
  `${schema.name}.${name}(${parameters.map((parameter) => `${parameter.name} => ${parameter.type}`).join(', ')})`;

const ambiguous = (schema: DataSchema, candidates: readonly Routine[]): DataError =>
  new DataError(
    300,
    'PGRST203',
    `Could not choose the best candidate function between: ${candidates.map((routine) => signature(schema, routine)).join(', ')}`,
    {
      hint: 'Try renaming the parameters or the function itself in the database so function overloading can be resolved',
    },
  );

/**
 * The function that a call means: the one whose parameters are those given, or else the one that takes the whole body.
 * @throws {DataError} PGRST202 when there is none, PGRST203 when there are several
 */
export const chooseFunction = (schema: DataSchema, given: Given): Chosen => {
  const overloads = schema.routines.get(given.name) ?? [];
  const named = given.bodyOnly ? [] : overloads.filter((routine) => fits(routine, given.names));
  const candidates = named.length > 0 ? named : overloads.filter((routine) => takesBody(routine, given.bodyTypes));
  const [routine] = candidates;
  if (routine === undefined) throw notFound(schema, given, overloads);
  if (candidates.length > 1) throw ambiguous(schema, candidates);
  return { routine, takesBody: named.length === 0 };
};
