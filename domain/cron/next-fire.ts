/// <reference lib="esnext.temporal" />
import { type CronExpression, invalidField } from './expression.ts';

/*
 * Which instants a schedule fires at. Local time is calculated with as if it were UTC; where the zone's offset changes,
 * Debian's cron is followed: a fixed time that the clock skips fires right after the jump, one that comes twice fires the
 * first time; with `*` in the hour or minute only the clock as it stands counts, so such schedules follow elapsed time.
 * Instants and local times are in ms.
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
