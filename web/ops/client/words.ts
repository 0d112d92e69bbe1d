const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });

const unknown = '–';

/** 1234567 as 1,234,567; null as a dash. */
export const numberText = (value: number | null): string => (value === null ? unknown : whole.format(value));

/** As above, shortened from 100,000 on. */
export const compactText = (value: number | null): string =>
  value === null ? unknown : (value < 100_000 ? whole : short).format(value);

const units = [
  [86_400, 'd'],
  [3600, 'h'],
  [60, 'min'],
] as const;

/** Seconds in one unit, such as 3.2 s, 14 min or 2 d. */
export const secondsText = (value: number | null): string => {
  if (value === null) return unknown;
  for (const [size, unit] of units) if (value >= size) return `${Math.floor(value / size)} ${unit}`;
  if (value < 0.9995) return `${Math.round(value * 1000)} ms`;
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} s`;
};

export const millisecondsText = (value: number | null): string => secondsText(value === null ? null : value / 1000);

/** How long ago a time is at `now`, or how far ahead, in words. */
export const agoText = (at: number, now: number): string => {
  const away = (now - at) / 1000;
  if (Math.abs(away) < 1.5) return 'now';
  const text = secondsText(Math.floor(Math.abs(away))).replace('.0 ', ' ');
  return away > 0 ? `${text} ago` : `in ${text}`;
};

/** `1 job`, `2 jobs`. */
export const countText = (count: number, one: string, many = `${one}s`): string =>
  `${numberText(count)} ${count === 1 ? one : many}`;

/** The names as English lists them: a, b, and c. */
export const listText = (names: readonly string[]): string => new Intl.ListFormat('en').format(names);

/** The end of an id, enough to tell two apart: ids begin with the time. */
export const shortId = (id: string): string => `…${id.slice(-8)}`;

/** JSON indented; a text that is no JSON, or is cut off, as it is. */
export const indented = (text: string): string => {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
};

const badStatuses = new Set(['failed', 'dead']);
const warningStatuses = new Set(['cancelled', 'expired', 'skipped', 'unknown']);
const goodStatuses = new Set(['succeeded', 'sent']);

/** The class of a tag that names the status of a job, a fire or a mail. */
export const statusClass = (status: string): string => {
  if (goodStatuses.has(status)) return 'tag good';
  if (badStatuses.has(status)) return 'tag bad';
  if (warningStatuses.has(status)) return 'tag warn';
  return status === 'running' ? 'tag info' : 'tag';
};
