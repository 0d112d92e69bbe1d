import { LRUCache } from 'lru-cache';
import type { Document } from './document.ts';
import { hasValues, seenOf } from './inputs.ts';
import type { Fields } from './literals.ts';
import type { CompiledQuery, Operation } from './operation.ts';

// The bounds of the whole process: a client that sends large documents evicts others' documents, and gets no more than
// this.
const maxBytes = 32 * 1024 * 1024;
/** The longest text of a cached document. */
const maxDocumentLength = 20_000;
/**
 * The longest cached statement, with its values and the variables that it was compiled for; larger ones are compiled
 * each time.
 */
const maxStatementLength = 16_384;
/** The longest cached answer about the schema, in characters. */
const maxAnswerLength = 1024 * 1024;
/** Statements of one document: what variables decide about makes several. */
const maxStatements = 8;
/** Roles that see different tables. */
const maxAnswers = 2;
// A parsed document holds 75 bytes for each letter that people write, and 200 where only fields stand.
const bytesForLetter = 100;

interface Statement {
  readonly operation: Operation;
  /** `seenOf` the variables that it was made for. */
  readonly seen: string;
  readonly compiled: CompiledQuery;
  readonly bytes: number;
}

interface Answer {
  readonly operation: Operation;
  /** The tables that the answer describes. */
  readonly about: string;
  readonly texts: ReadonlyMap<string, string>;
  readonly bytes: number;
}

interface Entry {
  readonly document: Document;
  readonly letters: number;
  readonly statements: readonly Statement[];
  readonly answers: readonly Answer[];
}

/** Documents, and what was made of them. Small things only, and so many bytes of them altogether. */
export interface DocumentCache {
  readonly document: (key: string) => Document | undefined;
  /** @param key names the schema that it was read with, too */
  readonly keep: (key: string, document: Document) => void;
  readonly statement: (operation: Operation, variables: Fields, make: () => CompiledQuery) => CompiledQuery;
  /**
   * @param about the tables that it describes
   * @param about of which tables it tells
   */
  readonly answer: (operation: Operation, about: string, make: () => Answer['texts']) => Answer['texts'];
}

const sum = (list: readonly { readonly bytes: number }[]): number =>
  list.reduce((total, { bytes }) => total + bytes, 0);

const sizeOf = ({ letters, statements, answers }: Entry): number =>
  letters * bytesForLetter + 2 * (sum(statements) + sum(answers)) + 1;

const lettersOf = (texts: Iterable<string | null>): number => {
  let letters = 0;
  for (const text of texts) letters += text?.length ?? 0;
  return letters;
};

const withStatement = (entry: Entry, made: Statement): Entry => ({
  ...entry,
  statements: [made, ...entry.statements].slice(0, maxStatements),
});

const withAnswer = (entry: Entry, made: Answer): Entry => ({
  ...entry,
  answers: [made, ...entry.answers].slice(0, maxAnswers),
});

const findStatement = ({ statements }: Entry, operation: Operation, variables: Fields): CompiledQuery | undefined => {
  // Variables may be large: those of several statements are written out once.
  const written = new Map<string, string>();
  const isSeen = ({ compiled: { trace }, seen }: Statement): boolean => {
    const names = [...trace.seen].join(' ');
    const json = written.get(names) ?? seenOf(trace, variables);
    written.set(names, json);
    return json === seen;
  };
  return statements.find(
    (one) => one.operation === operation && hasValues(one.compiled.trace, variables) && isSeen(one),
  )?.compiled;
};

const statementOf = (operation: Operation, variables: Fields, compiled: CompiledQuery): Statement => {
  const seen = seenOf(compiled.trace, variables);
  const { text = '', params = [] } = compiled.sql ?? {};
  return { operation, seen, compiled, bytes: seen.length + text.length + lettersOf(params) };
};

/** @param max bytes */
export const createDocumentCache = (max = maxBytes): DocumentCache => {
  const entries = new LRUCache<string, Entry>({ maxSize: max, sizeCalculation: sizeOf });
  const keys = new WeakMap<Operation, string>();
  const entryOf = (operation: Operation): { readonly key: string; readonly entry: Entry } | undefined => {
    const key = keys.get(operation);
    const entry = key === undefined ? undefined : entries.get(key);
    return key === undefined || entry === undefined ? undefined : { key, entry };
  };
  return {
    document: (key) => entries.get(key)?.document,
    keep: (key, document) => {
      if (key.length > maxDocumentLength) return;
      for (const operation of document.operations) keys.set(operation, key);
      entries.set(key, { document, letters: key.length, statements: [], answers: [] });
    },
    statement: (operation, variables, make) => {
      const known = entryOf(operation);
      const found = known && findStatement(known.entry, operation, variables);
      if (found) return found;
      const compiled = make();
      if (known === undefined) return compiled;
      const made = statementOf(operation, variables, compiled);
      if (made.bytes <= maxStatementLength) entries.set(known.key, withStatement(known.entry, made));
      return compiled;
    },
    answer: (operation, about, make) => {
      const known = entryOf(operation);
      const found = known?.entry.answers.find((one) => one.operation === operation && one.about === about);
      if (found) return found.texts;
      const texts = make();
      const bytes = lettersOf(texts.values()) + about.length;
      // Documents with other values of deciding variables have answers of their own.
      const isFixed = (operation.node.variableDefinitions ?? []).length === 0;
      if (known !== undefined && isFixed && bytes <= maxAnswerLength)
        entries.set(known.key, withAnswer(known.entry, { operation, about, texts, bytes }));
      return texts;
    },
  };
};
