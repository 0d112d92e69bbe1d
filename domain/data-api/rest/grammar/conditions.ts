import type { ComparisonOperator } from '../../data-api.ts';
import {
  type ConditionAst,
  type TestAst,
  type Cursor,
  fail,
  isAtEnd,
  need,
  refuse,
  requireEnd,
  sees,
  skipSpace,
  take,
  takeForm,
  takeQuoted,
  readField,
} from './grammar.ts';

const comparisons: Readonly<Record<ComparisonOperator, { readonly quantified: boolean }>> = {
  eq: { quantified: true },
  neq: { quantified: false },
  gt: { quantified: true },
  gte: { quantified: true },
  lt: { quantified: true },
  lte: { quantified: true },
  like: { quantified: true },
  ilike: { quantified: true },
  match: { quantified: true },
  imatch: { quantified: true },
  cs: { quantified: false },
  cd: { quantified: false },
  ov: { quantified: false },
  sl: { quantified: false },
  sr: { quantified: false },
  nxr: { quantified: false },
  nxl: { quantified: false },
  adj: { quantified: false },
  isdistinct: { quantified: false },
};
const searches = ['fts', 'plfts', 'phfts', 'wfts'] as const;
const isWords = ['not_null', 'null', 'true', 'false', 'unknown'] as const;

const isComparison = (word: string): word is ComparisonOperator => Object.hasOwn(comparisons, word);
const isSearch = (word: string): word is (typeof searches)[number] => searches.some((name) => name === word);
const isOperator = (word: string): boolean => word === 'in' || word === 'is' || isComparison(word) || isSearch(word);

const operatorForm = /([a-z]+)(?:\(([\p{L}\p{N}_$ ]*)\))?\./uy;
const operatorWanted = '"not" or operator (eq, gt, ...)';
const logicForm = /(not\.)?(and|or)[ \t]*(?=\()/y;
const arrayForm = /\{[^{}]*\}/y;
const bareForm = /[^,)]*/y;

/** A filter's value begins with an operator: it is no bare value, and no argument of a call. */
export const hasOperator = (value: string): boolean => {
  const start = value.startsWith('not.') ? 4 : 0;
  operatorForm.lastIndex = start;
  return isOperator(operatorForm.exec(value)?.[1] ?? '');
};

const maxDepth = 32;

/** Reads the value behind the operator: all the rest, or up to a comma or parenthesis. */
type ReadValue = (cursor: Cursor) => string;

const readWholeValue: ReadValue = (cursor) => {
  const value = cursor.text.slice(cursor.at);
  cursor.at = cursor.text.length;
  return value;
};

const endsValue = (cursor: Cursor): boolean => isAtEnd(cursor) || sees(cursor, ',') || sees(cursor, ')');

/** A quoted value; null, and nothing is read, when it is not all of the value: the quote is a character then. */
const takeQuotedValue = (cursor: Cursor): string | null => {
  const start = cursor.at;
  const quoted = takeQuoted(cursor);
  if (quoted !== null && endsValue(cursor)) return quoted;
  cursor.at = start;
  return null;
};

const readListedValue: ReadValue = (cursor) => takeQuotedValue(cursor) ?? takeForm(cursor, bareForm) ?? '';

const readLogicValue: ReadValue = (cursor) => {
  const quoted = takeQuotedValue(cursor);
  if (quoted !== null) return quoted;
  const start = cursor.at;
  const array = takeForm(cursor, arrayForm);
  if (array !== null && endsValue(cursor)) return array;
  cursor.at = start;
  return takeForm(cursor, bareForm) ?? '';
};

const readList = (cursor: Cursor): string[] => {
  skipSpace(cursor);
  need(cursor, '(');
  skipSpace(cursor);
  if (take(cursor, ')')) return [];
  const values: string[] = [];
  do values.push(readListedValue(cursor));
  while (take(cursor, ','));
  need(cursor, ')');
  return values;
};

const readIsWord = (cursor: Cursor): (typeof isWords)[number] => {
  const start = cursor.at;
  const word = takeForm(cursor, /\w+/y)?.toLowerCase();
  const known = isWords.find((name) => name === word);
  if (known !== undefined) return known;
  cursor.at = start;
  return fail(cursor, 'isVal: (null, not_null, true, false, unknown)');
};

/** Behind the operator `word`, `modifier` being what stood in its parentheses. */
const readOperand = (cursor: Cursor, operator: Operator, readValue: ReadValue): TestAst | null => {
  const { word, modifier } = operator;
  if (isSearch(word)) return { kind: 'search', how: word, language: modifier, operand: readValue(cursor) };
  if (isComparison(word)) {
    const quantifier = modifier === 'any' || modifier === 'all' ? modifier : null;
    if (modifier !== null && (quantifier === null || !comparisons[word].quantified)) return null;
    return { kind: 'compare', operator: word, quantifier, operand: readValue(cursor) };
  }
  if (modifier !== null) return null;
  if (word === 'in') return { kind: 'in', operands: readList(cursor) };
  return word === 'is' ? { kind: 'is', what: readIsWord(cursor) } : null;
};

interface Operator {
  readonly word: string;
  readonly modifier: string | null;
}

const readTest = (cursor: Cursor, readValue: ReadValue): TestAst => {
  const start = cursor.at;
  operatorForm.lastIndex = start;
  const [whole, word, modifier] = operatorForm.exec(cursor.text) ?? [];
  if (whole === undefined || word === undefined || modifier?.trim() === '') return fail(cursor, operatorWanted);
  cursor.at += whole.length;
  const test = readOperand(cursor, { word, modifier: modifier?.trim() ?? null }, readValue);
  if (test !== null) return test;
  cursor.at = start;
  return fail(cursor, operatorWanted);
};

/** `not.` and what is negated by it. */
const readOperation = (cursor: Cursor, readValue: ReadValue): { readonly negated: boolean; readonly test: TestAst } => {
  const negated = take(cursor, 'not.');
  return { negated, test: readTest(cursor, readValue) };
};

const readParts = (cursor: Cursor, depth: number): ConditionAst[] => {
  if (depth > maxDepth) refuse(cursor, `and() and or() are nested deeper than ${maxDepth} levels`);
  need(cursor, '(');
  const parts: ConditionAst[] = [];
  do parts.push(readLogicPart(cursor, depth));
  while (take(cursor, ','));
  if (!take(cursor, ')')) fail(cursor, '"," or ")"');
  skipSpace(cursor);
  return parts;
};

const readLogicFilter = (cursor: Cursor): ConditionAst => {
  const field = readField(cursor);
  if (!take(cursor, '.')) fail(cursor, 'delimiter (.)');
  const filter = { kind: 'filter', field, ...readOperation(cursor, readLogicValue) } as const;
  skipSpace(cursor);
  return filter;
};

const readLogicPart = (cursor: Cursor, depth: number): ConditionAst => {
  skipSpace(cursor);
  const head = takeForm(cursor, logicForm)?.trimEnd();
  if (head === undefined) return readLogicFilter(cursor);
  const negated = head.startsWith('not.');
  const operator = head.endsWith('and') ? 'and' : 'or';
  return { kind: 'logic', operator, negated, parts: readParts(cursor, depth + 1) };
};

/** The whole of `(a.eq.1,b.gt.2)` behind `or=`. */
export const readLogic = (cursor: Cursor): ConditionAst[] => {
  skipSpace(cursor);
  const parts = readParts(cursor, 1);
  requireEnd(cursor);
  return parts;
};

/** The whole of a filter's value. */
export const readFilterValue = (cursor: Cursor): { readonly negated: boolean; readonly test: TestAst } => {
  const operation = readOperation(cursor, readWholeValue);
  skipSpace(cursor);
  requireEnd(cursor);
  return operation;
};
