'use strict';
const { inspect } = require('./inspect.cjs');
const { table } = require('./table.cjs');

/** The bound of a run's log, in UTF-16 units; outside, bytes are counted once more. */
const maxTotal = 256 * 1024;
const lineCost = 32;
const maxLine = 16 * 1024;
const maxIndent = 40;
const levels = new Set(['debug', 'info', 'warn', 'error']);
/** In UTF-16 units of JSON. */
const maxFields = 8 * 1024;

/**
 * The methods of `console` that people use, and `log` for lines with fields; each call is one line of the log, at one of
 * four levels.
 */
function createLog(write) {
  let total = 0;
  let indent = '';
  const line = (level, text, fields) => {
    if (total > maxTotal) return;
    const cut = text.length > maxLine ? `${text.slice(0, maxLine)}… [${text.length - maxLine} characters cut]` : text;
    const bounded = indent === '' ? cut : cut.replaceAll(/^/gm, indent);
    total += bounded.length + (fields?.length ?? 0) + lineCost;
    write(total > maxTotal ? 'cut' : level, bounded, fields);
  };
  const at =
    (level) =>
    (...args) => {
      // Beyond the limit nothing is kept, so nothing is formatted either.
      if (total <= maxTotal) line(level, format(args));
    };
  const group = (...args) => {
    if (args.length > 0) line('info', format(args));
    if (indent.length < maxIndent) indent += '  ';
  };
  const console = {
    log: at('info'),
    info: at('info'),
    debug: at('debug'),
    warn: at('warn'),
    error: at('error'),
    dir: (value) => line('info', inspect(value)),
    dirxml: at('info'),
    table: (data, columns) => line('info', table(data, columns) ?? format([data])),
    group,
    groupCollapsed: group,
    groupEnd: () => void (indent = indent.slice(2)),
    trace: (...args) => line('debug', new Error(format(args)).stack.replace(/^Error/, 'Trace')),
    assert: (condition, ...args) => (condition ? undefined : line('error', failed(args))),
    ...createMeters((text) => line('info', text)),
  };
  const log = (level, message, fields) => {
    if (!levels.has(level)) throw new TypeError(`sdk.log: the level is one of ${[...levels].join(', ')}`);
    if (total > maxTotal) return;
    const { text, why } = fieldsOf(fields);
    line(level, (typeof message === 'string' ? message : inspect(message)) + why, text);
  };
  return { console, log };
}

/** A line is written in any case: fields that cannot be sent are left out, and the line says so. */
function fieldsOf(fields) {
  if (fields === undefined || fields === null) return { why: '' };
  try {
    const text = JSON.stringify(fields, (_, value) => (typeof value === 'bigint' ? String(value) : value));
    if (typeof text !== 'string' || !text.startsWith('{')) return { why: ' [fields left out: not an object]' };
    if (text.length > maxFields) return { why: ` [fields left out: ${text.length} characters]` };
    return { text, why: '' };
  } catch {
    return { why: ' [fields left out: JSON cannot hold them]' };
  }
}

/** `count` and `time`, by their labels. */
function createMeters(say) {
  const counts = new Map();
  const timers = new Map();
  const elapsed = (label, ...args) => {
    if (!timers.has(label)) return;
    say([`${label}: ${Date.now() - timers.get(label)}ms`, ...args.map((value) => inspect(value))].join(' '));
  };
  return {
    count: (label) => {
      const name = nameOf(label);
      counts.set(name, (counts.get(name) ?? 0) + 1);
      say(`${name}: ${counts.get(name)}`);
    },
    countReset: (label) => void counts.delete(nameOf(label)),
    time: (label = 'default') => void timers.set(label, Date.now()),
    timeLog: (label = 'default', ...args) => elapsed(label, ...args),
    timeEnd: (label = 'default') => {
      elapsed(label);
      timers.delete(label);
    },
  };
}

const nameOf = (label) => (label === undefined ? 'default' : String(label));

const failed = (args) => {
  const [first, ...rest] = args;
  if (typeof first === 'string') return format([`Assertion failed: ${first}`, ...rest]);
  return format(['Assertion failed', ...args]);
};

/** `%s`, `%d`, `%i`, `%f`, `%j`, `%o` and `%O` of a first string take the values that follow it. */
function format(args) {
  const [first, ...values] = args;
  if (typeof first !== 'string') return args.map((value) => inspect(value)).join(' ');
  const text = first.replace(/%[sdifjoOc%]/g, (mark) => {
    if (mark === '%%') return '%';
    return values.length === 0 ? mark : substitute(mark, values.shift());
  });
  return [text, ...values.map((value) => inspect(value))].join(' ');
}

function substitute(mark, value) {
  switch (mark) {
    case '%d':
    case '%f':
      return String(Number(value));
    case '%i':
      return String(Math.trunc(Number(value)));
    case '%j':
      return JSON.stringify(value) ?? 'undefined';
    case '%c':
      return '';
    default:
      return inspect(value);
  }
}

module.exports = { createLog };
