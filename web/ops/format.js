import { h, setText } from './dom.js';

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });
const absolute = new Intl.DateTimeFormat('en', { dateStyle: 'medium', timeStyle: 'long' });

const unknown = '–';

/** 1234567 as 1,234,567; null as a dash. */
export const number = (value) => (value === null || value === undefined ? unknown : whole.format(value));

/** As above, shortened from 100,000 on. */
export const compact = (value) =>
  value === null || value === undefined ? unknown : (value < 100_000 ? whole : short).format(value);

const units = [
  [86_400, 'd'],
  [3600, 'h'],
  [60, 'min'],
];

/** Seconds in words of one unit, such as 3.2 s, 14 min or 2 d. */
export const seconds = (value) => {
  if (value === null || value === undefined) return unknown;
  for (const [size, unit] of units) if (value >= size) return `${Math.floor(value / size)} ${unit}`;
  if (value < 0.9995) return `${Math.round(value * 1000)} ms`;
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} s`;
};

export const milliseconds = (value) => (value === null || value === undefined ? unknown : seconds(value / 1000));

const relative = (date) => {
  const away = (Date.now() - date.getTime()) / 1000;
  const text = seconds(Math.max(1, Math.floor(Math.abs(away))));
  if (Math.abs(away) < 1.5) return 'now';
  return (away > 0 ? `${text} ago` : `in ${text}`).replace('.0 ', ' ');
};

/** A time as "5 s ago" that stays true, with the whole date as its title. */
export const when = (iso) => {
  if (iso === null || iso === undefined) return h('span', {}, unknown);
  const date = new Date(iso);
  return h('time', { datetime: iso, title: absolute.format(date), 'data-relative': true }, relative(date));
};

/** Keeps every shown time true; called once a second. */
export const refreshTimes = () => {
  for (const node of document.querySelectorAll('time[data-relative]')) {
    setText(node, relative(new Date(node.getAttribute('datetime'))));
  }
};

/** The end of an id, enough to tell two apart: ids begin with the time. */
export const shortId = (id) => `…${id.slice(-8)}`;

/** JSON text indented; text that is no JSON, or is cut off, as it is. */
export const pretty = (text) => {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
};
