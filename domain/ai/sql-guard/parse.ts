import { hasSqlDetails, loadModule, parseSync, scanSync } from 'libpg-query';
import type { Finding } from './sql-guard.ts';

// The parser is WebAssembly: once for the process, some 30 ms.
await loadModule();

/** Bytes. A table of 100 columns takes 5 kB. */
const maxSqlBytes = 64 * 1024;
/**
 * A sum of 10,000 terms overflows the stack that the parser shares with us, and its own is not put back then; one of
 * 2,500 does not.
 */
const maxTokens = 5000;
/** The depth of parentheses: 1,600 nested queries overflow the stack, too. */
const maxDepth = 200;

/** Words that the interface refuses wherever they stand. */
const refusedWords = new Set(['drop', 'grant', 'copy', 'truncate']);

/** The fields of a node, as libpg-query gives them: what is empty is left out. */
export type Fields = Readonly<Record<string, unknown>>;

interface Unread {
  readonly ok: false;
  readonly finding: Finding;
}

/** Where a statement stands, in bytes; a length of 0 reaches to the end. */
interface Place {
  readonly start: number;
  readonly length: number;
}

interface Statements {
  readonly ok: true;
  readonly statements: readonly Fields[];
  readonly places: readonly Place[];
  /** The refused words among them. */
  readonly words: readonly Finding[];
}

type Parsed = { readonly ok: true; readonly statement: Fields; readonly words: readonly Finding[] } | Unread;

const no = (rule: Finding['rule'], message: string, byte?: number): Unread => ({
  ok: false,
  finding: { rule, message, byte },
});

/** Characters from 0 on, as the parser counts them in an error, in bytes. */
const byteOf = (sql: string, character: number): number =>
  Buffer.byteLength(Array.from(sql).slice(0, character).join(''));

const reasonOf = (error: unknown, sql: string): Unread => {
  if (error instanceof RangeError) return no('too_long', 'The statement is nested too deeply.');
  if (!hasSqlDetails(error)) return no('syntax', 'The statement cannot be read.');
  return no('syntax', error.message, byteOf(sql, error.sqlDetails?.cursorPosition ?? 0));
};

type Tokens = ReturnType<typeof scanSync>['tokens'];

/** Words of the language: neither texts, nor comments, nor quoted names. */
const wordsAmong = (tokens: Tokens): Finding[] =>
  tokens
    .filter(({ keywordKind, text }) => keywordKind > 0 && refusedWords.has(text.toLowerCase()))
    .map(({ text, start }) => ({
      rule: 'word' as const,
      message: `${text.toUpperCase()} is refused wherever it stands. A name can be written in double quotes.`,
      byte: start,
    }));

const depthOf = (tokens: Tokens): number => {
  let depth = 0;
  let deepest = 0;
  for (const { text } of tokens) {
    if (text === '(') depth += 1;
    else if (text === ')') depth -= 1;
    deepest = Math.max(deepest, depth);
  }
  return deepest;
};

const readScanned = (sql: string): Statements | Unread => {
  const { tokens } = scanSync(sql);
  if (tokens.length > maxTokens) return no('too_long', `The text has more than ${maxTokens} words and signs.`);
  if (depthOf(tokens) > maxDepth) return no('too_long', `There are more than ${maxDepth} parentheses in each other.`);
  const stmts = parseSync(sql).stmts ?? [];
  return {
    ok: true,
    statements: stmts.flatMap(({ stmt }) => (stmt === undefined ? [] : [stmt as unknown as Fields])),
    places: stmts.map(({ stmt_location = 0, stmt_len = 0 }) => ({ start: stmt_location, length: stmt_len })),
    words: wordsAmong(tokens),
  };
};

/** All statements of a text; see `parseStatement`. */
const readStatements = (sql: string): Statements | Unread => {
  if (sql === '') return no('empty', 'There is no statement.');
  // The parser's text ends at a NUL, and a lone surrogate reaches the server as another character.
  if (sql.includes('\0') || !sql.isWellFormed()) return no('text', 'The text holds characters that SQL cannot.');
  if (Buffer.byteLength(sql) > maxSqlBytes) return no('too_long', `The text is longer than ${maxSqlBytes} bytes.`);
  try {
    return readScanned(sql);
  } catch (error) {
    return reasonOf(error, sql);
  }
};

/**
 * Reads one statement with PostgreSQL's own parser (of version 18; what an older server does not know it refuses
 * itself). The server has to be asked with `standard_conforming_strings` on, as `lib/tenant-db.ts` does, and by the
 * extended protocol: else it may read another text than we do.
 */
export const parseStatement = (sql: string): Parsed => {
  const read = readStatements(sql);
  if (!read.ok) return read;
  const { statements, places, words } = read;
  if (statements.length > 1) {
    return no('several_statements', 'There are several statements; one is taken.', places[1]?.start);
  }
  const [statement] = statements;
  return statement === undefined ? no('empty', 'There is no statement.') : { ok: true, statement, words };
};

/** The statements of a text, each without its semicolon; none where it cannot be read. */
export const splitStatements = (sql: string): readonly string[] => {
  const read = readStatements(sql);
  if (!read.ok) return [];
  const bytes = Buffer.from(sql);
  return read.places.map(({ start, length }) =>
    bytes
      .subarray(start, length === 0 ? undefined : start + length)
      .toString()
      .trim(),
  );
};
