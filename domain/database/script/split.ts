import { isCopyFromStdin } from './copied-rows.ts';

/** One statement of a script. */
export interface ScriptStatement {
  readonly sql: string;
  /** Where it begins in the script, in UTF-16 units. */
  readonly at: number;
  /** Lines that follow `COPY … FROM stdin;` up to `\.`, as pg_dump writes them; null: it is no such statement. */
  readonly copied: { readonly text: string; readonly at: number } | null;
}

/**
 * The parts in which a semicolon ends no statement, and the words between which it ends none: the body of a function in
 * standard SQL is `BEGIN ATOMIC … END`.
 */
const token =
  /--[^\n]*|\/\*|'|"|\$(?:[A-Za-z_\u0080-\uFFFF][\w\u0080-\uFFFF]*)?\$|[();]|[A-Za-z_\u0080-\uFFFF][\w$\u0080-\uFFFF]*|[^\s]/g;

const endOfNested = (sql: string, at: number): number => {
  const marks = /\/\*|\*\//g;
  marks.lastIndex = at;
  let depth = 0;
  for (let mark = marks.exec(sql); mark !== null; mark = marks.exec(sql)) {
    depth += mark[0] === '/*' ? 1 : -1;
    if (depth === 0) return marks.lastIndex;
  }
  return sql.length;
};

/**
 * A doubled quote goes on; in an `E''` string a backslash takes the next character with it. Mark by mark: one regular
 * expression for all of a text would need a stack as deep as the text is long.
 */
const endOfQuoted = (sql: string, at: number, marks: RegExp): number => {
  marks.lastIndex = at + 1;
  for (let mark = marks.exec(sql); mark !== null; mark = marks.exec(sql)) {
    const goesOn = mark[0] === '\\' || sql[marks.lastIndex] === mark[0];
    if (!goesOn) return marks.lastIndex;
    marks.lastIndex += 1;
  }
  return sql.length;
};

const plain = /'/g;
const escaped = /['\\]/g;
const identifier = /"/g;

const endOfDollar = (sql: string, at: number, tag: string): number => {
  const end = sql.indexOf(tag, at + tag.length);
  return end === -1 ? sql.length : end + tag.length;
};

/** Where the part that begins there ends; null: it is an ordinary word or sign. */
const endOfPart = (sql: string, at: number, mark: string, before: string): number | null => {
  if (mark === '/*') return endOfNested(sql, at);
  if (mark === "'") return endOfQuoted(sql, at, /^e$/i.test(before) ? escaped : plain);
  if (mark === '"') return endOfQuoted(sql, at, identifier);
  return mark.length > 1 && mark.startsWith('$') ? endOfDollar(sql, at, mark) : null;
};

const endOfCopied = /^\\\.[ \t\r]*$/gm;

const copiedAfter = (
  script: string,
  at: number,
): { readonly text: string; readonly at: number; readonly end: number } => {
  const lineEnd = script.indexOf('\n', at);
  const start = lineEnd === -1 ? script.length : lineEnd + 1;
  endOfCopied.lastIndex = start;
  const found = endOfCopied.exec(script);
  return {
    text: script.slice(start, found?.index ?? script.length),
    at: start,
    end: found ? endOfCopied.lastIndex : script.length,
  };
};

/** The statement that is being read, so far. */
interface Reading {
  start: number;
  depth: number;
  /** How many of `BEGIN ATOMIC` and `CASE` are open. */
  blocks: number;
  /** The words so far, as far as they say what it makes. */
  words: number;
  isCreate: boolean;
  /** It makes a function or a procedure, whose body may be one. */
  makesRoutine: boolean;
  isAny: boolean;
}

const fresh = (start: number): Reading => ({
  start,
  depth: 0,
  blocks: 0,
  words: 0,
  isCreate: false,
  makesRoutine: false,
  isAny: false,
});

const maxWords = 8;

/** The first words of a statement say what it makes: `CREATE OR REPLACE FUNCTION`. */
const noteBeginning = (reading: Reading, small: string): void => {
  if (reading.words === maxWords) return;
  reading.words += 1;
  if (reading.words === 1) reading.isCreate = small === 'create';
  reading.makesRoutine ||= reading.isCreate && (small === 'function' || small === 'procedure');
};

const noteWord = (reading: Reading, word: string): void => {
  const small = word.toLowerCase();
  noteBeginning(reading, small);
  if (!reading.makesRoutine) return;
  if (small === 'atomic' || (small === 'case' && reading.blocks > 0)) reading.blocks += 1;
  else if (small === 'end' && reading.blocks > 0) reading.blocks -= 1;
};

const noteMark = (reading: Reading, mark: string): void => {
  reading.isAny = true;
  if (mark === '(') reading.depth += 1;
  else if (mark === ')') reading.depth = Math.max(0, reading.depth - 1);
  else if (/^[A-Za-z_\u0080-\uFFFF]/.test(mark)) noteWord(reading, mark);
};

/** How much of spaces and comments a text begins with. */
const lengthOfComments = (text: string): number => {
  const space = /\s*/y;
  let at = 0;
  for (;;) {
    space.lastIndex = at;
    at += space.exec(text)?.[0].length ?? 0;
    if (text.startsWith('--', at)) {
      const end = text.indexOf('\n', at);
      at = end === -1 ? text.length : end;
    } else if (text.startsWith('/*', at)) at = endOfNested(text, at);
    else return at;
  }
};

/** The statement up to there, without the comments and spaces before it. */
const statementOf = (script: string, reading: Reading, end: number): Omit<ScriptStatement, 'copied'> => {
  const whole = script.slice(reading.start, end);
  const at = reading.start + (/^\s*/.exec(whole)?.[0].length ?? 0);
  return { sql: script.slice(at, end).trimEnd(), at };
};

/** The comments before a COPY, which pg_dump writes, are no part of it. */
const withoutCommentsOfCopy = <Statement extends Omit<ScriptStatement, 'copied'>>(statement: Statement): Statement => {
  const length = lengthOfComments(statement.sql);
  if (length === 0 || !isCopyFromStdin(statement.sql.slice(length))) return statement;
  return { ...statement, sql: statement.sql.slice(length), at: statement.at + length };
};

/** Where reading goes on after a mark that ends no statement. */
const readOn = (reading: Reading, mark: string, next: { readonly end: number | null; readonly at: number }): number => {
  if (!mark.startsWith('--') && mark !== '/*') noteMark(reading, mark);
  return next.end ?? next.at;
};

const endsStatement = ({ depth, blocks }: Reading, mark: string): boolean =>
  mark === ';' && depth === 0 && blocks === 0;

/**
 * Divides a script at its semicolons, statement by statement, so that a large one holds nobody up. The server checks
 * the result: it takes one statement at a time and refuses several.
 */
export const splitScript = function* (script: string): Generator<ScriptStatement> {
  const marks = new RegExp(token);
  let reading = fresh(0);
  let before = '';
  for (let found = marks.exec(script); found !== null; found = marks.exec(script)) {
    const [mark] = found;
    if (endsStatement(reading, mark)) {
      const statement = withoutCommentsOfCopy(statementOf(script, reading, found.index));
      const copied = isCopyFromStdin(statement.sql) ? copiedAfter(script, marks.lastIndex) : null;
      if (reading.isAny) yield { ...statement, copied };
      if (copied) marks.lastIndex = copied.end;
      reading = fresh(marks.lastIndex);
    } else {
      const end = endOfPart(script, found.index, mark, before);
      marks.lastIndex = readOn(reading, mark, { end, at: marks.lastIndex });
    }
    before = mark;
  }
  if (reading.isAny) yield { ...statementOf(script, reading, script.length), copied: null };
};
