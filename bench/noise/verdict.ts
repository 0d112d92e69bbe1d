import { type Row, count, digits, median, percentile } from '../harness.ts';
import type { Fared } from './measure.ts';
import { type Cell, type Effect, victimTitles } from './shapes.ts';

/** When a cell holds. */
const max = { p50Ratio: 2, p99Ratio: 4, stallMs: 50 } as const;

const p99 = (values: readonly number[]): number => percentile(values, 0.99);

/** Infinite when no call beside the abuse was answered. */
const ratio = (beside: number, alone: number): number => (Number.isNaN(beside) ? Infinity : beside / alone);

interface Judged {
  readonly p50Ratio: number;
  readonly p99Ratio: number;
  readonly stallMs: number;
  readonly holds: boolean;
}

const judge = ({ alone, beside, errors, apiStallMs, workerStallMs }: Cell): Judged => {
  const p50Ratio = ratio(median(beside), median(alone));
  const p99Ratio = ratio(p99(beside), p99(alone));
  const stallMs = Math.max(apiStallMs, workerStallMs);
  const isFast = p50Ratio <= max.p50Ratio && p99Ratio <= max.p99Ratio;
  return { p50Ratio, p99Ratio, stallMs, holds: isFast && errors === 0 && stallMs <= max.stallMs };
};

const times = (value: number): string => (Number.isFinite(value) ? Number(value.toPrecision(2)).toString() : '∞');
const stall = (ms: number): string => (Number.isFinite(ms) ? `${Math.round(ms)} ms` : 'gone');

/** `1.1 / 2.3`, and what else keeps the cell from holding; bold when it does not hold. */
const textOf = (cell: Cell): string => {
  const { p50Ratio, p99Ratio, stallMs, holds } = judge(cell);
  const parts = [
    `${times(p50Ratio)} / ${times(p99Ratio)}`,
    ...(cell.errors > 0 ? [`${cell.errors} ${cell.errors === 1 ? 'error' : 'errors'}`] : []),
    ...(stallMs > max.stallMs ? [`stall ${stall(stallMs)}`] : []),
  ];
  return holds ? parts.join(', ') : `**${parts.join(', ')}**`;
};

const spreadOf = (values: readonly number[]): string =>
  values.length === 0
    ? 'no answer'
    : `p50 ${digits(median(values))}, p99 ${digits(p99(values))} ms of ${values.length}`;

const noteOf = (cell: Cell): string =>
  [
    `${victimTitles[cell.victim]}: alone ${spreadOf(cell.alone)}; beside ${spreadOf(cell.beside)}`,
    `stalls: API ${stall(cell.apiStallMs)}, workers ${stall(cell.workerStallMs)}, alone ${stall(cell.aloneStallMs)}`,
    ...(cell.firstError === null ? [] : [`the first of ${cell.errors} errors: ${cell.firstError}`]),
  ].join('; ');

const effectNote = ({ facts, missing }: Effect): string => {
  const said = Object.entries(facts).map(([name, value]) => `${name} ${digits(value)}`);
  return `the abuse: ${said.join(', ')}${missing === null ? '' : `; TOO LITTLE of it (wanted: ${missing})`}`;
};

const waitedNote = (waited: Fared['waited']): string =>
  `waited for a processor beside the abuse: ${Object.entries(waited)
    .map(([name, share]) => `${name} ${digits(share * 100)} %`)
    .join(', ')} of the time`;

/**
 * The row of one abuse: how many of its cells hold, and the cells.
 * @throws {Error} when the abuse was none: the figures would say nothing
 */
export const rowOf = (title: string, { cells, effect, waited }: Fared): Row => {
  const held = cells.filter((cell) => judge(cell).holds).length;
  const stalls = [cells.map(({ apiStallMs }) => apiStallMs), cells.map(({ workerStallMs }) => workerStallMs)];
  if (effect.missing !== null) throw new Error(`there was no abuse to speak of: ${effectNote(effect)}`);
  return {
    name: title,
    ours: count(held),
    target: { of: 'ours', atLeast: cells.length },
    notes: [effectNote(effect), waitedNote(waited), ...cells.map(noteOf)],
    line: {
      table: 'abuse (p50 / p99 beside ÷ alone)',
      heads: [...cells.map(({ victim }) => victimTitles[victim]), 'longest stall, API / workers', 'cells that hold'],
      cells: [
        ...cells.map(textOf),
        stalls.map((list) => stall(Math.max(...list))).join(' / '),
        `${held} of ${cells.length}`,
      ],
    },
  };
};
