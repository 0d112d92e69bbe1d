import { ServiceError } from '#lib/errors.ts';

/** Filters of events as text, read in domain/events/filter.ts. */

const maxDepth = 50;

type Token =
  | { readonly kind: 'word' | 'name' | 'text' | 'number' | 'sign'; readonly text: string; readonly at: number }
  | { readonly kind: 'end'; readonly text: ''; readonly at: number };

interface Path {
  readonly kind: 'path';
  readonly root: 'data' | 'old' | 'event';
  readonly keys: readonly string[];
}
/** A literal as JSON; numbers as they were written, so that they stay exact. */
interface Literal {
  readonly kind: 'literal';
  readonly json: string;
}
export type Operand = Path | Literal;
export type Comparison = '=' | '<>' | '<' | '<=' | '>' | '>=';

interface Joined {
  readonly kind: 'and' | 'or';
  readonly of: readonly Condition[];
}
interface Negated {
  readonly kind: 'not';
  readonly of: Condition;
}
/** A condition without others in it. */
export type Predicate =
  | { readonly kind: 'compare'; readonly sign: Comparison; readonly left: Operand; readonly right: Operand }
  | { readonly kind: 'like'; readonly left: Operand; readonly pattern: string };
export type Condition = Joined | Negated | Predicate;

export const invalid = (message: string, at: number): ServiceError =>
  new ServiceError('invalid_filter', `The filter is not valid at character ${at + 1}: ${message}.`, {
    details: { path: 'filter', position: at + 1, message },
  });

const tokenForms = [
  ['text', /'(?:[^']|'')*'/y],
  ['name', /"(?:[^"]|"")*"/y],
  ['number', /-?\d{1,40}(?:\.\d{1,40})?(?:[eE][+-]?\d{1,3})?(?![\w.])/y],
  ['word', /[A-Za-z_]\w*/y],
  ['sign', /<=|>=|<>|!=|[=<>(),.]/y],
] as const;

const tokenAt = (text: string, at: number): Token => {
  for (const [kind, form] of tokenForms) {
    form.lastIndex = at;
    const [found] = form.exec(text) ?? [];
    if (found !== undefined) return { kind, text: found, at };
  }
  const isOpen = text[at] === "'" || text[at] === '"';
  throw invalid(isOpen ? 'a quote is not closed' : `${JSON.stringify(text[at])} is not expected here`, at);
};

const tokensOf = (text: string): Token[] => {
  const tokens: Token[] = [];
  for (let at = 0; ;) {
    while (/\s/.test(text[at] ?? '')) at += 1;
    if (at >= text.length) return [...tokens, { kind: 'end', text: '', at }];
    const token = tokenAt(text, at);
    tokens.push(token);
    at += token.text.length;
  }
};

const unquoted = ({ text }: Token, quote: string): string => text.slice(1, -1).replaceAll(quote + quote, quote);

const comparisons: Readonly<Record<string, Comparison>> = {
  '=': '=',
  '<>': '<>',
  '!=': '<>',
  '<': '<',
  '<=': '<=',
  '>': '>',
  '>=': '>=',
};

const nothing: Literal = { kind: 'literal', json: 'null' };
const isTrue = (left: Operand): Condition => ({
  kind: 'compare',
  sign: '=',
  left,
  right: { kind: 'literal', json: 'true' },
});
const negated = (condition: Condition, isNegated: boolean): Condition =>
  isNegated ? { kind: 'not', of: condition } : condition;

/** The tokens that are still to be parsed. */
interface Cursor {
  readonly present: () => Token;
  readonly take: () => Token;
  /** Takes the next token when it is that keyword or sign. */
  readonly accept: (text: string) => boolean;
}

const cursorOf = (tokens: readonly Token[]): Cursor => {
  let place = 0;
  const present = (): Token => tokens[Math.min(place, tokens.length - 1)] as Token;
  const take = (): Token => {
    const token = present();
    place += 1;
    return token;
  };
  const accept = (text: string): boolean => {
    const { kind, text: found } = present();
    const isIt = (kind === 'word' || kind === 'sign') && found.toLowerCase() === text;
    if (isIt) place += 1;
    return isIt;
  };
  return { present, take, accept };
};

const expect = (cursor: Cursor, text: string): void => {
  if (!cursor.accept(text)) throw invalid(`${text} is expected`, cursor.present().at);
};

const keyOf = (token: Token): string => {
  if (token.kind === 'word') return token.text;
  if (token.kind === 'name') return unquoted(token, '"');
  throw invalid('the name of a field is expected', token.at);
};

const pathFrom = (cursor: Cursor, root: 'data' | 'old'): Path => {
  const keys: string[] = [];
  while (cursor.accept('.')) keys.push(keyOf(cursor.take()));
  return { kind: 'path', root, keys };
};

const operandOf = (cursor: Cursor): Operand => {
  const token = cursor.take();
  if (token.kind === 'number') return { kind: 'literal', json: token.text };
  if (token.kind === 'text') return { kind: 'literal', json: JSON.stringify(unquoted(token, "'")) };
  const word = token.kind === 'word' ? token.text.toLowerCase() : '';
  if (['true', 'false', 'null'].includes(word)) return { kind: 'literal', json: word };
  if (word === 'data' || word === 'old') return pathFrom(cursor, word);
  if (word === 'event') return { kind: 'path', root: 'event', keys: [] };
  throw invalid('a value, or a path such as data.status, old.status or event, is expected', token.at);
};

const listOf = (cursor: Cursor, left: Operand): Condition => {
  const of: Condition[] = [];
  expect(cursor, '(');
  do of.push({ kind: 'compare', sign: '=', left, right: operandOf(cursor) });
  while (cursor.accept(','));
  expect(cursor, ')');
  return { kind: 'or', of };
};

// Each % of a pattern multiplies the places where a match may begin.
const maxPatternLength = 200;
const maxWildcards = 5;

const likeOf = (cursor: Cursor, left: Operand): Condition => {
  const token = cursor.take();
  if (token.kind !== 'text') throw invalid('like needs a text in single quotes', token.at);
  const pattern = unquoted(token, "'");
  if (pattern.length > maxPatternLength || pattern.split('%').length > maxWildcards + 1)
    throw invalid(`a pattern has at most ${maxPatternLength} characters and ${maxWildcards} %`, token.at);
  return { kind: 'like', left, pattern };
};

const comparisonOf = (cursor: Cursor): Condition => {
  const left = operandOf(cursor);
  const { kind, text } = cursor.present();
  const sign = kind === 'sign' ? comparisons[text] : undefined;
  if (sign !== undefined) {
    cursor.take();
    return { kind: 'compare', sign, left, right: operandOf(cursor) };
  }
  if (cursor.accept('is')) {
    const isNot = cursor.accept('not');
    expect(cursor, 'null');
    return { kind: 'compare', sign: isNot ? '<>' : '=', left, right: nothing };
  }
  const isNot = cursor.accept('not');
  if (cursor.accept('in')) return negated(listOf(cursor, left), isNot);
  if (cursor.accept('like')) return negated(likeOf(cursor, left), isNot);
  if (isNot || left.kind === 'literal') throw invalid('a comparison is expected', cursor.present().at);
  return isTrue(left);
};

const primaryOf = (cursor: Cursor, depth: number): Condition => {
  if (depth > maxDepth) throw invalid(`at most ${maxDepth} levels may be nested`, cursor.present().at);
  if (cursor.accept('not')) return { kind: 'not', of: primaryOf(cursor, depth + 1) };
  if (!cursor.accept('(')) return comparisonOf(cursor);
  const inner = disjunctionOf(cursor, depth + 1);
  expect(cursor, ')');
  return inner;
};

/** Several conditions with one word between them. */
const joinedBy = (kind: 'and' | 'or', cursor: Cursor, one: () => Condition): Condition => {
  const first = one();
  const of = [first];
  while (cursor.accept(kind)) of.push(one());
  return of.length === 1 ? first : { kind, of };
};

const conjunctionOf = (cursor: Cursor, depth: number): Condition =>
  joinedBy('and', cursor, () => primaryOf(cursor, depth));

function disjunctionOf(cursor: Cursor, depth: number): Condition {
  return joinedBy('or', cursor, () => conjunctionOf(cursor, depth));
}

/** A recursive descent: `or` binds least, then `and`, then `not`. @throws {ServiceError} `invalid_filter` */
export const parseFilter = (text: string): Condition => {
  const cursor = cursorOf(tokensOf(text));
  const whole = disjunctionOf(cursor, 0);
  if (cursor.present().kind !== 'end') throw invalid('and, or, or the end is expected', cursor.present().at);
  return whole;
};
