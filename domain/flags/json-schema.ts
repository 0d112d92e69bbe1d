import { Validator } from '@cfworker/json-schema';
import type { JsonParser } from '#lib/json-parser.ts';
import type { Reader } from '#lib/json-thread.ts';
import type { Fault } from './check.ts';

/** The values of a flag against its JSON Schema. Read in a thread with a time-out: a schema may take any time. */

const refused: Readonly<Record<string, string>> = {
  pattern: 'patterns are not checked here, because JavaScript’s can take forever',
  patternProperties: 'patterns are not checked here, because JavaScript’s can take forever',
  $dynamicRef: 'is not supported',
};

const faultOfKeyword = (name: string, value: unknown): string | null => {
  if (name === '$ref' && typeof value === 'string' && !value.startsWith('#')) return 'leads out of the schema';
  return Object.hasOwn(refused, name) ? (refused[name] ?? null) : null;
};

const faultOfSchema = (schema: unknown): Fault | null => {
  const waiting: { readonly path: string; readonly part: unknown }[] = [{ path: 'json_schema', part: schema }];
  while (waiting.length > 0) {
    const { path, part } = waiting.pop() ?? { path: '', part: null };
    if (typeof part !== 'object' || part === null) continue;
    for (const [name, value] of Object.entries(part)) {
      // A property may have any name; then what stands there is a schema, and no text.
      const message = typeof value === 'string' || name === 'patternProperties' ? faultOfKeyword(name, value) : null;
      if (message !== null) return { path: `${path}.${name}`.slice(0, 200), message };
      waiting.push({ path: `${path}.${name}`, part: value });
    }
  }
  return null;
};

interface Checked {
  readonly schema: object;
  readonly values: readonly { readonly path: string; readonly value: unknown }[];
}

const maxFaults = 20;

/** Synchronous: for the thread. */
export const checkBySchema = ({ schema, values }: Checked): Fault[] => {
  const bad = faultOfSchema(schema);
  if (bad !== null) return [bad];
  const validator = new Validator(schema, '2020-12', true);
  return values.flatMap(({ path, value }) => {
    const { valid, errors } = validator.validate(value);
    const [error] = errors.toReversed();
    return valid
      ? []
      : [{ path, message: `does not fit json_schema: ${error?.error ?? 'it is refused'}`.slice(0, 300) }];
  });
};

/** Runs in the thread. */
export const readSchemaFaults: Reader = (text) => {
  try {
    return { value: checkBySchema(JSON.parse(text) as Checked).slice(0, maxFaults) };
  } catch (error) {
    const message = error instanceof Error ? error.message.slice(0, 200) : 'it cannot be read';
    return { value: [{ path: 'json_schema', message: `is no usable schema: ${message}` }] };
  }
};

const reader = { module: import.meta.url, name: 'readSchemaFaults' };

/** The values that a schema refuses, or the problem of the schema. @throws {ServiceError} `overloaded` */
export const faultsBySchema = async (
  json: Pick<JsonParser, 'read'>,
  owner: string,
  { schema, values }: { readonly schema: unknown; readonly values: Checked['values'] },
): Promise<Fault[]> => {
  if (typeof schema !== 'object' || schema === null) return [];
  if (Array.isArray(schema)) return [{ path: 'json_schema', message: 'must be an object' }];
  return (await json.read(Buffer.from(JSON.stringify({ schema, values })), reader, { owner })) as Fault[];
};
