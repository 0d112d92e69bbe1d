import { z } from 'zod';
import { type Fault, createChainCheck, valuesOf } from '#domain/flags/check.ts';
import { definitionText } from '#domain/flags/definition.ts';
import { checkBySchema } from '#domain/flags/json-schema.ts';
import { type SegmentFields, maxSegmentKeys } from '#domain/flags/segments.ts';
import type { ImportedFlags } from '#domain/flags/transfer.ts';
import type { Reader } from '#lib/json-thread.ts';
import { name } from '#api/fields.ts';
import {
  conditions,
  definitionOf,
  environmentName,
  faultsOfImported,
  importedFlag,
  flagKey,
} from '#api/shapes/flags.ts';
import { inPlainWords } from '#api/validation-messages.ts';

/**
 * Reads bodies with up to 10 MB in the thread for JSON: their check would hold up the event loop for half a second.
 * What goes back are few long texts.
 */

const maxFaults = 20;
const maxKeyLength = 256;

const isLine = (key: string): boolean =>
  key !== '' && key.length <= maxKeyLength && !/\p{Cc}/u.test(key) && key.isWellFormed();

/** A line for each key; null: one of them cannot be a key. */
const linesOf = (keys: readonly string[]): NonNullable<SegmentFields['keys']> | null => {
  const unique = [...new Set(keys)];
  return unique.every(isLine) ? { text: unique.join('\n'), count: unique.length } : null;
};

const isShortList = (value: unknown): value is readonly unknown[] =>
  Array.isArray(value) && value.length <= maxSegmentKeys;

const keyList = z
  .custom(isShortList, { error: `must be a list of at most ${maxSegmentKeys} keys` })
  .pipe(z.array(z.string()))
  .transform((keys, issues) => {
    const lines = linesOf(keys);
    if (lines !== null) return lines;
    issues.addIssue({ code: 'custom', message: `each has 1 to ${maxKeyLength} characters in one line` });
    return z.NEVER;
  });

const segmentBody = z
  .strictObject({
    key: flagKey.optional(),
    name: name.optional(),
    conditions: conditions.optional(),
    keys: keyList.optional(),
  })
  .refine((body) => body.conditions === undefined || body.keys === undefined, {
    error: 'has either conditions or keys',
  });

/** A body that was read: its value, or its problems. */
interface ReadBody<T> {
  readonly faults: readonly Fault[];
  readonly body: T | null;
}

const faultsOfError = (error: z.ZodError): Fault[] =>
  error.issues
    .slice(0, maxFaults)
    .map((issue) => ({ path: issue.path.join('.').slice(0, 300), message: issue.message.slice(0, 300) }));

export type SegmentBody = z.output<typeof segmentBody>;

const read = <T>(schema: z.ZodType<T>, text: string): ReadBody<T> => {
  const parsed = schema.safeParse(JSON.parse(text), { error: inPlainWords });
  return parsed.success ? { faults: [], body: parsed.data } : { faults: faultsOfError(parsed.error), body: null };
};

export const readSegment: Reader = (text) => ({ value: read(segmentBody, text) });

const maxFlags = 100_000;
const maxFlagLength = 1024 * 1024;

const fileBody = z.strictObject({
  environment: environmentName.optional(),
  flags: z.array(z.unknown()).max(maxFlags),
  segments: z
    .array(
      z.strictObject({
        key: flagKey,
        name: name.optional(),
        conditions: conditions.nullish(),
        keys: keyList.nullish(),
      }),
    )
    .max(1000)
    .default([]),
});

type File = Omit<z.output<typeof fileBody>, 'flags'> & { readonly flags: readonly z.output<typeof importedFlag>[] };

/** One by one: the list of all problems of a hostile file would be a hundred times as large as the file. */
const readFlags = (given: readonly unknown[]): { flags: File['flags']; faults: Fault[] } => {
  const flags: z.output<typeof importedFlag>[] = [];
  const faults: Fault[] = [];
  for (const [index, one] of given.entries()) {
    if (faults.length >= maxFaults) break;
    if (JSON.stringify(one).length > maxFlagLength)
      faults.push({ path: `flags.${index}`, message: 'is larger than 1 MB' });
    else {
      const parsed = importedFlag.safeParse(one, { error: inPlainWords });
      if (parsed.success) flags.push(parsed.data);
      else
        faults.push(
          ...faultsOfError(parsed.error).map((fault) => ({ ...fault, path: `flags.${index}.${fault.path}` })),
        );
    }
  }
  return { flags, faults: faults.slice(0, maxFaults) };
};

const faultsBetween = ({ flags, segments }: File): Fault[] => {
  const present = flags.filter((flag) => !flag.is_archived);
  const byKey = new Map(present.map((flag) => [flag.key, flag]));
  if (new Set(flags.map(({ key }) => key)).size < flags.length)
    return [{ path: 'flags', message: 'two of them have the same key' }];
  if (new Set(segments.map(({ key }) => key)).size < segments.length)
    return [{ path: 'segments', message: 'two of them have the same key' }];
  const faultOfChain = createChainCheck(byKey);
  return flags.flatMap(({ key }, index) => {
    const message = (byKey.get(key)?.prerequisites.length ?? 0) === 0 ? null : faultOfChain(key);
    return message === null ? [] : [{ path: `flags.${index}.prerequisites`, message }];
  });
};

const faultsOfOne = (flag: File['flags'][number], index: number): Fault[] => {
  const own = faultsOfImported(flag);
  const { json_schema: schema } = flag;
  const bySchema =
    own.length > 0 || schema === null ? [] : checkBySchema({ schema, values: valuesOf(definitionOf(flag)) });
  return [...own, ...bySchema].map(({ path, message }) => ({ path: `flags.${index}.${path}`, message }));
};

const faultsOfFile = (file: File): Fault[] => {
  const found = faultsBetween(file);
  for (const [index, flag] of file.flags.entries()) {
    if (found.length >= maxFaults) break;
    found.push(...faultsOfOne(flag, index));
  }
  for (const [index, { conditions: some, keys }] of file.segments.entries())
    if (((some ?? null) === null) === ((keys ?? null) === null))
      found.push({ path: `segments.${index}`, message: 'has either conditions or keys' });
  return found.slice(0, maxFaults);
};

const importedOf = ({
  environment,
  flags,
  segments,
}: File): ImportedFlags & { readonly environment?: string | undefined } => ({
  environment,
  flags: flags.map((flag) => {
    const definition = definitionOf(flag);
    const { name: called, flag_type, is_enabled, is_archived } = definition;
    const listed = { name: called, flag_type, is_enabled, is_archived };
    return { key: flag.key, definition: listed, text: definitionText(definition) };
  }),
  segments: segments.map(({ key, name: called = key, conditions: some = null, keys = null }) => ({
    key,
    name: called,
    conditions: some,
    keys,
  })),
  named: [...new Set(flags.flatMap(({ targeting_rules: rules }) => rules.flatMap(({ segment }) => segment ?? [])))],
});

const refused = (faults: readonly Fault[]) => ({ value: { faults, body: null } });

export const readFile: Reader = (text) => {
  const { faults, body } = read(fileBody, text);
  if (body === null) return refused(faults);
  const { flags, faults: wrong } = readFlags(body.flags);
  if (wrong.length > 0) return refused(wrong);
  const file = { ...body, flags };
  try {
    const between = faultsOfFile(file);
    return between.length > 0 ? refused(between) : { value: { faults: [], body: importedOf(file) } };
  } catch {
    return refused([{ path: 'flags', message: 'a JSON Schema cannot be read' }]);
  }
};

export const readers = {
  segment: { module: import.meta.url, name: 'readSegment' },
  file: { module: import.meta.url, name: 'readFile' },
} as const;
