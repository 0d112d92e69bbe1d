/*
 * Calls of `sdk.db` in code of functions, in JavaScript and Python: what stands at the caret, also in code that is not
 * finished, for completion (`placeAt`).
 */

/** Where the caret is within a call such as `sdk.db.insert('orders', { state: 'new' })`. */
export type CallPlace =
  /** In the name of the table. */
  | { readonly kind: 'table'; readonly typed: string }
  /** In the name of a column: of a key of the row, or within the text of a condition. */
  | {
      readonly kind: 'key';
      readonly table: string;
      readonly typed: string;
      readonly quote: string | null;
      readonly used: readonly string[];
    }
  | { readonly kind: 'where'; readonly table: string; readonly typed: string }
  /** In the value of a column. */
  | {
      readonly kind: 'value';
      readonly table: string;
      readonly column: string;
      readonly typed: string;
      readonly quote: string | null;
    };

type Method = 'select' | 'insert' | 'update' | 'remove';

/** Which argument is the condition. */
const whereAt: Readonly<Record<Method, number | null>> = { select: 1, insert: null, update: 2, remove: 1 };
const hasRow = (method: Method): boolean => method === 'insert' || method === 'update';

const beginning = /\b(?:db|tx)\.(select|insert|update|remove)\(\s*/g;

/** The last call that begins before the caret, and what stands in it so far. */
const lastCall = (before: string): { readonly method: Method; readonly args: string } | null => {
  const found = [...before.matchAll(beginning)].at(-1);
  if (found === undefined) return null;
  return { method: found[1] as Method, args: before.slice(found.index + found[0].length) };
};

interface Scan {
  /** The brackets that are open, without that of the call. */
  readonly open: string[];
  /** Where the current text began, and its quote; null: the caret is in none. */
  quote: string | null;
  from: number;
  /** The number of the argument. */
  argument: number;
  /** Texts of each argument, the first of which is the table. */
  readonly texts: string[];
  /** The keys of the row in which the caret is. */
  keys: string[];
  /** The key whose value comes; null: a key comes. */
  key: string | null;
  /** The word that was read last, which may become a key. */
  word: string;
  closed: boolean;
}

const closers: Readonly<Record<string, string>> = { '(': ')', '[': ']', '{': '}' };

/** In a row, or in one of a list of rows, and in nothing that lies within it. */
const isInRow = ({ open, argument }: Scan): boolean => argument === 1 && ['{', '[{'].includes(open.join(''));

const onComma = (scan: Scan): void => {
  if (scan.open.length === 0) scan.argument += 1;
  if (isInRow(scan)) scan.key = null;
  scan.word = '';
};

const onColon = (scan: Scan): void => {
  if (!isInRow(scan) || scan.key !== null) return;
  scan.key = scan.word;
  scan.keys.push(scan.word);
  scan.word = '';
};

const onBracket = (scan: Scan, char: string): void => {
  if (char in closers) {
    scan.open.push(char);
    if (isInRow(scan)) [scan.keys, scan.key] = [[], null];
  } else if (scan.open.length === 0) scan.closed = true;
  else scan.open.pop();
  scan.word = '';
};

const onText = (scan: Scan, text: string): void => {
  if (scan.open.length === 0) scan.texts[scan.argument] = text;
  scan.word = text;
};

/** One character outside of texts. */
const onCode = (scan: Scan, char: string, before: string): void => {
  if (/[([{)\]}]/.test(char)) onBracket(scan, char);
  else if (char === ',') onComma(scan);
  else if (char === ':') onColon(scan);
  else if (/[\w$]/.test(char)) scan.word = /[\w$]/.test(before) ? scan.word + char : char;
  else if (/\S/.test(char)) scan.word = '';
};

/** Reads the arguments up to the caret. */
const scanArgs = (args: string): Scan => {
  const [open, texts, keys]: [string[], string[], string[]] = [[], [], []];
  const scan: Scan = { open, quote: null, from: 0, argument: 0, texts, keys, key: null, word: '', closed: false };
  for (let at = 0; at < args.length && !scan.closed; at += 1) {
    const char = args.charAt(at);
    if (scan.quote === null && /['"`]/.test(char)) [scan.quote, scan.from] = [char, at + 1];
    else if (scan.quote === null) onCode(scan, char, args.charAt(at - 1));
    else if (char === '\\') at += 1;
    else if (char === scan.quote) {
      onText(scan, args.slice(scan.from, at));
      scan.quote = null;
    }
  }
  return scan;
};

const lastWord = (text: string): string => /[\w$]*$/.exec(text)?.[0] ?? '';

/** In the row of an insert or an update: the key or its value. */
const placeInRow = (args: string, scan: Scan, table: string): CallPlace | null => {
  if (!isInRow(scan)) return null;
  const { quote, key: column, keys: used } = scan;
  const typed = quote === null ? lastWord(args) : args.slice(scan.from);
  if (column === null) return { kind: 'key', table, typed, quote, used };
  return { kind: 'value', table, column, typed, quote };
};

/** @param before the code up to the caret, or the end of it */
export const placeAt = (before: string): CallPlace | null => {
  const call = lastCall(before);
  if (call === null) return null;
  const { method, args } = call;
  const scan = scanArgs(args);
  if (scan.closed) return null;
  const isInText = scan.quote !== null && scan.open.length === 0;
  const [table] = scan.texts;
  if (scan.argument === 0) return isInText ? { kind: 'table', typed: args.slice(scan.from) } : null;
  if (table === undefined) return null;
  if (isInText && scan.argument === whereAt[method])
    return { kind: 'where', table, typed: lastWord(args.slice(scan.from)) };
  return hasRow(method) ? placeInRow(args, scan, table) : null;
};
