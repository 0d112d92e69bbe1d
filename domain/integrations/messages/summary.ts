import { parseExactJson } from '#lib/json.ts';
import { isProvider, providerFacts } from '../providers.ts';
import type { ChatEvent } from './event.ts';
import { shortened } from './text.ts';

const maxNameLength = 60;
const maxValueLength = 200;
const maxLines = 20;
// A row can have 8 MB: nobody reads them in a chat, and parsing them would hold up other deliveries.
const maxParsed = 256 * 1024;

type Fields = Readonly<Record<string, unknown>>;

const isObject = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const isOf = (value: unknown, name: string): unknown => (isObject(value) ? value[name] : undefined);

/** Razorpay puts what an event is about under its kind: `{"payment":{"entity":{…}}}`. */
const razorpayEntity = (data: Fields): unknown =>
  isOf(Object.values(isObject(data['payload']) ? data['payload'] : {})[0], 'entity');

/** Where providers put what an event is about. */
const subjects: readonly (readonly [prefix: string, find: (data: Fields) => unknown])[] = [
  ['table.', (data) => data['row']],
  ['db.', (data) => data['row']],
  ['payments.stripe.', (data) => isOf(data['data'], 'object')],
  ['payments.paypal.', (data) => data['resource']],
  ['payments.razorpay.', razorpayEntity],
];

const subjectOf = (event: string, data: unknown): unknown => {
  if (!isObject(data)) return data;
  const found = subjects.find(([prefix]) => event.startsWith(prefix))?.[1](data);
  return found ?? data;
};

const oneLine = (value: unknown): string => {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? 'null');
  // Control characters, line breaks and what turns the direction of text would make one field look like several.
  return shortened(
    text.replaceAll(/[\p{Cc}\p{Zl}\p{Zp}\u202A-\u202E\u2066-\u2069]+/gu, ' ').toWellFormed(),
    maxValueLength,
  );
};

// A number that JavaScript cannot hold is an object here, too.
const isNested = ([, value]: readonly [string, unknown]): boolean =>
  typeof value === 'object' && value !== null && /^[[{]/.test(JSON.stringify(value));

/** Plain values first: they say the most in the least room. */
const linesOf = (subject: unknown): string[] => {
  if (!isObject(subject)) return [oneLine(subject)];
  const entries = Object.entries(subject);
  const ordered = [...entries.filter((entry) => !isNested(entry)), ...entries.filter(isNested)];
  const lines = ordered
    .slice(0, maxLines)
    .map(([name, value]) => `${shortened(oneLine(name), maxNameLength)}: ${oneLine(value)}`);
  return entries.length > maxLines ? [...lines, `… and ${entries.length - maxLines} more`] : lines;
};

const parsed = (data: string): unknown => {
  try {
    return parseExactJson(data);
  } catch {
    return data;
  }
};

/** The fields of what an event is about, a line each; nothing in them is escaped. */
export const summaryOf = ({ event, data }: ChatEvent): readonly string[] => {
  if (data === null || data.length > maxParsed) return ['The data of this event are too large to be shown here.'];
  const lines = linesOf(subjectOf(event, parsed(data)));
  return lines.length === 0 ? ['(nothing)'] : lines;
};

const done: ReadonlyMap<string, string> = new Map([
  ['INSERT', 'inserted into'],
  ['UPDATE', 'updated in'],
  ['DELETE', 'deleted from'],
]);

const names: ReadonlyMap<string, string> = new Map([
  ['auth.signup', 'A user signed up'],
  ['auth.login', 'A user signed in'],
  ['auth.password_reset', 'A user set a new password'],
  ['user.created', 'A user was created'],
  ['user.updated', 'A user was changed'],
  ['user.deleted', 'A user was deleted'],
  ['db.insert', 'A row was inserted'],
  ['db.update', 'A row was updated'],
  ['db.delete', 'A row was deleted'],
  ['storage.upload', 'A file was uploaded'],
  ['storage.delete', 'A file was deleted'],
  ['functions.invoked', 'A function ran'],
  ['functions.error', 'A function failed'],
  ['test.ping', 'Test message'],
]);

/** The event in a few words; nothing in them is escaped. */
export const titleOf = (event: string): string => {
  const [, table, op = ''] = /^table\.(.*)\.([A-Z]+)$/s.exec(event) ?? [];
  if (table !== undefined && op === 'TRUNCATE') return `The table ${table} was emptied`;
  if (table !== undefined && done.has(op)) return `A row was ${done.get(op)} ${table}`;
  const [, provider = '', type] = /^payments\.([^.]+)\.(.+)$/s.exec(event) ?? [];
  if (type !== undefined) return `${isProvider(provider) ? providerFacts[provider].label : provider}: ${type}`;
  return names.get(event) ?? event;
};
