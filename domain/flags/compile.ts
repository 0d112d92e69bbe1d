import { bucketOf, buckets } from './bucket.ts';
import { type Condition, type FlagDefinition, type Rule, conditionsOf, targetingKey } from './definition.ts';
import { type CompiledTest, compileCondition } from './operators.ts';

/** The facts about whoever a flag is evaluated for, as JSON has them. */
export type EvaluationContext = Readonly<Record<string, unknown>>;

type Reason = 'TARGETING_MATCH' | 'SPLIT' | 'DEFAULT' | 'STATIC' | 'DISABLED' | 'PREREQUISITE_FAILED' | 'ERROR';

/** A result of a flag. There is one object for each result that a flag can have, so that evaluating makes none. */
export interface Outcome {
  readonly key: string;
  readonly value: unknown;
  readonly matched_rule: number | null;
  readonly reason: Reason;
  readonly variant: string | null;
}

export interface CompiledCondition extends CompiledTest {
  readonly attribute: string;
  readonly operator: string;
  /** The attribute's name in parts where it has dots: `address.country`. */
  readonly path: readonly string[] | null;
}

export interface CompiledSplit {
  readonly attribute: string;
  /** As in conditions. */
  readonly path: readonly string[] | null;
  /** Outcomes of those below each bound, in buckets. */
  readonly parts: readonly { readonly below: number; readonly outcome: Outcome }[];
}

export interface CompiledRule {
  readonly conditions: readonly CompiledCondition[];
  readonly segment: string | null;
  readonly split: CompiledSplit | null;
  readonly outcome: Outcome;
}

interface CompiledPrerequisite {
  readonly key: string;
  readonly value: unknown;
  /** As that of conditions: a value can have a megabyte. */
  readonly work: number;
}

export interface CompiledFlag {
  readonly key: string;
  readonly enabled: boolean;
  readonly prerequisites: readonly CompiledPrerequisite[];
  readonly rules: readonly CompiledRule[];
  readonly disabled: Outcome;
  readonly failed: Outcome;
  /** The evaluation took more work than it may. */
  readonly spent: Outcome;
  readonly otherwise: Outcome;
}

export interface CompiledSegment {
  readonly keys: ReadonlySet<string> | null;
  readonly conditions: readonly CompiledCondition[];
}

/** The flags and segments with which one is evaluated. */
export interface FlagLookup {
  readonly flags: ReadonlyMap<string, CompiledFlag>;
  readonly segments: ReadonlyMap<string, CompiledSegment>;
}

const pathOf = (name: string): readonly string[] | null => (name.includes('.') ? name.split('.') : null);

export const compileConditions = (conditions: readonly Condition[]): CompiledCondition[] =>
  conditions.map((condition) => ({
    attribute: condition.attribute,
    operator: condition.operator,
    path: pathOf(condition.attribute),
    ...compileCondition(condition),
  }));

/** Names for what has none: a boolean is on or off. */
const variantOf = (value: unknown, otherwise: string): string =>
  typeof value === 'boolean' ? (value ? 'on' : 'off') : otherwise;

interface Compiling {
  readonly key: string;
  readonly value: unknown;
  readonly index: number;
}

/** The thousandths of all buckets that a percentage is; percentages are in steps of 0.001. */
const bucketsOf = (percent: number): number => Math.round((percent * buckets) / 100);

const compileSplit = ({ key, index }: Compiling, rule: Rule, whole: Outcome): CompiledSplit | null => {
  const { rollout } = rule;
  if (rollout === undefined) return null;
  const attribute = rollout.attribute ?? targetingKey;
  const path = pathOf(attribute);
  if ('percent' in rollout) {
    const below = bucketsOf(rollout.percent);
    return below === buckets ? null : { attribute, path, parts: [{ below, outcome: { ...whole, reason: 'SPLIT' } }] };
  }
  let below = 0;
  const parts = rollout.variants.map(({ name, value, percent }, place) => {
    below += bucketsOf(percent);
    const variant = name ?? variantOf(value, `variant-${place}`);
    return { below, outcome: { key, value, matched_rule: index, reason: 'SPLIT' as const, variant } };
  });
  return { attribute, path, parts };
};

const compileRule = (of: Compiling, rule: Rule): CompiledRule => {
  const { key, index } = of;
  const isOwn = rule.value !== undefined;
  const value = isOwn ? rule.value : of.value;
  const variant = variantOf(value, isOwn ? `rule-${index}` : 'value');
  const outcome: Outcome = { key, value, matched_rule: index, reason: 'TARGETING_MATCH', variant };
  return {
    conditions: compileConditions(conditionsOf(rule)),
    segment: rule.segment ?? null,
    split: compileSplit(of, rule, outcome),
    outcome,
  };
};

const workOfComparing = (value: unknown): number =>
  typeof value === 'object' ? 1 + JSON.stringify(value).length / 2 : 1;

export const compileFlag = (key: string, definition: FlagDefinition): CompiledFlag => {
  const { flag_type: type, value, targeting_rules: rules, default_value: own, prerequisites } = definition;
  const nothing = type === 'boolean' ? false : null;
  const otherwise = own ?? nothing;
  const common = { key, matched_rule: null };
  const isStatic = rules.length === 0;
  return {
    key,
    enabled: definition.is_enabled,
    prerequisites: prerequisites.map((needed) => ({ ...needed, work: workOfComparing(needed.value) })),
    rules: rules.map((rule, index) => compileRule({ key, value, index }, rule)),
    disabled: { ...common, value: nothing, reason: 'DISABLED', variant: null },
    failed: { ...common, value: otherwise, reason: 'PREREQUISITE_FAILED', variant: variantOf(otherwise, 'default') },
    spent: { ...common, value: otherwise, reason: 'ERROR', variant: variantOf(otherwise, 'default') },
    otherwise: isStatic
      ? { ...common, value, reason: 'STATIC', variant: variantOf(value, 'value') }
      : { ...common, value: otherwise, reason: 'DEFAULT', variant: variantOf(otherwise, 'default') },
  };
};

/** The part of all users that somebody is in; null for those who have no such attribute. */
export const outcomeOfSplit = (key: string, { parts }: CompiledSplit, attribute: string): Outcome | null => {
  const bucket = bucketOf(key, attribute);
  for (const { below, outcome } of parts) if (bucket < below) return outcome;
  return null;
};
