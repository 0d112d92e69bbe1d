import { type Benchmark, type Row, byTurns, digits, median, perSecond, range } from '../harness.ts';
import { type InsertTable, openInsertScene } from './insert-rate.ts';

const rounds = 11;
const max = 8;

interface Comparison {
  readonly what: string;
  readonly ours: InsertTable;
  readonly floor: InsertTable;
  /** None: it only informs. */
  readonly atLeast?: number;
}

/** The remaining rate of single-row inserts with one more thing to do. */
const compare = (name: string, comparisons: readonly Comparison[]): Benchmark => ({
  name,
  run: async (bench) => {
    const scene = await openInsertScene(bench, max);
    try {
      const rows: Row[] = [];
      for (const { what, atLeast, ...tables } of comparisons) {
        for (const connections of [1, max]) {
          const pairs = await byTurns(
            rounds,
            () => scene.rate(tables.ours, connections),
            () => scene.rate(tables.floor, connections),
          );
          const ours = pairs.map((pair) => pair.ours.perSecond);
          const floor = pairs.map((pair) => pair.floor.perSecond);
          const cpu = [pairs.map((pair) => pair.ours.cpuUs), pairs.map((pair) => pair.floor.cpuUs)].map(median);
          rows.push({
            name: `inserting rows ${what}, ${connections} ${connections === 1 ? 'connection' : 'connections'}`,
            ours: perSecond(median(ours)),
            floor: perSecond(median(floor)),
            ratio: median(pairs.map((pair) => pair.ours.perSecond / pair.floor.perSecond)),
            ...(atLeast !== undefined && { target: { of: 'ratio', atLeast } }),
            notes: [
              `ours: ${range(ours)}/s`,
              `floor: the same without, ${range(floor)}/s`,
              `CPU of the server for each: ${cpu.map(digits).join(' against ')} µs`,
            ],
          });
        }
      }
      return rows;
    } finally {
      await scene.end();
    }
  },
});

/** Each insert is counted in its own transaction: on top of its event, and where nobody subscribes. */
export const rowLimit = compare('data/row-limit', [
  { what: 'with their count on top of an event', ours: 'counted', floor: 'told', atLeast: 0.85 },
  { what: 'with their count alone', ours: 'unheard', floor: 'bare' },
]);

/** Somebody subscribes: each insert leaves an event. */
export const outbox = compare('data/outbox', [
  { what: 'with an event of each', ours: 'told', floor: 'bare', atLeast: 0.75 },
]);
