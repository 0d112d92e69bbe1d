/*
 * Feature flags: values that a project's team changes while its application runs. The way through this folder:
 * definition.ts (the shape of a flag), operators.ts (conditions), compile.ts and evaluate.ts (from a definition and a
 * context to a value, without I/O), check.ts (refuses definitions that cannot be evaluated), store.ts and flags.ts
 * (rows and changes of flags), environments.ts, segments.ts, transfer.ts (import, export, copy, compare), flag-sets.ts
 * (the compiled flags that a process keeps), ofrep.ts (answers of the OpenFeature Remote Evaluation Protocol),
 * schedules.ts, usage.ts.
 */

export const flagTypes = ['boolean', 'string', 'number', 'json'] as const;
export type FlagType = (typeof flagTypes)[number];

/** A value with which an attribute is compared. */
export type Scalar = string | number | boolean;

export interface Condition {
  readonly attribute: string;
  readonly operator: string;
  readonly values?: readonly Scalar[] | undefined;
}

interface Variant {
  readonly name?: string | undefined;
  readonly value: unknown;
  /** In steps of 0.001. */
  readonly percent: number;
}

/** The hash of an attribute decides who is in a part of all users, so that everybody stays where they are. */
export type Rollout =
  | { readonly percent: number; readonly attribute?: string | undefined }
  | { readonly variants: readonly Variant[]; readonly attribute?: string | undefined };

/**
 * All of its parts must match. The interface's form, `{attribute, operator, values}`, is a rule with one condition.
 */
export interface Rule {
  readonly attribute?: string | undefined;
  readonly operator?: string | undefined;
  readonly values?: readonly Scalar[] | undefined;
  readonly conditions?: readonly Condition[] | undefined;
  readonly segment?: string | undefined;
  readonly rollout?: Rollout | undefined;
  /** Left out: the flag's value. */
  readonly value?: unknown;
}

/** Another flag of the environment that must have a value. */
export interface Prerequisite {
  readonly key: string;
  readonly value: unknown;
}

/** The fields of a flag that make up a version of it. */
export interface FlagDefinition {
  readonly name: string;
  readonly description: string;
  readonly flag_type: FlagType;
  readonly value: unknown;
  /** For those whom no rule matches. Null: false, or null. */
  readonly default_value: unknown;
  readonly is_enabled: boolean;
  readonly targeting_rules: readonly Rule[];
  readonly prerequisites: readonly Prerequisite[];
  /** For the values of a JSON flag. */
  readonly json_schema: unknown;
  /** It is kept, and nobody evaluates it. Left out: it is not archived. */
  readonly is_archived?: boolean | undefined;
}

/** Changes of a flag; fields that are left out stay as they are. */
export type FlagPatch = {
  readonly [Field in keyof Omit<FlagDefinition, 'is_archived'>]?: FlagDefinition[Field] | undefined;
};

export const keyForm = /^[a-z0-9][a-z0-9._-]{0,99}$/;
export const environmentForm = /^[a-z][a-z0-9_-]{0,62}$/;
export const defaultEnvironment = 'production';

/** Everybody who is asked about has one under this name. */
export const targetingKey = 'targetingKey';

const definitionFields = [
  'name',
  'description',
  'flag_type',
  'value',
  'default_value',
  'is_enabled',
  'targeting_rules',
  'prerequisites',
  'json_schema',
] as const satisfies readonly (keyof FlagDefinition)[];

/** The text under which a definition is stored: equal definitions have equal texts, those of before the archive too. */
export const definitionText = (definition: FlagDefinition): string =>
  JSON.stringify({
    ...Object.fromEntries(definitionFields.map((field) => [field, definition[field] ?? null])),
    ...(definition.is_archived === true && { is_archived: true }),
  });

export const parseDefinition = (text: string): FlagDefinition => JSON.parse(text) as FlagDefinition;

/** The definition after a change. */
export const patched = (before: FlagDefinition, patch: FlagPatch): FlagDefinition => ({
  ...before,
  ...Object.fromEntries(Object.entries(patch).filter(([, value]) => value !== undefined)),
});

/** The conditions of a rule in either form. */
export const conditionsOf = ({ attribute, operator, values, conditions = [] }: Rule): readonly Condition[] =>
  attribute === undefined || operator === undefined ? conditions : [{ attribute, operator, values }, ...conditions];

/** Whether two JSON values are the same; the order of fields does not count. */
export const sameJson = (one: unknown, other: unknown): boolean => {
  if (one === other) return true;
  if (typeof one !== 'object' || typeof other !== 'object' || one === null || other === null) return false;
  if (Array.isArray(one) !== Array.isArray(other)) return false;
  const [mine, theirs] = [Object.entries(one), other as Record<string, unknown>];
  return (
    mine.length === Object.keys(other).length &&
    mine.every(([name, value]) => Object.hasOwn(theirs, name) && sameJson(value, theirs[name]))
  );
};
