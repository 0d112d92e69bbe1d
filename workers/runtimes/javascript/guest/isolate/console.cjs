'use strict';
const { inspect } = require('./inspect.cjs');

/** What one run may log, in UTF-16 units; outside, bytes are counted once more. */
const maxTotal = 256 * 1024;
const lineCost = 32;
const maxLine = 16 * 1024;

/** The methods of `console` that people use, each one line at one of four levels. */
function createConsole(write) {
  let total = 0;
  const line = (level, args) => {
    if (total > maxTotal) return;
    const text = format(args);
    const bounded =
      text.length > maxLine ? `${text.slice(0, maxLine)}… [${text.length - maxLine} characters cut]` : text;
    total += bounded.length + lineCost;
    write(total > maxTotal ? 'cut' : level, bounded);
  };
  const at =
    (level) =>
    (...args) =>
      line(level, args);
  const timers = new Map();
  const elapsed = (label) => `${label}: ${Date.now() - (timers.get(label) ?? Date.now())}ms`;
  return {
    log: at('info'),
    info: at('info'),
    debug: at('debug'),
    warn: at('warn'),
    error: at('error'),
    dir: at('info'),
    table: at('info'),
    group: at('info'),
    groupEnd() {},
    trace: (...args) => line('debug', [new Error(format(args)).stack]),
    assert: (condition, ...args) => (condition ? undefined : line('error', ['Assertion failed', ...args])),
    time: (label = 'default') => void timers.set(label, Date.now()),
    timeLog: (label = 'default') => line('info', [elapsed(label)]),
    timeEnd: (label = 'default') => {
      line('info', [elapsed(label)]);
      timers.delete(label);
    },
  };
}

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
