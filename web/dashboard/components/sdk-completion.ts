import { type CompletionContext, type CompletionResult } from '@codemirror/autocomplete';
import { javascriptLanguage } from '@codemirror/lang-javascript';
import { pythonLanguage } from '@codemirror/lang-python';
import type { Extension } from '@codemirror/state';

type Language = 'javascript' | 'python';
type Tables = Readonly<Record<string, readonly string[]>>;

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

/** After `db.select('`: tables. Within the object that is inserted or updated: columns of that table. */
const inCall = (
  before: string,
  tables: Tables,
): { readonly from: number; readonly options: readonly string[] } | null => {
  const name = /\b(?:db|tx)\.(?:select|insert|update|remove|delete)\(\s*['"](\w*)$/.exec(before);
  if (name) return { from: before.length - (name[1]?.length ?? 0), options: Object.keys(tables) };
  const column = /\b(?:db|tx)\.(?:insert|update)\(\s*['"](\w+)['"],\s*\{[^}]*?['"]?(\w*)$/.exec(before);
  if (column === null) return null;
  return { from: before.length - (column[2]?.length ?? 0), options: tables[column[1] ?? ''] ?? [] };
};

const maxCharsBefore = 300;

/** Completes the members of the sdk, tables of the project and their columns, within functions. */
export const sdkCompletion = (language: Language, tables: Tables): Extension => {
  const complete = ({ state, pos }: CompletionContext): CompletionResult | null => {
    const start = Math.max(0, pos - maxCharsBefore);
    const before = state.sliceDoc(start, pos);
    const found = inCall(before, tables);
    if (found !== null)
      return { from: start + found.from, options: found.options.map((label) => ({ label, type: 'property' })) };
    const [, owner = '', typed = ''] = /\b(\w+)\.(\w*)$/.exec(before) ?? [];
    const known = membersOf(owner, language);
    if (known === undefined) return null;
    const options = Object.entries(known).map(([label, detail]) => ({ label, detail, type: 'property' }));
    return { from: pos - typed.length, options };
  };
  return (language === 'python' ? pythonLanguage : javascriptLanguage).data.of({ autocomplete: complete });
};
