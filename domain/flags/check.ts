import {
  type Condition,
  type FlagDefinition,
  type FlagType,
  type Prerequisite,
  type Rollout,
  type Rule,
  conditionsOf,
} from './definition.ts';
import { faultOfCondition } from './operators.ts';
import { type Estimate, estimateOf, faultOfEstimate, patternOf } from './patterns.ts';

/** A problem of a definition, as `details` of `validation_failed` has it. */
export interface Fault {
  readonly path: string;
  readonly message: string;
}

const maxRules = 1000;
const maxPrerequisites = 10;
/** The length of a chain of prerequisites. */
const maxPrerequisiteDepth = 10;
const maxConditions = 5000;
const maxValues = 20_000;
/** Instructions of the patterns of one flag together: at worst each is run once for each character of a text. */
const maxPatternSize = 2000;
/** Patterns of one flag or segment: compiling one takes up to some milliseconds. */
const maxPatterns = 20;
const maxFaults = 20;

const fault = (path: string, message: string): Fault => ({ path, message });

const typeFaults: Readonly<Record<FlagType, string>> = {
  boolean: 'must be true or false',
  string: 'must be a text',
  number: 'must be a finite number, and a whole one at most 2^53 - 1 from zero',
  json: 'must be an object or a list',
};

const isUsableNumber = (value: unknown): boolean =>
  typeof value === 'number' && Number.isFinite(value) && (!Number.isInteger(value) || Number.isSafeInteger(value));

const isOfType = (type: FlagType, value: unknown): boolean => {
  if (type === 'json') return typeof value === 'object' && value !== null;
  return type === 'number' ? isUsableNumber(value) : typeof value === type;
};

const faultsOfValue = (type: FlagType, value: unknown, path: string): Fault[] => {
  if (!isOfType(type, value)) return [fault(path, typeFaults[type])];
  return faultsOfJson(value, path);
};

/** PostgreSQL and clients have to be able to hold it: no NUL, no half characters, numbers as they were written. */
const faultsOfJson = (value: unknown, path: string): Fault[] => {
  const text = JSON.stringify(value);
  if (/\\u0000|\\ud[89a-f]/i.test(text) && hasBadText(value))
    return [fault(path, 'must not contain NUL or half characters')];
  return hasBadNumber(value) ? [fault(path, 'has a number that JavaScript cannot hold exactly')] : [];
};

/** Names of fields and values, however deep. */
const leavesOf = function* (value: unknown): Generator {
  const waiting: unknown[] = [value];
  while (waiting.length > 0) {
    const next = waiting.pop();
    if (typeof next !== 'object' || next === null) yield next;
    else if (Array.isArray(next)) for (const part of next) waiting.push(part);
    else for (const [name, part] of Object.entries(next)) waiting.push(name, part);
  }
};

const someWithin = (value: unknown, isBad: (leaf: unknown) => boolean): boolean => leavesOf(value).some(isBad);

const hasBadText = (value: unknown): boolean =>
  someWithin(value, (leaf) => typeof leaf === 'string' && (leaf.includes('\0') || !leaf.isWellFormed()));
const hasBadNumber = (value: unknown): boolean =>
  someWithin(value, (leaf) => typeof leaf === 'number' && !isUsableNumber(leaf));

const faultsOfConditions = (conditions: readonly Condition[], path: string): Fault[] =>
  conditions.flatMap((condition, index) => {
    const at = `${path}.${index}`;
    const found = faultOfCondition(condition);
    const numbers = (condition.values ?? []).some((value) => typeof value === 'number' && !isUsableNumber(value));
    return [
      ...(found === null ? [] : [fault(`${at}.${found.path}`, found.message)]),
      ...(numbers ? [fault(`${at}.values`, typeFaults.number)] : []),
    ];
  });

const thousandths = (percent: number): number => Math.round(percent * 1000);
const isInSteps = (percent: number): boolean => Math.abs(percent * 1000 - thousandths(percent)) < 1e-6;

const faultsOfPercent = (percent: number, path: string): Fault[] => {
  if (!(percent >= 0 && percent <= 100)) return [fault(path, 'must be from 0 to 100')];
  return isInSteps(percent) ? [] : [fault(path, 'must be in steps of 0.001')];
};

const faultsOfRollout = (type: FlagType, rollout: Rollout, path: string): Fault[] => {
  if ('percent' in rollout) return faultsOfPercent(rollout.percent, `${path}.percent`);
  const each = rollout.variants.flatMap(({ value, percent }, index) => [
    ...faultsOfValue(type, value, `${path}.variants.${index}.value`),
    ...faultsOfPercent(percent, `${path}.variants.${index}.percent`),
  ]);
  const sum = rollout.variants.reduce((all, { percent }) => all + thousandths(percent), 0);
  return sum === 100_000 ? each : [...each, fault(`${path}.variants`, `the percentages make ${sum / 1000}, not 100`)];
};

/** The interface's form has one condition in the rule itself. */
const faultsOfForm = ({ attribute, operator, values, conditions }: Rule, path: string): Fault[] => {
  if (attribute === undefined && operator === undefined)
    return values === undefined ? [] : [fault(`${path}.values`, 'belongs to a condition')];
  if (conditions !== undefined) return [fault(path, 'has either one condition or a list of them')];
  if (attribute === undefined || operator === undefined)
    return [fault(path, 'a condition has an attribute and an operator')];
  return faultsOfConditions([{ attribute, operator, values }], path).map((found) => ({
    ...found,
    path: found.path.replace(`${path}.0`, path),
  }));
};

const faultsOfOwnValue = (type: FlagType, { value, rollout }: Rule, path: string): Fault[] => {
  if (value === undefined) return [];
  if (rollout !== undefined && 'variants' in rollout) return [fault(path, 'its variants have the values')];
  return faultsOfValue(type, value, path);
};

const faultsOfRule = (type: FlagType, rule: Rule, path: string): Fault[] => [
  ...faultsOfForm(rule, path),
  ...faultsOfConditions(rule.conditions ?? [], `${path}.conditions`),
  ...faultsOfOwnValue(type, rule, `${path}.value`),
  ...(rule.rollout === undefined ? [] : faultsOfRollout(type, rule.rollout, `${path}.rollout`)),
];

interface PlacedCondition {
  readonly condition: Condition;
  readonly path: string;
}

const isPattern = ({ operator }: Condition): boolean => operator === 'matches';

const addEstimate = (total: Estimate, text: string): void => {
  const { size, unicodeClasses, foldedCharacters } = estimateOf(text);
  total.size += size;
  total.unicodeClasses += unicodeClasses;
  total.foldedCharacters += foldedCharacters;
};

/** Compiles patterns up to the first that cannot be used. They are few, and look usable without being compiled. */
const faultsOfPatterns = (conditions: readonly PlacedCondition[], whole: string): Fault[] => {
  const total: Estimate = { size: 0, unicodeClasses: 0, foldedCharacters: 0 };
  let size = 0;
  for (const { condition, path } of conditions) {
    if (!isPattern(condition)) continue;
    const text = String(condition.values?.[0]);
    addEstimate(total, text);
    if (faultOfEstimate(total) !== null) return [fault(whole, 'its patterns are too large together')];
    const pattern = patternOf(text);
    if (typeof pattern === 'string') return [fault(`${path}.values`, pattern)];
    size += pattern.programSize();
    if (size > maxPatternSize) return [fault(whole, 'its patterns are too large together')];
  }
  return [];
};

const faultsOfSize = (conditions: readonly Condition[], path: string): Fault[] => {
  const values = conditions.reduce((all, { values: some = [] }) => all + some.length, 0);
  if (conditions.length > maxConditions) return [fault(path, `has at most ${maxConditions} conditions`)];
  if (values > maxValues) return [fault(path, `has at most ${maxValues} values; a segment lists more`)];
  if (conditions.filter(isPattern).length > maxPatterns)
    return [fault(path, `has at most ${maxPatterns} conditions with the operator matches`)];
  return [];
};

/** The problems of the conditions of a segment. */
export const faultsOfSegment = (conditions: readonly Condition[]): Fault[] => {
  const size = faultsOfSize(conditions, 'conditions');
  if (size.length > 0) return size;
  const faults = faultsOfConditions(conditions, 'conditions').slice(0, maxFaults);
  const placed = conditions.map((condition, index) => ({ condition, path: `conditions.${index}` }));
  return faults.length > 0 ? faults : faultsOfPatterns(placed, 'conditions');
};

const placedConditionsOf = ({ conditions = [], ...rule }: Rule, path: string): PlacedCondition[] => [
  ...conditionsOf(rule).map((condition) => ({ condition, path })),
  ...conditions.map((condition, index) => ({ condition, path: `${path}.conditions.${index}` })),
];

const faultsOfPrerequisites = (definition: FlagDefinition, key: string): Fault[] => {
  const { prerequisites } = definition;
  if (prerequisites.length > maxPrerequisites)
    return [fault('prerequisites', `has at most ${maxPrerequisites} of them`)];
  return prerequisites.flatMap((one, index) => [
    ...(one.key === key ? [fault(`prerequisites.${index}.key`, 'a flag cannot be its own prerequisite')] : []),
    ...(one.value === undefined || one.value === null
      ? [fault(`prerequisites.${index}.value`, 'is missing')]
      : faultsOfJson(one.value, `prerequisites.${index}.value`)),
  ]);
};

/** The problems of a definition by itself, at most 20; without its JSON Schema and the flags that it names. */
export const faultsOf = (key: string, definition: FlagDefinition): Fault[] => {
  const { flag_type: type, targeting_rules: rules, default_value: otherwise, json_schema: schema } = definition;
  if (rules.length > maxRules) return [fault('targeting_rules', `has at most ${maxRules} rules`)];
  const size = faultsOfSize(rules.flatMap(conditionsOf), 'targeting_rules');
  if (size.length > 0) return size;
  const faults = [
    ...faultsOfValue(type, definition.value, 'value'),
    ...(otherwise === null ? [] : faultsOfValue(type, otherwise, 'default_value')),
    ...rules.flatMap((rule, index) => faultsOfRule(type, rule, `targeting_rules.${index}`)),
    ...faultsOfPrerequisites(definition, key),
    ...(schema !== null && type !== 'json' ? [fault('json_schema', 'is for flags of the type json')] : []),
  ].slice(0, maxFaults);
  if (faults.length > 0) return faults;
  const placed = rules.flatMap((rule, index) => placedConditionsOf(rule, `targeting_rules.${index}`));
  return faultsOfPatterns(placed, 'targeting_rules');
};

/** All values that a flag can have, with their places. */
export const valuesOf = ({ value, default_value: otherwise, targeting_rules: rules }: FlagDefinition) => [
  { path: 'value', value },
  ...(otherwise === null ? [] : [{ path: 'default_value', value: otherwise }]),
  ...rules.flatMap(({ value: own, rollout }, index) => [
    ...(own === undefined ? [] : [{ path: `targeting_rules.${index}.value`, value: own }]),
    ...(rollout !== undefined && 'variants' in rollout
      ? rollout.variants.map((variant, place) => ({
          path: `targeting_rules.${index}.rollout.variants.${place}.value`,
          value: variant.value,
        }))
      : []),
  ]),
];

interface Named {
  readonly prerequisites: readonly Pick<Prerequisite, 'key'>[];
}

const tooLong = `a chain of prerequisites has at most ${maxPrerequisiteDepth} flags`;

/**
 * Answers the problem of the prerequisites of a flag among the others of its environment, null when there is none: one
 * that is not there, a cycle, or a chain that is too long. What was found out for one flag serves the next, so that all
 * flags of an environment take one pass.
 * @param of the flags and those that they depend on, by key
 */
export const createChainCheck = (of: ReadonlyMap<string, Named>): ((key: string) => string | null) => {
  // Behind each flag the longest chain that begins there; 0: it is being looked at.
  const depths = new Map<string, number>();
  const depthOf = (name: string, path: readonly string[]): number | string => {
    const known = depths.get(name);
    if (known === 0) return `the flags depend on each other in a circle: ${[...path, name].join(' → ')}`;
    if (known !== undefined) return known;
    if (path.length > maxPrerequisiteDepth) return tooLong;
    const flag = of.get(name);
    if (flag === undefined) return `there is no flag ${name} in this environment`;
    depths.set(name, 0);
    const found = maxDepthOf(flag, [...path, name]);
    // Another flag that needs one with a fault is not in a circle for that.
    if (typeof found === 'string') depths.delete(name);
    else depths.set(name, found);
    return found;
  };
  const maxDepthOf = ({ prerequisites }: Named, path: readonly string[]): number | string => {
    let longest = 0;
    for (const needed of prerequisites) {
      const depth = depthOf(needed.key, path);
      if (typeof depth === 'string') return depth;
      longest = Math.max(longest, depth);
    }
    return longest < maxPrerequisiteDepth ? longest + 1 : tooLong;
  };
  return (key) => {
    const depth = depthOf(key, []);
    return typeof depth === 'string' ? depth : null;
  };
};
