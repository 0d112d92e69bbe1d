'use strict';
const { inspect } = require('./inspect.cjs');
const { table } = require('./table.cjs');

/** The bound of a run's log, in UTF-16 units; outside, bytes are counted once more. */
const maxTotal = 256 * 1024;
const lineCost = 32;
const maxLine = 16 * 1024;
const maxIndent = 40;

/** The methods of `console` that people use; each call is one line of the log, at one of four levels. */
function createConsole(write) {
  let total = 0;
  let indent = '';
  const line = (level, text) => {
    if (total > maxTotal) return;
    const cut = text.length > maxLine ? `${text.slice(0, maxLine)}… [${text.length - maxLine} characters cut]` : text;
    const bounded = indent === '' ? cut : cut.replaceAll(/^/gm, indent);
    total += bounded.length + lineCost;
    write(total > maxTotal ? 'cut' : level, bounded);
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
  return {
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

module.exports = { createConsole };
