/// <reference lib="esnext.temporal" />
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

/*
 * Which instants a schedule fires at. Local time is calculated with as if it were UTC; where the zone's offset changes,
 * Debian's cron is followed: a fixed time that the clock skips fires right after the jump, one that comes twice fires
 * the first time; with `*` in the hour or minute only the clock as it stands counts, so such schedules follow elapsed
 * time. Instants and local times are in ms.
 */

const dayMs = 86_400_000;

// 29 February falls on a given weekday at least once in 40 years, also around 2100.
const horizonMs = 41 * 366 * dayMs;

/** A stretch of time in which the zone's offset stays as it is: from `start` up to, not including, `end`. */
interface Stretch {
  readonly start: number;
  readonly end: number;
  readonly offset: number;
  /** The offset until `start`. */
  readonly offsetBefore: number;
}

const inZone = (ms: number, timezone: string): Temporal.ZonedDateTime =>
  Temporal.Instant.fromEpochMilliseconds(ms).toZonedDateTimeISO(timezone);

const offsetOf = (time: Temporal.ZonedDateTime): number => time.offsetNanoseconds / 1e6;

// Each call into the time zone data costs 1 to 2 µs.
const stretchAt = (ms: number, timezone: string): Stretch => {
  const time = inZone(ms, timezone);
  const start = inZone(ms + 1, timezone).getTimeZoneTransition('previous')?.epochMilliseconds ?? -Infinity;
  const end = time.getTimeZoneTransition('next')?.epochMilliseconds ?? Infinity;
  const offset = offsetOf(time);
  return { start, end, offset, offsetBefore: start === -Infinity ? offset : offsetOf(inZone(start - 1, timezone)) };
};

const ianaName = /^[A-Za-z][\w+-]*(\/[\w+-]+)*$/;

/**
 * The zone's name as the time zone database writes it.
 * @throws {ServiceError} `validation_failed`
 */
export const timeZoneNamed = (name: string): string => {
  try {
    if (ianaName.test(name)) return inZone(0, name).timeZoneId;
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
  }
  throw invalidField('timezone', 'is not a time zone of the IANA database, such as Europe/Berlin');
};

const dayMatches = ({ daysOfMonth, daysOfWeek, eitherDay }: CronExpression, date: Date): boolean => {
  const ofMonth = daysOfMonth.has(date.getUTCDate());
  const ofWeek = daysOfWeek.has(date.getUTCDay());
  return eitherDay ? ofMonth || ofWeek : ofMonth && ofWeek;
};

const secondsOf = (hour: number, minute = 0, second = 0): number => hour * 3600 + minute * 60 + second;

const split = (time: number): [number, number, number] => [
  Math.floor(time / 3600),
  Math.floor(time / 60) % 60,
  time % 60,
];

/** The first time of day, in seconds, from `time` on. */
const timeFrom = ({ hours, minutes, seconds }: CronExpression, time: number): number | null => {
  const [h, m, s] = split(time);
  if (hours.includes(h)) {
    const second = minutes.includes(m) ? seconds.find((value) => value >= s) : undefined;
    if (second !== undefined) return secondsOf(h, m, second);
    const minute = minutes.find((value) => value > m);
    if (minute !== undefined) return secondsOf(h, minute, seconds[0]);
  }
  const hour = hours.find((value) => value > h);
  return hour === undefined ? null : secondsOf(hour, minutes[0], seconds[0]);
};

/** The last time of day, in seconds, up to `time`. */
const timeUpTo = ({ hours, minutes, seconds }: CronExpression, time: number): number | null => {
  const [h, m, s] = split(time);
  if (hours.includes(h)) {
    const second = minutes.includes(m) ? seconds.findLast((value) => value <= s) : undefined;
    if (second !== undefined) return secondsOf(h, m, second);
    const minute = minutes.findLast((value) => value < m);
    if (minute !== undefined) return secondsOf(h, minute, seconds.at(-1));
  }
  const hour = hours.findLast((value) => value < h);
  return hour === undefined ? null : secondsOf(hour, minutes.at(-1), seconds.at(-1));
};

/** The first local time from `from` up to, not including, `to`. */
const firstLocal = (expression: CronExpression, from: number, to: number): number | null => {
  let day = Math.floor(from / dayMs) * dayMs;
  let time = Math.ceil((from - day) / 1000);
  while (day < to) {
    const date = new Date(day);
    const isMonth = expression.months.has(date.getUTCMonth() + 1);
    const found = isMonth && dayMatches(expression, date) ? timeFrom(expression, time) : null;
    if (found !== null) return day + found * 1000 < to ? day + found * 1000 : null;
    day = isMonth ? day + dayMs : Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 1);
    time = 0;
  }
  return null;
};

/** The last local time from `from` up to and including `to`. */
const lastLocal = (expression: CronExpression, from: number, to: number): number | null => {
  let day = Math.floor(to / dayMs) * dayMs;
  let time = Math.floor((to - day) / 1000);
  while (day + dayMs > from) {
    const date = new Date(day);
    const isMonth = expression.months.has(date.getUTCMonth() + 1);
    const found = isMonth && dayMatches(expression, date) ? timeUpTo(expression, time) : null;
    if (found !== null) return day + found * 1000 >= from ? day + found * 1000 : null;
    day = isMonth ? day - dayMs : Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), 0);
    time = 86_399;
  }
  return null;
};

/** Whether a fixed time lies in what the clock skipped at the start of the stretch. */
const makesUpAtStart = (expression: CronExpression, { start, offset, offsetBefore }: Stretch): boolean =>
  expression.fixedTime &&
  offset > offsetBefore &&
  firstLocal(expression, start + offsetBefore, start + offset) !== null;

/** From which local time on a stretch counts: fixed times do not fire again in what comes twice. */
const localStart = ({ fixedTime }: CronExpression, { start, offset, offsetBefore }: Stretch): number =>
  start + (fixedTime ? Math.max(offset, offsetBefore) : offset);

/** The first instant after `after`; null when there is none in 41 years, that is, never. */
export const fireAfter = (expression: CronExpression, timezone: string, after: number): number | null => {
  const limit = after + horizonMs;
  let from = Math.floor(after / 1000) * 1000 + 1000;
  while (from < limit) {
    const stretch = stretchAt(from, timezone);
    if (from === stretch.start && makesUpAtStart(expression, stretch)) return from;
    const min = Math.max(from + stretch.offset, localStart(expression, stretch));
    const local = firstLocal(expression, min, Math.min(stretch.end, limit) + stretch.offset);
    if (local !== null) return local - stretch.offset;
    from = stretch.end;
  }
  return null;
};

/** The last instant up to and including `upTo`; null when there was none in 41 years. */
export const fireUpTo = (expression: CronExpression, timezone: string, upTo: number): number | null => {
  const limit = upTo - horizonMs;
  let to = Math.floor(upTo / 1000) * 1000;
  while (to > limit) {
    const stretch = stretchAt(to, timezone);
    const min = Math.max(limit + stretch.offset, localStart(expression, stretch));
    const local = lastLocal(expression, min, to + stretch.offset);
    if (local !== null) return local - stretch.offset;
    if (makesUpAtStart(expression, stretch)) return stretch.start;
    to = stretch.start - 1000;
  }
  return null;
};
