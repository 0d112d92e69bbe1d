import { type Completion, type CompletionContext, type CompletionResult } from '@codemirror/autocomplete';
import { javascriptLanguage } from '@codemirror/lang-javascript';
import { pythonLanguage } from '@codemirror/lang-python';
import type { Extension } from '@codemirror/state';
import { type KnownColumn, type KnownTables, typeWords } from '../client/known-tables.ts';
import { type CallPlace, placeAt } from '../client/sdk-calls.ts';

type Language = 'javascript' | 'python';

/** The members of each part of the sdk, with their arguments. Names are those of JavaScript; Python has them in snake_case. */
const members: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  sdk: {
    db: 'the project’s database, as its owner',
    asCaller: 'the database as the caller, policies hold',
    log: '(level, message, fields)',
    jobs: 'enqueue runs of functions',
    events: 'emit events of the project',
    storage: 'files of the project',
    flags: 'feature flags',
    step: 'durable steps',
    env: 'variables',
    caller: 'who calls',
    user: 'claims of the signed-in user, or null',
    request: 'the HTTP request, or null',
    attempt: 'which attempt of the job this is',
    projectId: 'the id of the project',
    waitUntil: '(promise)',
  },
  db: {
    select: '(table, where, params)',
    insert: '(table, data)',
    update: '(table, data, where, params)',
    remove: '(table, where, params)',
    query: '(sql, params)',
    queryOne: '(sql, params)',
    transaction: '(work)',
  },
  asCaller: { db: 'the database as the caller' },
  jobs: { enqueue: '(slug, payload, options)', enqueueMany: '(slug, jobs)' },
  events: { emit: '(name, data)' },
  flags: { get: '(key, context, default)' },
  step: {
    run: '(name, work)',
    sleep: '(name, time)',
    sleepUntil: '(name, time)',
    waitForEvent: '(name, options)',
    all: '(steps)',
  },
};

const snake = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

const membersOf = (owner: string, language: Language): Readonly<Record<string, string>> | undefined => {
  const name = owner === 'as_caller' ? 'asCaller' : owner;
  if (!Object.hasOwn(members, name)) return undefined;
  const found = Object.entries(members[name] ?? {});
  return Object.fromEntries(found.map(([member, detail]) => [language === 'python' ? snake(member) : member, detail]));
};

const isName = /^[A-Za-z_$][\w$]*$/;

/** A text as the language writes it. */
const quoted = (text: string): string => `'${text.replaceAll(/[\\']/g, String.raw`\$&`)}'`;

/** Within quotes a name stands as it is; a key of JavaScript needs none where it is a word. */
const keyText = (name: string, quote: string | null, language: Language): string => {
  if (quote !== null) return name;
  return language === 'javascript' && isName.test(name) ? name : quoted(name);
};

const valuesOf = ({ type, values }: KnownColumn, quote: string | null, language: Language): Completion[] => {
  const words = language === 'python' ? ['True', 'False'] : ['true', 'false'];
  if (type === 'boolean') return quote === null ? words.map((label) => ({ label, type: 'keyword' })) : [];
  return (values ?? []).map((value) => ({
    label: value,
    detail: type,
    type: 'enum',
    apply: quote === null ? quoted(value) : value,
  }));
};

const columnOption = (column: KnownColumn, apply: string): Completion => ({
  label: column.name,
  detail: typeWords(column),
  type: 'property',
  apply,
});

/** The options at a place of a call: tables, columns with their types, values of enums. */
export const optionsAt = (place: CallPlace, tables: KnownTables, language: Language): Completion[] => {
  if (place.kind === 'table')
    return Object.entries(tables).map(([label, columns]) => ({
      label,
      detail: columns.length === 1 ? '1 column' : `${columns.length} columns`,
      type: 'class',
    }));
  const columns = Object.hasOwn(tables, place.table) ? (tables[place.table] ?? []) : [];
  if (place.kind === 'where') return columns.map((column) => columnOption(column, column.name));
  if (place.kind === 'key')
    return columns
      .filter(({ name }) => !place.used.includes(name))
      .map((column) => columnOption(column, keyText(column.name, place.quote, language)));
  const column = columns.find(({ name }) => name === place.column);
  return column === undefined ? [] : valuesOf(column, place.quote, language);
};

/** More than the arguments of most calls have. */
const maxCharsBefore = 4000;

/** Completes the members of the sdk, tables of the project, their columns and the values of enums, within functions. */
export const sdkCompletion = (language: Language, tables: KnownTables): Extension => {
  const complete = ({ state, pos }: CompletionContext): CompletionResult | null => {
    const before = state.sliceDoc(Math.max(0, pos - maxCharsBefore), pos);
    const place = placeAt(before);
    const fitting = place === null ? [] : optionsAt(place, tables, language);
    if (place !== null && fitting.length > 0) return { from: pos - place.typed.length, options: fitting };
    const [, owner = '', typed = ''] = /\b(\w+)\.(\w*)$/.exec(before) ?? [];
    const known = membersOf(owner, language);
    if (known === undefined) return null;
    const options = Object.entries(known).map(([label, detail]) => ({ label, detail, type: 'property' }));
    return { from: pos - typed.length, options };
  };
  return (language === 'python' ? pythonLanguage : javascriptLanguage).data.of({ autocomplete: complete });
};
