import { z } from 'zod';
import { faultsOf } from '#domain/flags/check.ts';
import type { Flag } from '#domain/flags/flags.ts';
import { type FlagDefinition, environmentForm, flagTypes, keyForm } from '#domain/flags/definition.ts';
import type { StaleReason } from '#domain/flags/store.ts';
import { instant, name, namedObject, namedBody, text, wholeNumber } from '../fields.ts';

/** Flags as management calls read and write them (interface, "Feature flag"; contract, section 10). */

const reserved = new Set(['export', 'import']);

export const flagKey = z
  .string()
  .toLowerCase()
  .regex(keyForm, { error: 'has 1 to 100 of a-z, 0-9, ., _ and -, a letter or digit first' })
  .refine((key) => !reserved.has(key), { error: 'is reserved' });

/** A key in a path: what cannot be one names nothing. */
export const pathKey = z.string().toLowerCase().regex(keyForm);

export const environmentName = z
  .string()
  .regex(environmentForm, { error: 'has 1 to 63 of a-z, 0-9, _ and -, a letter first' });

const scalar = z.union([text(1000), z.number(), z.boolean()]);
const attribute = text(200, 1);
const condition = namedBody('FlagCondition', {
  attribute,
  operator: z.string().max(40),
  values: z.array(scalar).optional().describe('Left out for exists.'),
});
export const conditions = z.array(condition).max(100);
const percent = z.number().describe('0 to 100, in steps of 0.001.');
const variant = namedBody('FlagVariant', { name: text(100, 1).optional(), value: z.unknown(), percent });
const rollout = z.union([
  z.strictObject({ percent, attribute: attribute.optional() }),
  z.strictObject({ variants: z.array(variant).min(1).max(100), attribute: attribute.optional() }),
]);
const rule = z
  .strictObject({
    attribute: attribute.optional(),
    operator: z.string().max(40).optional(),
    values: z.array(scalar).optional(),
    conditions: conditions.optional(),
    segment: z.string().regex(keyForm).optional(),
    rollout: rollout.optional(),
    value: z.unknown().optional(),
  })
  .describe('{attribute, operator, values}, or {conditions, segment, rollout, value}: all of its parts must match.')
  .meta({ id: 'FlagRule' });
const prerequisite = z.strictObject({ key: pathKey, value: z.unknown() });

const fields = {
  name,
  description: text(2000),
  flag_type: z.enum(flagTypes),
  value: z.unknown().describe('Of the flag_type.'),
  default_value: z.unknown().describe('For those whom no rule matches; null: false, or null.'),
  is_enabled: z.boolean(),
  targeting_rules: z.array(rule),
  prerequisites: z.array(prerequisite),
  json_schema: z.record(z.string(), z.unknown()).nullable(),
};

/** The fields of a definition, with the usual ones for what is left out. */
const definition = {
  ...fields,
  name: name.optional(),
  description: text(2000).default(''),
  flag_type: fields.flag_type.default('boolean'),
  value: fields.value.optional(),
  default_value: fields.default_value.optional(),
  is_enabled: z.boolean().default(true),
  targeting_rules: fields.targeting_rules.default([]),
  prerequisites: fields.prerequisites.default([]),
  json_schema: fields.json_schema.default(null),
};

export const newFlag = namedBody('NewFlag', {
  key: flagKey,
  environment: environmentName.optional().describe('production where it is left out; made where there is none.'),
  ...definition,
});

export const flagPatch = z.strictObject({
  name: name.optional(),
  description: fields.description.optional(),
  flag_type: fields.flag_type.optional(),
  value: fields.value.optional(),
  default_value: fields.default_value.optional(),
  is_enabled: fields.is_enabled.optional(),
  targeting_rules: fields.targeting_rules.optional(),
  prerequisites: fields.prerequisites.optional(),
  json_schema: fields.json_schema.optional(),
});

const archived = z.boolean().describe('Archived flags are kept, and nobody evaluates them.');

/** A flag of a file. */
export const importedFlag = z.strictObject({ key: flagKey, ...definition, is_archived: archived.default(false) });

/** A boolean flag without a value is one that can be turned on. */
export const definitionOf = (
  given: Omit<z.output<typeof newFlag>, 'environment'> & { readonly is_archived?: boolean },
): FlagDefinition => ({
  name: given.name ?? given.key,
  description: given.description,
  flag_type: given.flag_type,
  value: given.value === undefined && given.flag_type === 'boolean' ? true : given.value,
  default_value: given.default_value ?? null,
  is_enabled: given.is_enabled,
  targeting_rules: given.targeting_rules,
  prerequisites: given.prerequisites,
  json_schema: given.json_schema,
  is_archived: given.is_archived,
});

/** The problems of a flag of a file. */
export const faultsOfImported = (flag: z.output<typeof importedFlag>) => faultsOf(flag.key, definitionOf(flag));

export const flag = namedObject('Flag', {
  key: z.string(),
  environment: z.string(),
  ...fields,
  name: z.string(),
  targeting_rules: z.array(z.unknown()),
  prerequisites: z.array(z.unknown()),
  json_schema: z.unknown(),
  is_archived: archived,
  version: z.int(),
  created_at: instant,
  updated_at: instant,
});

export const staleReason = z
  .enum(['unused', 'always_alike'] satisfies StaleReason[])
  .nullable()
  .describe('unused: not asked for in 30 days; always_alike: always the same answer. Null: neither.');

export const listedFlag = namedObject('ListedFlag', { ...flag.shape, stale: z.boolean(), stale_reason: staleReason });

export const shownFlag = ({ definition: own, key, environment, version, created_at, updated_at }: Flag) => ({
  key,
  environment,
  ...own,
  targeting_rules: [...own.targeting_rules],
  prerequisites: [...own.prerequisites],
  is_archived: own.is_archived === true,
  version,
  created_at,
  updated_at,
});

export const inEnvironment = z.object({
  environment: environmentName.default('production').describe('Left out: production.'),
});

/** Rows of these lists can have a megabyte each. */
export const partOfPage = 'As many as fit into 1 MB, one at least, up to limit: the next page begins behind them.';

export const flagList = z.object({
  environment: environmentName.optional().describe('Left out: of all environments.'),
  q: text(100).optional().describe('A part of the key or the name.'),
  stale: z.enum(['true', 'false']).optional(),
  archived: z
    .enum(['true', 'false', 'all'])
    .default('false')
    .describe('true: archived ones only; all: these and the others.'),
  limit: wholeNumber(50, 1, 200),
  offset: wholeNumber(0, 0, 1_000_000),
});

export const context = z.record(z.string(), z.unknown()).describe('Attributes of whoever the flag is evaluated for.');

const segmentFields = {
  key: z.string(),
  name: z.string(),
  conditions: z.array(z.unknown()).nullable(),
  key_count: z.int(),
  version: z.int().describe('Rises with each change. If-Match names it.'),
  created_at: instant,
  updated_at: instant,
};
const segmentKeys = z.array(z.string()).nullable();

export const segmentWithoutKeys = namedObject('SegmentWithoutKeys', segmentFields);

export const listedSegment = namedObject('ListedSegment', {
  ...segmentFields,
  keys: segmentKeys.describe('Null where there are more than 100.'),
  flags: z.int().describe('How many flags name it, of all environments.'),
});

export const segment = namedObject('Segment', {
  ...segmentFields,
  used_by: z
    .array(z.object({ key: z.string(), environment: z.string() }))
    .describe('The first 100 flags whose rules name it. While there are any it cannot be deleted.'),
  keys: segmentKeys,
});
