'use strict';
const { inspect } = require('./inspect.cjs');

const maxRows = 200;
const maxColumns = 20;
const indexName = '(index)';
const valuesName = 'Values';

/**
 * The rows of a list or an object in columns, as `console.table` draws them.
 * @returns undefined for what has no rows
 */
function table(data, wanted) {
  if (typeof data !== 'object' || data === null) return undefined;
  const rows = Object.entries(data).slice(0, maxRows);
  const found = new Set(rows.flatMap(([, row]) => (isRow(row) ? Object.keys(row) : [])));
  const columns = (Array.isArray(wanted) ? wanted.map(String) : [...found]).slice(0, maxColumns);
  const hasValues = rows.some(([, row]) => !isRow(row));
  const head = [indexName, ...columns, ...(hasValues ? [valuesName] : [])];
  const body = rows.map(([index, row]) => [
    index,
    ...columns.map((name) => (isRow(row) && Object.hasOwn(row, name) ? cell(row[name]) : '')),
    ...(hasValues ? [isRow(row) ? '' : cell(row)] : []),
  ]);
  return draw(head, body);
}

const isRow = (value) => typeof value === 'object' && value !== null;
const cell = (value) => (typeof value === 'string' ? `'${value}'` : inspect(value));

function draw(head, body) {
  const widths = head.map((name, at) => Math.max(name.length, ...body.map((row) => row[at].length)) + 2);
  const rule = ([left, middle, right]) => left + widths.map((width) => '─'.repeat(width)).join(middle) + right;
  const line = (cells) => `│${cells.map((text, at) => ` ${text}`.padEnd(widths[at])).join('│')}│`;
  return [rule('┌┬┐'), line(head), rule('├┼┤'), ...body.map(line), rule('└┴┘')].join('\n');
}

module.exports = { table };
