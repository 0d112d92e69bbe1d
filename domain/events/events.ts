/*
 * Events: what webhooks may subscribe to, and how writes to tables become events. The way through this folder: this
 * file (the catalog, and the check of patterns), subscriptions.ts (which writes of a project leave events), outbox.ts
 * (moving them to the control database), marks.ts (waking the relay and the fan-out).
 */

import { distance, nearest } from '#lib/nearest.ts';
import {
  type TableOperation,
  type TableSubscription,
  tableOperations,
  userEventNames,
  userEventOperation,
} from './subscriptions.ts';

/** One kind of event that a webhook may subscribe to. */
interface EventKind {
  readonly name: string;
  readonly group: EventGroup;
  readonly description: string;
  /** The platform's behaviour when it happens, for the documentation. */
  readonly emittedBy: string;
}

export const eventGroups = [
  'auth',
  'users',
  'database',
  'table',
  'storage',
  'functions',
  'cron',
  'flags',
  'payments',
] as const;
type EventGroup = (typeof eventGroups)[number];

const kind = (name: string, group: EventGroup, description: string, emittedBy: string): EventKind => ({
  name,
  group,
  description,
  emittedBy,
});

const rowWrite = 'a write to a table of schema public, whichever path made it: REST, GraphQL, SQL, a function';

/**
 * Every kind of event: the one place that knows which operation emits which. `GET …/integrations/events`, the check of
 * subscriptions and the table in `docs/webhooks.md` are made from it. `<table>`, `<provider>` and `<type>` stand for
 * names.
 */
export const eventKinds: readonly EventKind[] = [
  kind('auth.signup', 'auth', 'A user of the project signed up.', 'sign-up of a project’s user'),
  kind('auth.login', 'auth', 'A user of the project signed in.', 'sign-in of a project’s user'),
  kind(
    'auth.password_reset',
    'auth',
    'A user of the project set a new password.',
    'password reset of a project’s user',
  ),
  kind('user.created', 'users', 'A user of the project was created.', 'sign-up, or the project’s user administration'),
  kind('user.updated', 'users', 'A user of the project was changed.', 'a change of a project’s user'),
  kind('user.deleted', 'users', 'A user of the project was deleted.', 'deletion of a project’s user'),
  kind('db.insert', 'database', 'A row was inserted into a table.', rowWrite),
  kind('db.update', 'database', 'A row was updated; `old` stands beside `data`.', rowWrite),
  kind('db.delete', 'database', 'A row was deleted.', rowWrite),
  kind('table.<table>.INSERT', 'table', 'A row was inserted into that table.', rowWrite),
  kind('table.<table>.UPDATE', 'table', 'A row of that table was updated; `old` stands beside `data`.', rowWrite),
  kind('table.<table>.DELETE', 'table', 'A row of that table was deleted.', rowWrite),
  kind(
    'table.<table>.TRUNCATE',
    'table',
    'That table was emptied by TRUNCATE: one event, whose `data` is null.',
    'TRUNCATE of a table of schema public',
  ),
  kind('storage.upload', 'storage', 'A file was uploaded.', 'an upload'),
  kind('storage.delete', 'storage', 'A file was deleted.', 'deletion of a file'),
  kind('functions.invoked', 'functions', 'A run of a function ended, however it ended.', 'the end of a run'),
  kind('functions.error', 'functions', 'A run of a function ended badly.', 'the end of a run, but for `success`'),
  kind(
    'functions.dead',
    'functions',
    'A job with a retry policy failed for good.',
    'the last attempt of a job with a retry policy',
  ),
  kind(
    'cron.missed',
    'cron',
    'A fire of a schedule was skipped, or its run did not succeed by its deadline.',
    'a schedule',
  ),
  kind('flag.created', 'flags', 'A feature flag was created.', 'creation or import of a flag'),
  kind('flag.updated', 'flags', 'A feature flag was changed.', 'a change of a flag, by hand, import or schedule'),
  kind('flag.deleted', 'flags', 'A feature flag was deleted.', 'deletion or import of flags'),
  kind(
    'payments.<provider>.<type>',
    'payments',
    'A payment provider reported something: `payments.stripe.invoice.paid`.',
    'a verified call of the provider to `/hooks/{project_id}/{provider}`',
  ),
];

/** Payment providers whose events can be subscribed to, with the names that people read. */
export const paymentProviders: Readonly<Record<string, string>> = {
  stripe: 'Stripe',
  paypal: 'PayPal',
  razorpay: 'Razorpay',
};
const providers = Object.keys(paymentProviders);

const maxPatternLength = 200;
// Names of the server have at most 63 bytes.
const maxTableLength = 63;

const plainNames = eventKinds.map(({ name }) => name).filter((name) => !name.includes('<'));
// By the first word of the names, and by the group as it is listed.
const groupNames = [
  'auth',
  'user',
  'users',
  'db',
  'database',
  'table',
  'storage',
  'functions',
  'cron',
  'flag',
  'payments',
];
const known: ReadonlySet<string> = new Set([...plainNames, ...groupNames.map((group) => `${group}.*`), '*']);

const isOperation = (text: string): text is TableOperation => (tableOperations as readonly string[]).includes(text);

/** A table's name may hold dots: what stands behind the last one is the operation. */
const tableFormOf = (pattern: string): { readonly table: string; readonly op: string } | null => {
  const [, table, op] = /^table\.(.*)\.([^.]*)$/s.exec(pattern) ?? [];
  return table === undefined || op === undefined ? null : { table, op };
};

const meant = (candidate: string | null): string =>
  candidate === null ? '; GET …/integrations/events lists them' : `; did you mean ${candidate}?`;

/** The wildcard for all tables. */
const everyTable = (op: string): string => {
  const name = `db.${op.toLowerCase()}`;
  return plainNames.includes(name) ? name : 'table.*';
};

const faultOfTable = (pattern: string): string | null => {
  const { table, op } = tableFormOf(pattern) ?? { table: pattern.slice('table.'.length), op: null };
  if (table === '') return `names no table${meant(everyTable(op ?? '*'))}`;
  if (/[*%]/.test(table)) return `names no table: for all of them there is another name${meant(everyTable(op ?? '*'))}`;
  if (op === null) return `names no operation${meant(`${pattern}.*`)}`;
  if (Buffer.byteLength(table) > maxTableLength) return `a table's name has at most ${maxTableLength} bytes`;
  if (isOperation(op) || op === '*') return null;
  return `the operation must be INSERT, UPDATE, DELETE, TRUNCATE or *${meant(`table.${table}.${nearest(op, tableOperations) ?? '*'}`)}`;
};

const faultOfPayment = (pattern: string): string | null => {
  const [, provider = '', ...type] = pattern.split('.');
  if (!providers.includes(provider)) {
    const near = nearest(provider, providers);
    const rest = type.length > 0 ? type.join('.') : '*';
    return `there is no payment provider of that name${meant(near && `payments.${near}.${rest}`)}`;
  }
  if (type.length === 0) return `names no type${meant(`${pattern}.*`)}`;
  return /^[\w:-]+(\.[\w:-]+)*(\.\*)?$|^\*$/.test(type.join('.')) ? null : 'is no type of a payment event';
};

const customNameForm = /^[a-z][a-z0-9_.]{0,99}$/;
// `test.ping` is sent to one webhook, whatever it subscribes to.
const reservedGroups: ReadonlySet<string> = new Set([...groupNames, ...eventGroups, 'test']);

/** Why a project's own events cannot have that name; null: they can. */
export const faultOfCustomName = (name: string): string | null => {
  if (!customNameForm.test(name)) return 'must be a lower-case letter, then at most 99 of a-z, 0-9, _ and .';
  const [group = ''] = name.split('.');
  return reservedGroups.has(group) ? `must not begin with ${group}: those are events of the platform` : null;
};

/** A name so near to one of the catalog is rather a mistake than an event of the project's own. */
const slipLetters = 2;
const isSlip = (name: string): boolean =>
  name.includes('.') &&
  plainNames.some(
    (plain) => Math.abs(plain.length - name.length) <= slipLetters && distance(plain, name) <= slipLetters,
  );

/** `order.paid` and `order.*`, which are no names of the catalog. */
const isOwn = (pattern: string): boolean =>
  faultOfCustomName(pattern.endsWith('.*') ? pattern.slice(0, -2) : pattern) === null && !isSlip(pattern);

/**
 * Returns the problem of a name that a webhook or a trigger wants to subscribe to, null when there is none. Known are the
 * names of the catalog, `*`, a group and `.*`, `table.<table>.<operation>` and `table.<table>.*`, names that begin with
 * `payments.<provider>.`, and those that a project may give to events of its own.
 */
export const faultOfPattern = (pattern: string): string | null => {
  if (known.has(pattern) || isOwn(pattern)) return null;
  if (pattern.length > maxPatternLength) return `must be at most ${maxPatternLength} characters`;
  if (pattern.startsWith('table.')) return faultOfTable(pattern);
  if (pattern.startsWith('payments.')) return faultOfPayment(pattern);
  return `is no event${meant(nearest(pattern, known))}`;
};

const everything: TableSubscription = { table: null, op: null };
const ofEveryTable: ReadonlySet<string> = new Set(['*', 'db.*', 'database.*', 'table.*']);

const subscriptionOf = (pattern: string): TableSubscription | null => {
  if (ofEveryTable.has(pattern)) return everything;
  if (pattern.startsWith('db.')) {
    const op = pattern.slice('db.'.length).toUpperCase();
    return isOperation(op) ? { table: null, op } : null;
  }
  const form = tableFormOf(pattern);
  return form && { table: form.table, op: isOperation(form.op) ? form.op : null };
};

// They become constants of a function that each write calls. With more of them, all writes emit events, and those
// without a subscriber are dropped when they are taken.
const maxSubscriptions = 2000;

const writesOf = (patterns: readonly string[]): readonly TableSubscription[] => {
  const wanted = new Map<string, TableSubscription>();
  for (const pattern of patterns) {
    const subscription = subscriptionOf(pattern);
    if (subscription === everything) return [everything];
    if (subscription) wanted.set(`${subscription.op ?? '*'} ${subscription.table ?? ''}`, subscription);
  }
  return wanted.size > maxSubscriptions ? [everything] : [...wanted.values()];
};

/** The patterns that an event of users or files answers to; `users.*` is the group of `user.*`. */
const patternsOfUserEvent = (name: string): readonly string[] =>
  name.startsWith('user.') ? ['*', name, 'user.*', 'users.*'] : ['*', name, `${name.split('.')[0]}.*`];

/** The subscriptions of patterns as the project's database stores them: writes to tables, and events of its users and files. */
export const tableSubscriptionsOf = (patterns: Iterable<string>): readonly TableSubscription[] => {
  const given = new Set(patterns);
  const events = userEventNames.filter((name) => patternsOfUserEvent(name).some((pattern) => given.has(pattern)));
  return [...writesOf([...given]), ...events.map((table) => ({ table, op: userEventOperation }) as const)];
};
