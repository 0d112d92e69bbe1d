'use strict';
const { inspect } = require('./inspect.cjs');

/** What one run may log, in UTF-16 units; outside, bytes are counted once more. */
const MAX_TOTAL = 256 * 1024;
const LINE_COST = 32;
const MAX_LINE = 16 * 1024;

/** The methods of `console` that people use, each one line at one of four levels. */
function createConsole(write) {
  let total = 0;
  const line = (level, args) => {
    if (total > MAX_TOTAL) return;
    const text = format(args);
    const bounded =
      text.length > MAX_LINE ? `${text.slice(0, MAX_LINE)}… [${text.length - MAX_LINE} characters cut]` : text;
    total += bounded.length + LINE_COST;
    write(total > MAX_TOTAL ? 'cut' : level, bounded);
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
function format([first, ...rest]) {
  if (typeof first !== 'string') return [first, ...rest].map(inspectIfThere).join(' ').trimEnd();
  const values = [...rest];
  const text = first.replace(/%[sdifjoOc%]/g, (mark) => {
    if (mark === '%%') return '%';
    return values.length === 0 ? mark : substitute(mark, values.shift());
  });
  return [text, ...values.map(inspect)].join(' ');
}

const inspectIfThere = (value, index) => (value === undefined && index === 0 ? 'undefined' : inspect(value));

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
