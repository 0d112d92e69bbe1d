import { type Benchmark, type Row, byTurns, median, perSecond, range } from '../harness.ts';
import { type InsertTable, openInsertScene } from './insert-rate.ts';

const rounds = 5;
const most = 8;

/** What one more trigger leaves of the rate of single-row inserts. */
const compare = (
  name: string,
  what: string,
  tables: { readonly ours: InsertTable; readonly floor: InsertTable },
  atLeast: number,
): Benchmark => ({
  name,
  run: async (bench) => {
    const scene = await openInsertScene(bench, most);
    try {
      const rows: Row[] = [];
      for (const connections of [1, most]) {
        const pairs = await byTurns(
          rounds,
          () => scene.rate(tables.ours, connections),
          () => scene.rate(tables.floor, connections),
        );
        const ours = pairs.map((pair) => pair.ours);
        const floor = pairs.map((pair) => pair.floor);
        rows.push({
          name: `inserting rows ${what}, ${connections} ${connections === 1 ? 'connection' : 'connections'}`,
          ours: perSecond(median(ours)),
          floor: perSecond(median(floor)),
          ratio: median(pairs.map((pair) => pair.ours / pair.floor)),
          target: { of: 'ratio', atLeast },
          notes: [`ours: ${range(ours)}/s`, `floor: the same without, ${range(floor)}/s`],
        });
      }
      return rows;
    } finally {
      await scene.end();
    }
  },
});

/** A row more is counted in each insert's own transaction. */
export const rowLimit = compare('data/row-limit', 'with their count', { ours: 'counted', floor: 'bare' }, 0.85);

/** Somebody subscribes: each insert leaves an event. */
export const outbox = compare('data/outbox', 'with an event of each', { ours: 'told', floor: 'counted' }, 0.75);
