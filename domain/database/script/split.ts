import { isCopyFromStdin } from './copied-rows.ts';

/** One statement of a script. */
export interface ScriptStatement {
  readonly sql: string;
  /** Where it begins in the script, in UTF-16 units. */
  readonly at: number;
  /** How much of `sql` is comments and spaces before its first word. */
  readonly wordAt: number;
  /** Lines that follow `COPY … FROM stdin;` up to `\.`, as pg_dump writes them; null: it is no such statement. */
  readonly copied: { readonly text: string; readonly at: number } | null;
}

/**
 * So many characters are read at a time, some 2 ms of the process at worst. 50 MB of semicolons held it up for 20 s when
 * reading paused at statements only.
 */
const readAtOnce = 8192;

/** Where reading last paused. */
interface Pace {
  paused: number;
}

const isDue = (pace: Pace, at: number): boolean => {
  if (at - pace.paused < readAtOnce) return false;
  pace.paused = at;
  return true;
};

/** Reads a part of the script: null is a pause, after which it goes on. */
type Reader<Result> = Generator<null, Result>;

/**
 * The parts in which a semicolon ends no statement, and the words between which it ends none: the body of a function in
 * standard SQL is `BEGIN ATOMIC … END`.
 */
const token =
  /--[^\n]*|\/\*|'|"|\$(?:[A-Za-z_\u0080-\uFFFF][\w\u0080-\uFFFF]*)?\$|[();]|[A-Za-z_\u0080-\uFFFF][\w$\u0080-\uFFFF]*|[^\s]/g;

/** The next mark, and where it ends. Several scripts are read at a time, so that no place is kept in an expression. */
const nextMark = (marks: RegExp, sql: string, at: number): { readonly mark: string; readonly end: number } | null => {
  marks.lastIndex = at;
  const found = marks.exec(sql);
  return found && { mark: found[0], end: marks.lastIndex };
};

const commentMarks = /\/\*|\*\//g;

const endOfNested = function* (sql: string, at: number, pace: Pace): Reader<number> {
  let depth = 0;
  for (let next = nextMark(commentMarks, sql, at); next !== null; next = nextMark(commentMarks, sql, next.end)) {
    depth += next.mark === '/*' ? 1 : -1;
    if (depth === 0) return next.end;
    if (isDue(pace, next.end)) yield null;
  }
  return sql.length;
};

/**
 * A doubled quote goes on; in an `E''` string a backslash takes the next character with it. Mark by mark: one regular
 * expression for all of a text would need a stack as deep as the text is long.
 */
const endOfQuoted = function* (sql: string, at: number, marks: RegExp, pace: Pace): Reader<number> {
  for (let next = nextMark(marks, sql, at + 1); next !== null; next = nextMark(marks, sql, next.end + 1)) {
    const goesOn = next.mark === '\\' || sql[next.end] === next.mark;
    if (!goesOn) return next.end;
    if (isDue(pace, next.end)) yield null;
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

/** Whether a mark begins a part in which a semicolon ends no statement. Comments to the end of a line are marks whole. */
const beginsPart = (mark: string): boolean =>
  mark === '/*' || mark === "'" || mark === '"' || (mark.length > 1 && mark.startsWith('$'));

interface Mark {
  readonly mark: string;
  readonly at: number;
  /** The mark before it. */
  readonly before: string;
}

/** Where the part that a mark begins ends. */
const endOfPart = function* (sql: string, { mark, at, before }: Mark, pace: Pace): Reader<number> {
  if (mark === '/*') return yield* endOfNested(sql, at, pace);
  if (mark === "'") return yield* endOfQuoted(sql, at, /^e$/i.test(before) ? escaped : plain, pace);
  if (mark === '"') return yield* endOfQuoted(sql, at, identifier, pace);
  return endOfDollar(sql, at, mark);
};

const endOfCopied = /\\\.[ \t\r]*(?:$|(?=\n))/y;

interface CopiedPart {
  readonly text: string;
  readonly at: number;
  readonly end: number;
}

const copiedAfter = function* (script: string, at: number, pace: Pace): Reader<CopiedPart> {
  const lineEnd = script.indexOf('\n', at);
  const start = lineEnd === -1 ? script.length : lineEnd + 1;
  for (let line = start; line < script.length;) {
    endOfCopied.lastIndex = line;
    if (endOfCopied.test(script)) return { text: script.slice(start, line), at: start, end: endOfCopied.lastIndex };
    const next = script.indexOf('\n', line);
    line = next === -1 ? script.length : next + 1;
    if (isDue(pace, line)) yield null;
  }
  return { text: script.slice(start), at: start, end: script.length };
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
  /** Where its first word is; null: there are only comments and spaces so far. */
  wordAt: number | null;
}

const fresh = (start: number): Reading => ({
  start,
  depth: 0,
  blocks: 0,
  words: 0,
  isCreate: false,
  makesRoutine: false,
  wordAt: null,
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

const noteMark = (reading: Reading, mark: string, at: number): void => {
  reading.wordAt ??= at;
  if (mark === '(') reading.depth += 1;
  else if (mark === ')') reading.depth = Math.max(0, reading.depth - 1);
  else if (/^[A-Za-z_\u0080-\uFFFF]/.test(mark)) noteWord(reading, mark);
};

/** The statement up to there, without the spaces around it. The comments before a COPY are no part of it. */
const statementOf = (
  script: string,
  { start, wordAt }: { readonly start: number; readonly wordAt: number },
  end: number,
): Omit<ScriptStatement, 'copied'> & { readonly isCopy: boolean } => {
  const bare = script.slice(wordAt, end).trimEnd();
  if (isCopyFromStdin(bare)) return { sql: bare, at: wordAt, wordAt: 0, isCopy: true };
  const at = start + (/^\s*/.exec(script.slice(start, wordAt))?.[0].length ?? 0);
  return { sql: script.slice(at, end).trimEnd(), at, wordAt: wordAt - at, isCopy: false };
};

const endsStatement = ({ depth, blocks }: Reading, mark: string): boolean =>
  mark === ';' && depth === 0 && blocks === 0;

/**
 * Divides a script at its semicolons, statement by statement. In between it yields null after each few thousand
 * characters, so that whoever reads can let others have the process. The server checks the result: it takes one
 * statement at a time and refuses several.
 */
export const splitScript = function* (script: string): Generator<ScriptStatement | null> {
  const marks = new RegExp(token);
  const pace: Pace = { paused: 0 };
  let reading = fresh(0);
  let before = '';
  for (let found = marks.exec(script); found !== null; found = marks.exec(script)) {
    const [mark] = found;
    if (isDue(pace, marks.lastIndex)) yield null;
    if (endsStatement(reading, mark)) {
      const { start, wordAt } = reading;
      if (wordAt !== null) {
        const { isCopy, ...statement } = statementOf(script, { start, wordAt }, found.index);
        const copied = isCopy ? yield* copiedAfter(script, marks.lastIndex, pace) : null;
        marks.lastIndex = copied?.end ?? marks.lastIndex;
        yield { ...statement, copied };
      }
      reading = fresh(marks.lastIndex);
    } else {
      if (!mark.startsWith('--') && mark !== '/*') noteMark(reading, mark, found.index);
      if (beginsPart(mark)) marks.lastIndex = yield* endOfPart(script, { mark, at: found.index, before }, pace);
    }
    before = mark;
  }
  const { start, wordAt } = reading;
  if (wordAt === null) return;
  const { isCopy: _, ...last } = statementOf(script, { start, wordAt }, script.length);
  yield { ...last, copied: null };
};
