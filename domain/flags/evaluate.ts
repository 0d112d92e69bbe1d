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

/**
 * The work of one flag with those that it needs, 25 to 50 ms at worst, and of all flags of an answer. 1,000 rules that
 * name a list, or 20,000 values that are searched in a text of 200 characters, take half of the former.
 */
const maxWork = 500_000;
const maxWorkOfAll = 50_000_000;

/**
 * The results that are known within one answer, and the work that is left for it. Many flags may need the same ones,
 * which may need further ones, and many rules may name the same segment. The maps are made when they are needed.
 */
export interface Progress {
  outcomes: Map<string, Outcome> | null;
  segments: Map<string, boolean> | null;
  /** For the flag that is being evaluated; below 0: it took more than it may. */
  left: number;
  leftOfAll: number;
}

/** For an answer with several flags and one context. */
export const beginAnswer = (): Progress => ({
  outcomes: null,
  segments: null,
  left: maxWork,
  leftOfAll: maxWorkOfAll,
});

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

/** A missing attribute matches no operator, and nothing matches any more when the work is spent. */
const holds = (condition: CompiledCondition, context: EvaluationContext, progress: Progress): boolean => {
  const { attribute, path } = condition;
  progress.left -= 1 + (path?.length ?? 0);
  if (progress.left < 0) return false;
  const value = attributeOf(context, attribute, path);
  if (value === undefined || value === null) return false;
  progress.left -= condition.workOf(value);
  return progress.left >= 0 && condition.test(value);
};

const firstFailing = (
  conditions: readonly CompiledCondition[],
  context: EvaluationContext,
  progress: Progress,
): CompiledCondition | undefined => {
  for (const condition of conditions) if (!holds(condition, context, progress)) return condition;
  return undefined;
};

const failureWithin = (
  segment: CompiledSegment,
  context: EvaluationContext,
  progress: Progress,
): Failure | undefined => {
  if (segment.keys === null) return firstFailing(segment.conditions, context, progress);
  const key = own(context, targetingKey);
  return typeof key === 'string' && segment.keys.has(key) ? undefined : { attribute: targetingKey, operator: 'in' };
};

/** The failure as explanations have it: where the work is spent, nothing was compared. */
const explained = ({ attribute, operator }: Failure, { left }: Progress): Failure => ({
  attribute,
  operator: left < 0 ? 'work_limit' : operator,
});

/** The check that keeps somebody out of a segment; undefined: they belong to it. */
export const failureOfSegment = (segment: CompiledSegment, context: EvaluationContext): Failure | undefined => {
  const progress = beginAnswer();
  const failure = failureWithin(segment, context, progress);
  return failure && explained(failure, progress);
};

const isIn = (key: string, { segments }: FlagLookup, context: EvaluationContext, progress: Progress): boolean => {
  const known = progress.segments?.get(key);
  if (known !== undefined) return known;
  const segment = segments.get(key);
  const belongs = segment !== undefined && failureWithin(segment, context, progress) === undefined;
  // A result of too little work is none: the next flag has work of its own.
  if (progress.left >= 0) (progress.segments ??= new Map()).set(key, belongs);
  return belongs;
};

/** A longer attribute is in no part of a rollout: a context has up to 1 MB. */
const maxHashedLength = 4096;
/** For a unit of work. */
const charactersHashed = 16;

const hashedOf = (
  context: EvaluationContext,
  { attribute, path }: CompiledSplit,
  progress: Progress,
): string | null => {
  const value = attributeOf(context, attribute, path);
  progress.left -= 1 + (path?.length ?? 0);
  if (typeof value === 'string') {
    if (value.length > maxHashedLength) return null;
    progress.left -= value.length / charactersHashed;
    return value;
  }
  return typeof value === 'number' && Number.isFinite(value) ? String(value) : null;
};

interface EvaluationState {
  readonly context: EvaluationContext;
  readonly progress: Progress;
}

/** @returns the outcome of a rule that matches, else what failed */
const applyRule = (
  lookup: FlagLookup,
  { key }: CompiledFlag,
  rule: CompiledRule,
  { context, progress }: EvaluationState,
): Outcome | Failure => {
  progress.left -= 1;
  const failing = firstFailing(rule.conditions, context, progress);
  if (failing !== undefined) return failing;
  if (rule.segment !== null && !isIn(rule.segment, lookup, context, progress))
    return { attribute: rule.segment, operator: 'segment' };
  if (rule.split === null) return rule.outcome;
  const attribute = hashedOf(context, rule.split, progress);
  const outcome = attribute === null ? null : outcomeOfSplit(key, rule.split, attribute);
  return outcome ?? { attribute: rule.split.attribute, operator: 'rollout' };
};

const isOutcome = (result: Outcome | Failure): result is Outcome => 'reason' in result;

/** Definitions are checked for cycles and depth when they are stored; this bounds what a fault of that could do. */
const maxDepth = 20;

const meets = (lookup: FlagLookup, { prerequisites }: CompiledFlag, state: EvaluationState, depth: number): boolean => {
  const { progress } = state;
  for (const { key, value, work } of prerequisites) {
    const needed = lookup.flags.get(key);
    if (needed === undefined || depth >= maxDepth) return false;
    progress.left -= work;
    const outcome = progress.outcomes?.get(key) ?? evaluateWith(lookup, needed, state, depth + 1);
    if (progress.left < 0) return false;
    (progress.outcomes ??= new Map()).set(key, outcome);
    if (outcome.reason === 'DISABLED' || !sameJson(outcome.value, value)) return false;
  }
  return true;
};

const evaluateWith = (lookup: FlagLookup, flag: CompiledFlag, state: EvaluationState, depth: number): Outcome => {
  const { progress } = state;
  if (!flag.enabled) return flag.disabled;
  if (flag.prerequisites.length > 0 && !meets(lookup, flag, state, depth))
    return progress.left < 0 ? flag.spent : flag.failed;
  for (const rule of flag.rules) {
    const result = applyRule(lookup, flag, rule, state);
    if (progress.left < 0) return flag.spent;
    if (isOutcome(result)) return result;
  }
  return flag.otherwise;
};

/**
 * The value of a flag for a context: pure, without I/O or a clock, linear in the rules. The first rule that matches
 * decides (contract, section 10). One that takes more work than it may, with the flags that it needs, has the reason
 * ERROR: it is the same in every process and at any load.
 * @param progress for several flags and one context
 */
export const evaluate = (
  lookup: FlagLookup,
  flag: CompiledFlag,
  context: EvaluationContext,
  progress: Progress = beginAnswer(),
): Outcome => {
  const given = Math.min(maxWork, progress.leftOfAll);
  progress.left = given;
  const outcome = evaluateWith(lookup, flag, { context, progress }, 0);
  progress.leftOfAll -= given - progress.left;
  return outcome;
};

/** Each rule of a flag, with the check that failed; also of those behind the one that decides. */
export const explain = (lookup: FlagLookup, flag: CompiledFlag, context: EvaluationContext): Explanation[] => {
  const progress = beginAnswer();
  return flag.rules.map((rule, index) => {
    const result = applyRule(lookup, flag, rule, { context, progress });
    if (!isOutcome(result)) return { rule: index, matched: false, failed: explained(result, progress) };
    if (progress.left >= 0) return { rule: index, matched: true, failed: null };
    return { rule: index, matched: false, failed: { attribute: targetingKey, operator: 'work_limit' } };
  });
};
