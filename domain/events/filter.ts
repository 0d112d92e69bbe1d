import {
  type Comparison,
  type Condition,
  type Operand,
  type Predicate,
  invalid,
  parseFilter,
} from './filter-parser.ts';

/*
 * Filters of events, such as `data.status = 'paid' and old.status <> 'paid'`: parsed here, and compiled to SQL/JSON
 * paths, which PostgreSQL evaluates where events become deliveries (domain/webhooks/fan-out.ts). A path that leads
 * nowhere is null, null equals null, values of different types are not equal, and every comparison is true or false.
 */

/** A filter as the fan-out evaluates it, against the data of an event as they are stored. */
export interface CompiledFilter {
  /** For writes to tables, whose data are `{"row":…,"old":…}`. */
  readonly table: string;
  /** For all other events. */
  readonly other: string;
}

const maxLength = 4096;

/** Where `data` and `old` lie in the stored data; null: there is none. */
interface Roots {
  readonly data: string;
  readonly old: string | null;
}

const always = '(1 == 1)';
const never = '(1 == 2)';

/** True where a predicate is false or, since a path led nowhere or types differ, unknown. */
const fails = (predicate: string): string => `(!${predicate} || ${predicate} is unknown)`;

const signs: Readonly<Record<Comparison, string>> = {
  '=': '==',
  '<>': '==',
  '<': '<',
  '<=': '<=',
  '>': '>',
  '>=': '>=',
};

/** `like` as a regular expression whose only repetitions are those of `%`. */
const regexOf = (pattern: string): string =>
  pattern.replaceAll(/\\(.)|[%_]|[^\w\s]/gsu, (found, escaped?: string) => {
    if (found === '%') return '.*';
    if (found === '_') return '.';
    const character = escaped ?? found;
    return /^[\w\s]|[^\0-\x7f]$/u.test(character) ? character : `\\${character}`;
  });

const isNull = (operand: string): string => {
  if (operand === 'null') return always;
  return operand.startsWith('$') ? `(${operand} == null || (exists(${operand})) is unknown)` : never;
};

const equal = (left: string, right: string): string => {
  if (left === 'null') return isNull(right);
  if (right === 'null') return isNull(left);
  const areBothPaths = left.startsWith('$') && right.startsWith('$');
  return areBothPaths ? `(${left} == ${right} || ${isNull(left)} && ${isNull(right)})` : `(${left} == ${right})`;
};

const like = (left: string, pattern: string): string => {
  const [start = ''] = /^[^%_\\]*/.exec(pattern) ?? [];
  if (start === pattern) return equal(left, JSON.stringify(pattern));
  if (`${start}%` === pattern) return `(${left} starts with ${JSON.stringify(start)})`;
  return `(${left} like_regex ${JSON.stringify(`^${regexOf(pattern)}$`)} flag "s")`;
};

const compilerFor = (roots: Roots): ((condition: Condition, isNegated?: boolean) => string) => {
  const textOf = (operand: Operand): string => {
    if (operand.kind === 'literal') return operand.json;
    if (operand.root === 'event') return '$event';
    const root = roots[operand.root];
    return root === null ? 'null' : [root, ...operand.keys.map((key) => JSON.stringify(key))].join('.');
  };
  const predicateOf = (condition: Predicate): string => {
    const left = textOf(condition.left);
    if (condition.kind === 'like') return like(left, condition.pattern);
    const right = textOf(condition.right);
    const sign = signs[condition.sign];
    return sign === '==' ? equal(left, right) : `(${left} ${sign} ${right})`;
  };
  // Negations go down to the comparisons: doubled at every level, they would grow beyond all bounds.
  const compile = (condition: Condition, isNegated = false): string => {
    if (condition.kind === 'not') return compile(condition.of, !isNegated);
    if ('of' in condition) {
      const isAll = (condition.kind === 'and') !== isNegated;
      return `(${condition.of.map((one) => compile(one, isNegated)).join(isAll ? ' && ' : ' || ')})`;
    }
    const isOpposite = condition.kind === 'compare' && condition.sign === '<>';
    const predicate = predicateOf(condition);
    return isOpposite === isNegated ? predicate : fails(predicate);
  };
  return compile;
};

/**
 * @param text at most 4 KB: comparisons (`= <> < <= > >=`, `is [not] null`, `[not] in (…)`, `[not] like`) of paths
 * (`data.a.b`, `old.a`, `event`) and literals, joined by `and`, `or`, `not` and parentheses
 * @throws {ServiceError} `invalid_filter` with the position of the fault
 */
export const compileFilter = (text: string): CompiledFilter => {
  if (Buffer.byteLength(text) > maxLength) throw invalid(`a filter has at most ${maxLength} bytes`, 0);
  const unusable = text.isWellFormed() ? text.indexOf('\0') : 0;
  if (unusable >= 0) throw invalid('it has a character that no event can have', unusable);
  const condition = parseFilter(text);
  const compiled = (roots: Roots): string => `strict ${compilerFor(roots)(condition)}`;
  return { table: compiled({ data: '$.row', old: '$.old' }), other: compiled({ data: '$', old: null }) };
};
