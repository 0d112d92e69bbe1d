/**
 * Takes SQL as pg_dump writes it apart. What stands in quotes is passed over; comments and psql's own commands (`\restrict`)
 * are left out, so that no name can end a comment and have psql run the rest (CVE-2025-8715).
 */

const word = /[A-Za-z_\u0080-\uffff][\w$\u0080-\uffff]*/y;
const dollar = /\$(?:[A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*)?\$/y;
const rest = /[^\w'"$;\\\s\u0080-\uffff-]+|\s+|\d+/y;

const matchAt = (pattern: RegExp, sql: string, at: number): string | undefined => {
  pattern.lastIndex = at;
  return pattern.exec(sql)?.[0];
};

/** @param at behind the first quote */
const endOfQuoted = (sql: string, at: number, quote: string, escapes: boolean): number => {
  let here = at;
  while (here < sql.length) {
    const char = sql[here];
    if (char === quote && sql[here + 1] !== quote) return here + 1;
    here += char === quote || (escapes && char === '\\') ? 2 : 1;
  }
  return sql.length;
};

const endOfDollar = (sql: string, at: number, tag: string): number => {
  const end = sql.indexOf(tag, at + tag.length);
  return end === -1 ? sql.length : end + tag.length;
};

const endOfLine = (sql: string, at: number): number => {
  const end = sql.indexOf('\n', at);
  return end === -1 ? sql.length : end;
};

const isLeftOut = (sql: string, at: number): boolean => sql[at] === '\\' || sql.startsWith('--', at);

/** Where the token that begins at `at` ends. */
const endOfToken = (sql: string, at: number): number => {
  const char = sql[at] ?? '';
  if (isLeftOut(sql, at)) return endOfLine(sql, at);
  if (char === "'" || char === '"') return endOfQuoted(sql, at + 1, char, false);
  if (/^e'/i.test(sql.slice(at, at + 2))) return endOfQuoted(sql, at + 2, "'", true);
  const tag = matchAt(dollar, sql, at);
  if (tag !== undefined) return endOfDollar(sql, at, tag);
  const token = matchAt(word, sql, at) ?? matchAt(rest, sql, at);
  return at + (token?.length ?? 1);
};

/** The statements, without the semicolons; a function's body that is not quoted comes apart, too, in its order. */
export const statementsIn = (sql: string): string[] => {
  const statements: string[] = [];
  let text = '';
  for (let at = 0; at < sql.length;) {
    const end = endOfToken(sql, at);
    if (sql[at] === ';') {
      statements.push(text.trim());
      text = '';
    } else if (!isLeftOut(sql, at)) {
      text += sql.slice(at, end);
    }
    at = end;
  }
  return [...statements, text.trim()].filter((statement) => statement !== '');
};
