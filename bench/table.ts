import { type Quantity, type Row, type Target, digits } from './harness.ts';

const none = '–';

const quantity = (of: Quantity | undefined): string =>
  of === undefined ? none : `${digits(of.value)} ${of.unit}`.replace(' /s', '/s').trim();

/** A share as small as 0.012 keeps two digits that mean something. */
const short = (value: number): string => String(Number(value.toPrecision(3)));

const bound = ({ atMost, atLeast }: Target, unit: string): string => {
  const limit = atMost === undefined ? `≥ ${atLeast}` : `≤ ${short(atMost)}`;
  return `${limit} ${unit}`.replace(' /s', '/s').trim();
};

const targetOf = ({ target, ours }: Row): string => {
  if (target === undefined) return none;
  return target.of === 'ratio' ? `ratio ${bound(target, '')}` : bound(target, ours.unit);
};

/** Whether the figure is what it has to be; `null` when nothing is asked of it. */
const isMet = ({ target, ours, ratio }: Row): boolean | null => {
  if (target === undefined) return null;
  const value = target.of === 'ratio' ? (ratio ?? Number.NaN) : ours.value;
  return value <= (target.atMost ?? Infinity) && value >= (target.atLeast ?? -Infinity);
};

const verdict = (row: Row): string => {
  const met = isMet(row);
  return met === null ? none : met ? 'yes' : 'NO';
};

const heads = ['name', 'ours', 'floor', 'ratio', 'target', 'met'] as const;

const cells = (row: Row): string[] => [
  row.name,
  quantity(row.ours),
  quantity(row.floor),
  row.ratio === undefined ? none : row.ratio < 0.1 ? row.ratio.toPrecision(2) : row.ratio.toFixed(2),
  targetOf(row),
  verdict(row),
];

const line = (texts: readonly string[], widths: readonly number[]): string =>
  `| ${texts.map((text, column) => text.padEnd(widths[column] ?? 0)).join(' | ')} |`;

/** The table, in Markdown, and below it what stands behind each row. */
export const tableOf = (rows: readonly Row[]): string => {
  const body = rows.map(cells);
  const widths = heads.map((head, column) => Math.max(head.length, ...body.map((row) => row[column]?.length ?? 0)));
  const rule = `| ${widths.map((width) => '-'.repeat(width)).join(' | ')} |`;
  const notes = rows.map(({ name, notes }) => `${name}\n${notes.map((note) => `  ${note}`).join('\n')}`);
  return [line(heads, widths), rule, ...body.map((row) => line(row, widths)), '', ...notes].join('\n');
};

const lineTable = (table: string, rows: readonly Row[]): string => {
  const lines = rows.flatMap(({ name, line }) => (line?.table === table ? [{ name, line }] : []));
  const heads = [table, ...(lines[0]?.line.heads ?? [])];
  const body = lines.map(({ name, line: { cells } }) => [name, ...cells]);
  const widths = heads.map((head, column) => Math.max(head.length, ...body.map((row) => row[column]?.length ?? 0)));
  const rule = `| ${widths.map((width) => '-'.repeat(width)).join(' | ')} |`;
  return ['', line(heads, widths), rule, ...body.map((row) => line(row, widths))].join('\n');
};

/** The tables that rows are lines of, in Markdown. */
export const linesOf = (rows: readonly Row[]): string[] => {
  const tables = new Set(rows.flatMap((row) => row.line?.table ?? []));
  return [...tables].map((table) => lineTable(table, rows));
};
