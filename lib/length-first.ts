import { z } from 'zod';

type Schema = z.core.$ZodType;

const isSchema = (value: unknown): value is Schema => typeof value === 'object' && value !== null && '_zod' in value;

const internalsOf = <Part extends Schema | z.core.$ZodCheck>({ _zod }: Part): Part['_zod'] => _zod;

/** The schemas that stand in a definition, at any depth: of fields, elements, options and the like. */
const schemasIn = (value: unknown): readonly Schema[] => {
  if (isSchema(value)) return [value];
  if (Array.isArray(value)) return value.flatMap(schemasIn);
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype
    ? Object.values(value).flatMap(schemasIn)
    : [];
};

const maxLengthOf = (schema: z.core.$ZodArray): z.core.$ZodCheck | undefined =>
  internalsOf(schema).def.checks?.find((check) => internalsOf(check).def.check === 'max_length');

/** Checks the length of a list before its elements. */
const checkLengthFirst = (schema: z.core.$ZodArray, maxLength: z.core.$ZodCheck): void => {
  const internals = internalsOf(schema);
  const run = internals.run.bind(internals);
  internals.run = (payload, context) => {
    if (!Array.isArray(payload.value)) return run(payload, context);
    const before = payload.issues.length;
    void internalsOf(maxLength).check(payload as z.core.ParsePayload<never>);
    const issue = payload.issues[before];
    if (issue === undefined) return run(payload, context);
    // Nothing that follows may take the elements for checked ones.
    payload.issues[before] = { ...issue, continue: false };
    return payload;
  };
};

const known = new WeakSet<Schema>();

/**
 * Lets each list within a schema that has a maximum length refuse longer ones by that alone. Zod checks all elements
 * first, and keeps an issue for each that is wrong: a second and 200 MB for a megabyte of zeros.
 * @returns the same schema
 */
export const lengthFirst = <S extends Schema>(schema: S): S => {
  if (known.has(schema)) return schema;
  known.add(schema);
  const maxLength = schema instanceof z.core.$ZodArray ? maxLengthOf(schema) : undefined;
  if (maxLength !== undefined) checkLengthFirst(schema as unknown as z.core.$ZodArray, maxLength);
  const { checks: _checks, ...parts } = internalsOf(schema).def as unknown as Readonly<Record<string, unknown>>;
  for (const part of schemasIn(parts)) lengthFirst(part);
  return schema;
};
