import { type Benchmark, byTurns, median, ms, spread } from '../harness.ts';
import { type Moment, type TricklePlan, projectIds } from './plan.ts';
import { type Round, onRound } from './round.ts';

const slots = 50;
const everyMs = 5;
const [warmUp, counted] = [200, 100];
const rounds = 15;

export const waits = (requested: readonly Moment[], started: readonly Moment[]): number[] => {
  const beginnings = new Map(started);
  return requested.map(([id, at]) => (beginnings.get(id) ?? Number.NaN) - at);
};

const trickle = ({ producer }: Round, count: number): Promise<Moment[]> =>
  producer.ask<Moment[]>('trickle', { projects: projectIds(count), everyMs } satisfies TricklePlan);

const warm = async (round: Round): Promise<void> => {
  await trickle(round, warmUp);
  await round.worker.ask('note');
};

/** From the call to the beginning of the job, one at a time. */
const idle = async (round: Round): Promise<number[]> => {
  const done = await round.worker.ask<number>('count');
  const requested = await trickle(round, counted);
  await round.worker.ask('ended', done + counted);
  return waits(requested, await round.worker.ask<Moment[]>('started'));
};

export const idleLatency: Benchmark = {
  name: 'jobs/idle-latency',
  run: async (bench) => {
    const plan = { slots, limit: 10, workMs: 0, bulk: false };
    const pairs = await onRound(bench, { way: 'gate', ...plan }, (gate) =>
      onRound(bench, { way: 'plain', ...plan }, async (plain) => {
        await warm(gate);
        await warm(plain);
        return byTurns(
          rounds,
          () => idle(gate),
          () => idle(plain),
        );
      }),
    );
    const [ours, floor] = [pairs.flatMap((pair) => pair.ours), pairs.flatMap((pair) => pair.floor)];
    return [
      {
        name: 'from the call to the beginning of a job, idle, p50',
        ours: ms(median(ours)),
        floor: ms(median(floor)),
        ratio: median(pairs.map((pair) => median(pair.ours) / median(pair.floor))),
        target: { of: 'ratio', atMost: 1.2 },
        notes: [
          `${rounds} × ${counted} jobs by turns, one each ${everyMs} ms, each of another project; floor: BullMQ alone`,
          `gate and BullMQ: ${spread(ours)} ms`,
          `BullMQ: ${spread(floor)} ms`,
        ],
      },
    ];
  },
};
