import { ServiceError } from '#lib/errors.ts';

/** When a schedule fires, in the local time of its zone. Lists are sorted and never empty. */
export interface CronExpression {
  readonly seconds: readonly number[];
  readonly minutes: readonly number[];
  readonly hours: readonly number[];
  readonly daysOfMonth: ReadonlySet<number>;
  readonly months: ReadonlySet<number>;
  /** 0 is Sunday. */
  readonly daysOfWeek: ReadonlySet<number>;
  /** Both day fields are restricted, so that either may match. Otherwise both must, as in Debian's cron. */
  readonly eitherDay: boolean;
  /** Hour and minute do not begin with `*`: such times are made up for when the clock skips them (see next-fire.ts). */
  readonly fixedTime: boolean;
}

interface Field {
  readonly name: string;
  readonly min: number;
  readonly max: number;
  readonly words?: readonly string[];
}

const monthWords = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];
const dayWords = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'];

const fields: readonly Field[] = [
  { name: 'second', min: 0, max: 59 },
  { name: 'minute', min: 0, max: 59 },
  { name: 'hour', min: 0, max: 23 },
  { name: 'day of month', min: 1, max: 31 },
  { name: 'month', min: 1, max: 12, words: monthWords },
  { name: 'day of week', min: 0, max: 7, words: dayWords },
];

const nicknames: Readonly<Record<string, string>> = {
  '@yearly': '0 0 1 1 *',
  '@annually': '0 0 1 1 *',
  '@monthly': '0 0 1 * *',
  '@weekly': '0 0 * * 0',
  '@daily': '0 0 * * *',
  '@midnight': '0 0 * * *',
  '@hourly': '0 * * * *',
};

/** A request whose field is wrong: the body of a 400. */
export const invalidField = (path: string, message: string): ServiceError =>
  new ServiceError('validation_failed', 'The body is not valid.', { details: [{ path, message }] });

const wrong = (message: string): ServiceError => invalidField('schedule', message);

const numberIn = ({ name, min, max, words }: Field, text: string): number => {
  const word = words?.indexOf(text.toLowerCase()) ?? -1;
  if (word >= 0) return word + min;
  const value = /^\d{1,2}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= min && value <= max) return value;
  const or = words ? `, or one of ${words.join(', ').toUpperCase()}` : '';
  throw wrong(`${name}: "${text}" is not a number from ${min} to ${max}${or}`);
};

const stepIn = ({ name, min, max }: Field, text: string | undefined): number => {
  if (text === undefined) return 1;
  const step = /^\d{1,3}$/.test(text) ? Number(text) : 0;
  if (step >= 1 && step <= max - min + 1) return step;
  throw wrong(`${name}: "/${text}" is not a step from 1 to ${max - min + 1}`);
};

/** The last value of a range. SUN ends a week as well as it begins one. */
const endOf = (field: Field, first: number, text: string): number => {
  const last = numberIn(field, text);
  return field.words === dayWords && last === 0 && first > 0 ? 7 : last;
};

const rangeIn = (field: Field, range: string, stepped: boolean): readonly [number, number] => {
  // The week has 7 days: 7 is a second name for Sunday.
  const max = field.words === dayWords ? 6 : field.max;
  if (range === '*') return [field.min, max];
  const [first = '', last, ...rest] = range.split('-');
  if (rest.length > 0) throw wrong(`${field.name}: "${range}" is not a range`);
  const from = numberIn(field, first);
  const to = last === undefined ? (stepped ? Math.max(from, max) : from) : endOf(field, from, last);
  if (to < from) throw wrong(`${field.name}: the range "${range}" ends before it begins`);
  return [from, to];
};

const partOf = (field: Field, part: string): number[] => {
  const [range = '', stepText, ...rest] = part.split('/');
  if (range === '' || rest.length > 0) throw wrong(`${field.name}: "${part}" is not a value, a range or a step`);
  const step = stepIn(field, stepText);
  const [from, to] = rangeIn(field, range, stepText !== undefined);
  return Array.from({ length: Math.floor((to - from) / step) + 1 }, (_, index) => from + index * step);
};

const valuesOf = (field: Field, text: string): number[] => {
  const values = text.split(',').flatMap((part) => partOf(field, part));
  const days = field.words === dayWords ? values.map((day) => day % 7) : values;
  return [...new Set(days)].toSorted((a, b) => a - b);
};

const wordsOf = (text: string): string[] => {
  const trimmed = text.trim();
  const known = trimmed.startsWith('@') ? nicknames[trimmed.toLowerCase()] : trimmed;
  if (known === undefined) throw wrong(`"${trimmed}" is none of ${Object.keys(nicknames).join(', ')}`);
  const words = known.split(/\s+/);
  if (words.length !== 5 && words.length !== 6) {
    throw wrong('needs five fields (minute, hour, day of month, month, day of week), or six with the second first');
  }
  return words.length === 5 ? ['0', ...words] : words;
};

/**
 * Reads five fields, six with seconds first, or `@daily` and the like.
 * @throws {ServiceError} `validation_failed`, naming the field
 */
export const parseExpression = (text: string): CronExpression => {
  const words = wordsOf(text);
  const [seconds = [], minutes = [], hours = [], daysOfMonth, months, daysOfWeek] = fields.map((field, index) =>
    valuesOf(field, words[index] ?? ''),
  );
  const starred = (index: number): boolean => words[index]?.startsWith('*') ?? false;
  return {
    seconds,
    minutes,
    hours,
    daysOfMonth: new Set(daysOfMonth),
    months: new Set(months),
    daysOfWeek: new Set(daysOfWeek),
    eitherDay: !starred(3) && !starred(5),
    fixedTime: !starred(1) && !starred(2),
  };
};

const gaps = (values: readonly number[]): number[] =>
  values.slice(1).map((value, index) => value - (values[index] ?? 0));

const hasNeighbours = (values: readonly number[], max: number): boolean =>
  gaps(values).includes(1) || (values.includes(0) && values.includes(max));

/** Whether two minutes that follow each other both fire. */
const firesInNextMinute = ({ minutes, hours }: CronExpression): boolean =>
  gaps(minutes).includes(1) || (minutes.includes(0) && minutes.includes(59) && hasNeighbours(hours, 23));

/** The shortest time between two fires, in seconds; 60 stands for a minute or more. */
export const minIntervalSeconds = (expression: CronExpression): number => {
  const { seconds } = expression;
  const [first = 0, last = 0] = [seconds[0], seconds.at(-1)];
  const overTheMinute = firesInNextMinute(expression) ? [60 - last + first] : [];
  return Math.min(60, ...gaps(seconds), ...overTheMinute);
};
