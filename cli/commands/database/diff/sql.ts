/*
 * Reads SQL as the platform writes it (db/schema.sql): where statements end, and which commas and words are in the
 * open, outside of strings, names and brackets.
 */

const token =
  /--[^\n]*|\/\*|[eE]'|'|"|\$(?:[A-Za-z_\u0080-\uFFFF][\w\u0080-\uFFFF]*)?\$|[A-Za-z_\u0080-\uFFFF][\w$\u0080-\uFFFF]*|[\s\S]/g;

const endings: Readonly<Record<string, RegExp>> = {
  "'": /(?:[^']|'')*'/y,
  "e'": /(?:[^'\\]|''|\\[\s\S])*'/y,
  '"': /(?:[^"]|"")*"/y,
  '/*': /(?:[^*]|\*(?!\/))*\*\//y,
};

/** The end of a part that begins with that mark; null: it is an ordinary word or sign. */
const endOf = (sql: string, mark: string, at: number): number | null => {
  if (mark.length > 1 && mark.startsWith('$')) {
    const end = sql.indexOf(mark, at);
    return end === -1 ? sql.length : end + mark.length;
  }
  const ending = endings[mark.toLowerCase()];
  if (ending === undefined) return null;
  ending.lastIndex = at;
  return ending.test(sql) ? ending.lastIndex : sql.length;
};

/** A word or sign in the open. */
interface Mark {
  readonly text: string;
  readonly at: number;
  readonly depth: number;
}

/** All words and signs that are outside of strings, quoted names and comments. A closing bracket has the depth outside. */
const marksIn = function* (sql: string): Generator<Mark> {
  const marks = new RegExp(token);
  let depth = 0;
  for (let found = marks.exec(sql); found !== null; found = marks.exec(sql)) {
    const [text] = found;
    const end = endOf(sql, text, marks.lastIndex);
    if (end !== null) {
      marks.lastIndex = end;
      continue;
    }
    if (text.startsWith('--')) continue;
    if (')]'.includes(text)) depth -= 1;
    yield { text, at: found.index, depth };
    if ('(['.includes(text)) depth += 1;
  }
};

const cut = (sql: string, places: readonly number[], width: number): string[] => {
  const starts = [0, ...places.map((at) => at + width)];
  return starts.map((start, index) => sql.slice(start, places[index] ?? sql.length).trim());
};

/** Divides at a sign in the open. */
export const splitAt = (sql: string, sign: string): string[] => {
  const places = [...marksIn(sql)].filter(({ text, depth }) => text === sign && depth === 0).map(({ at }) => at);
  return cut(sql, places, sign.length);
};

const noComment = (sql: string): string => sql.replace(/^(?:\s*--[^\n]*(?:\n|$))+/, '').trim();

/** The bodies of functions in standard SQL hold semicolons between `BEGIN ATOMIC` and `END`. */
const isOpenBody = (sql: string): boolean =>
  /^create (?:or replace )?(?:function|procedure)\b[\s\S]*\bbegin atomic\b/i.test(sql) && !/\bend\s*$/i.test(sql);

/** The statements of a script, without semicolons and the comments before them. */
export const statementsOf = (sql: string): string[] => {
  const done: string[] = [];
  let open = '';
  for (const part of splitAt(sql, ';')) {
    open = open === '' ? noComment(part) : `${open};\n ${part}`;
    if (isOpenBody(open)) continue;
    if (open !== '') done.push(open);
    open = '';
  }
  return open === '' ? done : [...done, open];
};

/** Divides before the first of the words in the open. @returns the text before, and the rest with the word; or null */
export const splitBefore = (sql: string, words: readonly string[]): readonly [string, string | null] => {
  for (const { text, at, depth } of marksIn(sql)) {
    if (depth === 0 && at > 0 && words.includes(text.toLowerCase())) return [sql.slice(0, at).trim(), sql.slice(at)];
  }
  return [sql.trim(), null];
};

/** Divides before each occurrence of the word in the open. */
export const splitBeforeEach = (sql: string, word: string): string[] => {
  const places = [...marksIn(sql)]
    .filter(({ text, depth, at }) => depth === 0 && at > 0 && text.toLowerCase() === word)
    .map(({ at }) => at);
  return cut(sql, places, 0);
};

/** The text within the first pair of brackets, before and behind it. */
export const bracketsOf = (
  sql: string,
): { readonly before: string; readonly inner: string; readonly after: string } => {
  let start = -1;
  for (const { text, at, depth } of marksIn(sql)) {
    if (text === '(' && start === -1) start = at;
    else if (text === ')' && depth === 0 && start !== -1)
      return {
        before: sql.slice(0, start).trim(),
        inner: sql.slice(start + 1, at).trim(),
        after: sql.slice(at + 1).trim(),
      };
  }
  return { before: sql, inner: '', after: '' };
};

const part = String.raw`(?:"(?:[^"]|"")*"|[A-Za-z_\u0080-\uFFFF][\w$\u0080-\uFFFF]*)`;

/** Regular expressions of an identifier, and of a name with or without its schema. */
export const [identifier, qualified] = [part, `${part}(?:\\.${part})?`];
