import type { Operations } from '../../client/types.ts';

export type Flag = Operations['GET /projects/{project_id}/flags/{key}']['answer'];
export type FlagPatch = Operations['PATCH /projects/{project_id}/flags/{key}']['body'];
export type Rule = NonNullable<FlagPatch['targeting_rules']>[number];
export type Condition = NonNullable<Rule['conditions']>[number];
export type FlagType = Flag['flag_type'];
export type Prerequisite = NonNullable<FlagPatch['prerequisites']>[number];
export type Variants = Extract<NonNullable<Rule['rollout']>, { readonly variants: unknown }>;
export type Scalar = string | number | boolean;

export const defaultEnvironment = 'production';

/** The editable fields of a flag, and the version that the edit is based on. */
export interface Edited {
  readonly version: number;
  readonly name: string;
  readonly description: string;
  readonly value: unknown;
  readonly default_value: unknown;
  readonly targeting_rules: readonly Rule[];
  readonly prerequisites: readonly Prerequisite[];
  readonly json_schema: unknown;
}

export const editedOf = (flag: Flag): Edited => ({
  version: flag.version,
  name: flag.name,
  description: flag.description,
  value: flag.value,
  default_value: flag.default_value,
  targeting_rules: flag.targeting_rules as readonly Rule[],
  prerequisites: flag.prerequisites as readonly Prerequisite[],
  json_schema: flag.json_schema,
});

/** Fields beside which the editor shows what is wrong with them. */
export const editedFields: readonly string[] = [
  'name',
  'description',
  'value',
  'default_value',
  'targeting_rules',
  'prerequisites',
];

/** The change that the API gets. */
export const patchOf = (edited: Edited): FlagPatch => {
  const { version: _, ...rest } = edited;
  return rest as FlagPatch;
};

/** The conditions of a rule, whose first may stand in the rule itself. */
export const conditionsOf = (rule: Rule): readonly Condition[] => {
  if (rule.conditions !== undefined) return rule.conditions;
  const { attribute, operator, values } = rule;
  if (attribute === undefined || operator === undefined) return [];
  return [{ attribute, operator, ...(values !== undefined && { values }) }];
};

/** A rule with other conditions, in its longer form. */
export const withConditions = (rule: Rule, conditions: readonly Condition[]): Rule => {
  const { attribute: _a, operator: _o, values: _v, conditions: _c, ...rest } = rule;
  return conditions.length === 0 ? rest : { ...rest, conditions };
};

const scalarOf = (text: string): Scalar => {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean' ? value : text;
  } catch {
    return text;
  }
};

/** Values as they are typed: `pro, team`, `18`, `"18"` for the text. */
export const scalarsOf = (text: string): Scalar[] => {
  try {
    const values: unknown = JSON.parse(`[${text}]`);
    if (Array.isArray(values) && values.every((one) => ['string', 'number', 'boolean'].includes(typeof one)))
      return values as Scalar[];
  } catch {
    // Texts without quotes.
  }
  return text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')
    .map(scalarOf);
};

/** The text that `scalarsOf` reads as these values. */
export const textOfScalars = (values: readonly Scalar[] = []): string =>
  values
    .map((value) => {
      if (typeof value !== 'string') return String(value);
      return /[",]|^\s|\s$|^$/.test(value) || typeof scalarOf(value) !== 'string' ? JSON.stringify(value) : value;
    })
    .join(', ');

export const operators = [
  'in',
  'not_in',
  'eq',
  'neq',
  'contains',
  'starts_with',
  'ends_with',
  'gt',
  'gte',
  'lt',
  'lte',
  'before',
  'after',
  'semver_eq',
  'semver_gt',
  'semver_gte',
  'semver_lt',
  'semver_lte',
  'matches',
  'exists',
] as const;

/** Why a flag has its value, in words. */
export const reasons: Readonly<Record<string, string>> = {
  TARGETING_MATCH: 'this rule matches',
  SPLIT: 'this rule matches, and the rollout decides',
  DEFAULT: 'no rule matches: the value for everybody else',
  STATIC: 'there are no rules: everybody gets the value',
  DISABLED: 'the flag is off',
  PREREQUISITE_FAILED: 'another flag that is needed has another value',
  ERROR: 'evaluating it, and the flags that it needs, takes more work than it may',
};
