import semver from 'semver';
import type { Condition, Scalar } from './definition.ts';
import { faultOfPatternText, patternOf } from './patterns.ts';

/** Whether an attribute that is there, and not null, fits. */
type AttributeTest = (attribute: unknown) => boolean;

export interface CompiledTest {
  readonly test: AttributeTest;
  /**
   * The work of the test at most, in units of some 50 ns. It follows from the values and the attribute alone, so that
   * all processes give up at the same point.
   */
  readonly workOf: (attribute: unknown) => number;
}

interface Operator {
  /** The problem of the values, null when there is none. */
  readonly faultOf: (values: readonly Scalar[]) => string | null;
  readonly compile: (values: readonly Scalar[]) => CompiledTest;
}

/**
 * A longer text, or list, matches nothing: a context has up to 1 MB, and with 10,000 flags each of its attributes would
 * be searched 10,000 times.
 */
const maxTextLength = 4096;
const maxListLength = 1000;
/** Patterns go through the text a character at a time. */
const maxMatchedLength = 1000;

const isText = (value: unknown): value is string => typeof value === 'string' && value.length <= maxTextLength;
const isList = (value: unknown): value is readonly unknown[] => Array.isArray(value) && value.length <= maxListLength;

const anyValues = (values: readonly Scalar[]): string | null => (values.length > 0 ? null : 'needs at least one value');

const onlyValue = (values: readonly Scalar[], what: string, fits: (value: Scalar) => boolean): string | null => {
  const [value] = values;
  if (value === undefined || values.length > 1) return `takes one value, ${what}`;
  return fits(value) ? null : `must be ${what}`;
};

/** Each of them is searched, while the values of `in` and `eq` are one look-up however many they are. */
const maxSearchedValues = 200;

const fewValues = (values: readonly Scalar[]): string | null => {
  const fault = anyValues(values);
  if (fault !== null || values.length <= maxSearchedValues) return fault;
  return `has at most ${maxSearchedValues} values, since each of them is searched; in and eq take more`;
};

const texts = (values: readonly Scalar[]): string | null =>
  fewValues(values) ?? (values.every((value) => typeof value === 'string') ? null : 'takes texts');

/** Look-ups in a set, one for each element of a list. */
const workOfMembership = (attribute: unknown): number => (isList(attribute) ? 1 + attribute.length / 2 : 1);

/** V8 skips ahead by at most the last 250 characters of what it searches for, and compares longer values again and again. */
const maxSkipped = 250;

/** The work for each character of a text that is searched: 4,096 of them take 0.03 ms, with a value of 1,000 0.8 ms. */
const workOfSearch = (length: number): number => 1 / 16 + (length > maxSkipped ? length / 256 : 0);

const sum = (numbers: readonly number[]): number => numbers.reduce((all, one) => all + one, 0);

/** Values of one attribute, or of a list of them. */
const isAmong = (values: readonly Scalar[]): AttributeTest => {
  const wanted: ReadonlySet<unknown> = new Set(values);
  return (attribute) =>
    Array.isArray(attribute) ? isList(attribute) && attribute.some((one) => wanted.has(one)) : wanted.has(attribute);
};

/** One that can be compared at all. */
const isComparable = (attribute: unknown): boolean =>
  typeof attribute === 'object' ? isList(attribute) : typeof attribute !== 'string' || isText(attribute);

const isNotAmong = (values: readonly Scalar[]): AttributeTest => {
  const test = isAmong(values);
  return (attribute) => isComparable(attribute) && !test(attribute);
};

const onText =
  (fits: (text: string, wanted: string) => boolean) =>
  (values: readonly Scalar[]): AttributeTest => {
    const wanted = values.map(String);
    return (attribute) => isText(attribute) && wanted.some((one) => fits(attribute, one));
  };

/** V8 compares the ends of texts one character after the other, in some 5 ns each. */
const charactersCompared = 10;

const byEnd = (fits: (text: string, wanted: string) => boolean): Operator => ({
  faultOf: texts,
  compile: (values) => {
    const work = values.length + sum(values.map((value) => String(value).length)) / charactersCompared;
    return { test: onText(fits)(values), workOf: () => work };
  },
});

const contains = (values: readonly Scalar[]): CompiledTest => {
  const [inText, inList] = [onText((text, wanted) => text.includes(wanted))(values), isAmong(values)];
  const workOfCharacter = sum(values.map((value) => workOfSearch(String(value).length)));
  return {
    test: (attribute) => (Array.isArray(attribute) ? inList(attribute) : inText(attribute)),
    workOf: (attribute) =>
      isText(attribute) ? values.length + attribute.length * workOfCharacter : workOfMembership(attribute),
  };
};

const isNumber = (value: unknown): value is number => typeof value === 'number' && Number.isFinite(value);

const byNumber = (fits: (attribute: number, wanted: number) => boolean): Operator => ({
  faultOf: (values) => onlyValue(values, 'a number', isNumber),
  compile: ([value]) => {
    const wanted = Number(value);
    return { test: (attribute) => isNumber(attribute) && fits(attribute, wanted), workOf: () => 1 };
  },
});

const isoForm = /^(\d{4}-\d{2}-\d{2})(?:[Tt ](\d{2}:\d{2})(:\d{2})?(?:[.,](\d{1,9}))?\s?([Zz]|[+-]\d{2}:?\d{2})?)?$/;

/** Smaller ones are seconds: a time in milliseconds of before 1973 is not what clients send. */
const leastMilliseconds = 100_000_000_000;
const maxTime = 8.64e15;

const timeOfNumber = (value: number): number => {
  if (!Number.isFinite(value)) return Number.NaN;
  const time = Math.abs(value) < leastMilliseconds ? value * 1000 : value;
  return Math.abs(time) <= maxTime ? time : Number.NaN;
};

/** JavaScript takes the 30th of February for a day in March. */
const isDay = (date: string): boolean => {
  const time = Date.parse(`${date}T00:00:00Z`);
  return !Number.isNaN(time) && new Date(time).toISOString().startsWith(date);
};

const timeOfText = (text: string): number => {
  const [matched, date = '', clock = '00:00', second = ':00', fraction = '0', zone = 'Z'] = isoForm.exec(text) ?? [];
  if (matched === undefined || !isDay(date)) return Number.NaN;
  const offset = zone.toUpperCase().replace(/^([+-]\d{2})(\d{2})$/, '$1:$2');
  return Date.parse(`${date}T${clock}${second}.${fraction.padEnd(3, '0').slice(0, 3)}${offset}`);
};

/**
 * A time in ms: ISO 8601, where one without a zone is UTC, or a number of seconds or milliseconds since 1970. Others are
 * NaN: what `Date.parse` makes of them depends on the server.
 */
export const timeOf = (value: unknown): number => {
  if (typeof value === 'number') return timeOfNumber(value);
  return typeof value === 'string' && value.length <= 40 ? timeOfText(value.trim()) : Number.NaN;
};

/** Reading a time or a version takes about a microsecond. */
const workOfParsing = 20;

const byTime = (fits: (attribute: number, wanted: number) => boolean): Operator => ({
  faultOf: (values) =>
    onlyValue(
      values,
      'a time (ISO 8601, or seconds or milliseconds since 1970)',
      (value) => !Number.isNaN(timeOf(value)),
    ),
  compile: ([value]) => {
    const wanted = timeOf(value);
    return { test: (attribute) => fits(timeOf(attribute), wanted), workOf: () => workOfParsing };
  },
});

const maxVersionLength = 256;

const versionOf = (value: unknown): semver.SemVer | null =>
  typeof value === 'string' && value.length <= maxVersionLength ? semver.parse(value.replace(/^[vV]/, '')) : null;

/** By Semantic Versioning 2.0: build metadata does not count, `1.0.0-rc.1` is before `1.0.0`. */
const byVersion = (fits: (order: -1 | 0 | 1) => boolean): Operator => ({
  faultOf: (values) => onlyValue(values, 'a semantic version such as 1.4.0', (value) => versionOf(value) !== null),
  compile: ([value]) => {
    const wanted = versionOf(value);
    return {
      test: (attribute) => {
        const version = versionOf(attribute);
        return version !== null && wanted !== null && fits(semver.compare(version, wanted));
      },
      workOf: () => workOfParsing,
    };
  },
});

/** Compiling a pattern, which the first evaluation does, and going through a text: a step is some 10 ns. */
const workOfCompiling = 2000;
const stepsOfUnit = 5;

const isMatchable = (attribute: unknown): attribute is string =>
  typeof attribute === 'string' && attribute.length <= maxMatchedLength;

/** Compiled when first needed: of 10,000 flags most are not asked for. */
const matches = ([value]: readonly Scalar[]): CompiledTest => {
  let pattern: ReturnType<typeof patternOf> | undefined;
  return {
    workOf: (attribute) => {
      if (!isMatchable(attribute)) return 1;
      pattern ??= patternOf(String(value));
      const size = typeof pattern === 'string' ? 0 : pattern.programSize();
      return workOfCompiling + (size * attribute.length) / stepsOfUnit;
    },
    test: (attribute) => {
      if (!isMatchable(attribute)) return false;
      pattern ??= patternOf(String(value));
      return typeof pattern !== 'string' && pattern.test(attribute);
    },
  };
};

/** Without compiling the pattern, which a definition with faults is not worth. */
const faultOfPattern = (values: readonly Scalar[]): string | null => {
  const [value] = values;
  if (typeof value !== 'string' || values.length > 1) return 'takes one value, a pattern';
  return faultOfPatternText(value);
};

const equals: Operator = {
  faultOf: anyValues,
  compile: (values) => ({ test: isAmong(values), workOf: workOfMembership }),
};
const differs: Operator = {
  faultOf: anyValues,
  compile: (values) => ({ test: isNotAmong(values), workOf: workOfMembership }),
};

const operators: Readonly<Record<string, Operator>> = {
  in: equals,
  not_in: differs,
  eq: equals,
  neq: differs,
  contains: { faultOf: fewValues, compile: contains },
  starts_with: byEnd((text, wanted) => text.startsWith(wanted)),
  ends_with: byEnd((text, wanted) => text.endsWith(wanted)),
  gt: byNumber((attribute, wanted) => attribute > wanted),
  gte: byNumber((attribute, wanted) => attribute >= wanted),
  lt: byNumber((attribute, wanted) => attribute < wanted),
  lte: byNumber((attribute, wanted) => attribute <= wanted),
  before: byTime((attribute, wanted) => attribute < wanted),
  after: byTime((attribute, wanted) => attribute > wanted),
  semver_eq: byVersion((order) => order === 0),
  semver_gt: byVersion((order) => order > 0),
  semver_gte: byVersion((order) => order >= 0),
  semver_lt: byVersion((order) => order < 0),
  semver_lte: byVersion((order) => order <= 0),
  matches: { faultOf: faultOfPattern, compile: matches },
  exists: {
    faultOf: (values) => (values.length === 0 ? null : 'takes no values'),
    compile: () => ({ test: () => true, workOf: () => 1 }),
  },
};

const operatorNames: readonly string[] = Object.keys(operators);

const operatorOf = (name: string): Operator | undefined =>
  Object.hasOwn(operators, name) ? operators[name] : undefined;

/** The problem of a condition, null when there is none. */
export const faultOfCondition = ({ operator, values = [] }: Condition): { path: string; message: string } | null => {
  const known = operatorOf(operator);
  if (known === undefined)
    return { path: 'operator', message: `is no operator; there are ${operatorNames.join(', ')}` };
  const fault = known.faultOf(values);
  return fault === null ? null : { path: 'values', message: fault };
};

/** A test that an unknown operator makes false for everybody: definitions are checked before they are stored. */
export const compileCondition = ({ operator, values = [] }: Condition): CompiledTest =>
  operatorOf(operator)?.compile(values) ?? { test: () => false, workOf: () => 1 };
