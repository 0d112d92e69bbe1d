import {
  type CompiledCondition,
  type CompiledFlag,
  type CompiledRule,
  type CompiledSegment,
  type CompiledSplit,
  type EvaluationContext,
  type FlagLookup,
  type Outcome,
  outcomeOfSplit,
} from './compile.ts';
import { sameJson, targetingKey } from './definition.ts';

/** A check that fails names what it looked at. */
interface Failure {
  readonly attribute: string;
  readonly operator: string;
}

/** Whether and why a rule matched. */
export interface Explanation {
  readonly rule: number;
  readonly matched: boolean;
  /** The first check that failed; null: none did. */
  readonly failed: Failure | null;
}

/** Results of prerequisites within one answer: many flags may have the same, and those may have further ones. */
export type Memo = Map<string, Outcome>;

/** Own fields only, so that `constructor` and `__proto__` are names like any other. */
const own = (object: unknown, name: string): unknown =>
  typeof object === 'object' && object !== null && Object.hasOwn(object, name)
    ? (object as Record<string, unknown>)[name]
    : undefined;

const attributeOf = (context: EvaluationContext, name: string, path: readonly string[] | null): unknown => {
  const whole = own(context, name);
  if (whole !== undefined || path === null) return whole;
  let part: unknown = context;
  for (const step of path) part = own(part, step);
  return part;
};

/** A missing attribute matches no operator. */
const holds = ({ attribute, path, test }: CompiledCondition, context: EvaluationContext): boolean => {
  const value = attributeOf(context, attribute, path);
  return value !== undefined && value !== null && test(value);
};

const firstFailing = (
  conditions: readonly CompiledCondition[],
  context: EvaluationContext,
): CompiledCondition | undefined => {
  for (const condition of conditions) if (!holds(condition, context)) return condition;
  return undefined;
};

/** The check that keeps somebody out of a segment; undefined: they belong to it. */
export const failureOfSegment = (segment: CompiledSegment, context: EvaluationContext): Failure | undefined => {
  if (segment.keys === null) return firstFailing(segment.conditions, context);
  const key = own(context, targetingKey);
  return typeof key === 'string' && segment.keys.has(key) ? undefined : { attribute: targetingKey, operator: 'in' };
};

const isIn = (segment: CompiledSegment | undefined, context: EvaluationContext): boolean =>
  segment !== undefined && failureOfSegment(segment, context) === undefined;

/** A longer attribute is in no part of a rollout: a context has up to 1 MB. */
const maxHashedLength = 4096;

const hashedOf = (context: EvaluationContext, { attribute, path }: CompiledSplit): string | null => {
  const value = attributeOf(context, attribute, path);
  if (typeof value === 'string') return value.length <= maxHashedLength ? value : null;
  return typeof value === 'number' && Number.isFinite(value) ? String(value) : null;
};

/** @returns the outcome of a rule that matches, else what failed */
const applyRule = (
  { key }: CompiledFlag,
  rule: CompiledRule,
  context: EvaluationContext,
  { segments }: FlagLookup,
): Outcome | Failure => {
  const failing = firstFailing(rule.conditions, context);
  if (failing !== undefined) return failing;
  if (rule.segment !== null && !isIn(segments.get(rule.segment), context))
    return { attribute: rule.segment, operator: 'segment' };
  if (rule.split === null) return rule.outcome;
  const attribute = hashedOf(context, rule.split);
  const outcome = attribute === null ? null : outcomeOfSplit(key, rule.split, attribute);
  return outcome ?? { attribute: rule.split.attribute, operator: 'rollout' };
};

const isOutcome = (result: Outcome | Failure): result is Outcome => 'reason' in result;

/** Definitions are checked for cycles and depth when they are stored; this bounds what a fault of that could do. */
const maxDepth = 20;

interface Progress {
  readonly memo: Memo;
  readonly depth: number;
}

const meets = (
  lookup: FlagLookup,
  { prerequisites }: CompiledFlag,
  context: EvaluationContext,
  { memo, depth }: Progress,
): boolean => {
  for (const { key, value } of prerequisites) {
    const needed = lookup.flags.get(key);
    if (needed === undefined || depth >= maxDepth) return false;
    const outcome = memo.get(key) ?? evaluateWith(lookup, needed, context, { memo, depth: depth + 1 });
    memo.set(key, outcome);
    if (outcome.reason === 'DISABLED' || !sameJson(outcome.value, value)) return false;
  }
  return true;
};

/** @param progress null: it is begun where a flag has prerequisites */
const evaluateWith = (
  lookup: FlagLookup,
  flag: CompiledFlag,
  context: EvaluationContext,
  progress: Progress | null,
): Outcome => {
  if (!flag.enabled) return flag.disabled;
  if (flag.prerequisites.length > 0 && !meets(lookup, flag, context, progress ?? { memo: new Map(), depth: 0 }))
    return flag.failed;
  for (const rule of flag.rules) {
    const result = applyRule(flag, rule, context, lookup);
    if (isOutcome(result)) return result;
  }
  return flag.otherwise;
};

/**
 * The value of a flag for a context: pure, without I/O or a clock, linear in the rules. The first rule that matches
 * decides (contract, section 10).
 * @param memo for several flags and one context
 */
export const evaluate = (lookup: FlagLookup, flag: CompiledFlag, context: EvaluationContext, memo?: Memo): Outcome =>
  evaluateWith(lookup, flag, context, memo === undefined ? null : { memo, depth: 0 });

/** Each rule of a flag, with the check that failed; also of those behind the one that decides. */
export const explain = (lookup: FlagLookup, flag: CompiledFlag, context: EvaluationContext): Explanation[] =>
  flag.rules.map((rule, index) => {
    const result = applyRule(flag, rule, context, lookup);
    if (isOutcome(result)) return { rule: index, matched: true, failed: null };
    return { rule: index, matched: false, failed: { attribute: result.attribute, operator: result.operator } };
  });
