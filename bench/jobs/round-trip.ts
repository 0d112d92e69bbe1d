import { type Bench, type Benchmark, type Row, median, ms, spread } from '../harness.ts';
import { onControlDatabase } from './database.ts';
import { type AskPlan, type Way, projectIds } from './plan.ts';
import { type Round, onRound } from './round.ts';

const slots = 64;
const projects = projectIds(16);
const limits = [
  { callers: 1, atMost: 1.5, count: 2000 },
  { callers: 16, atMost: 5, count: 16_000 },
  { callers: 64, atMost: 15, count: 32_000 },
] as const;

type Trips = readonly (readonly number[])[];

const trips = async ({ producer }: Round): Promise<Trips> => {
  const all: number[][] = [];
  for (const { callers, count } of limits) {
    const plan: AskPlan = { projects, callers, warmUp: count / 10, count };
    all.push(await producer.ask<number[]>('ask', plan));
  }
  return all;
};

const tripsOn = (bench: Bench, way: Way, databaseUrl = ''): Promise<Trips> =>
  onRound(bench, { way, slots, limit: 64, workMs: 0, replies: true, databaseUrl }, trips);

const rowsOf = (gate: Trips, plain: Trips, engine: Trips): Row[] =>
  limits.map(({ callers, atMost, count }, i) => {
    const [ours = [], floor = [], whole = []] = [gate[i], plain[i], engine[i]];
    return {
      name: `call to answer through the queue, Redis alone, p50, ${callers === 1 ? '1 caller' : `${callers} callers`}`,
      ours: ms(median(ours)),
      floor: ms(median(floor)),
      ratio: median(ours) / median(floor),
      target: { of: 'ours', atMost },
      notes: [
        `${count} round trips of a job that does nothing; floor: BullMQ alone with \`waitUntilFinished\``,
        `gate, BullMQ and reply stream: ${spread(ours)} ms`,
        `BullMQ alone: ${spread(floor)} ms`,
        `with its row in Postgres, before and after: ${spread(whole)} ms`,
      ],
    };
  });

export const roundTrip: Benchmark = {
  name: 'jobs/round-trip',
  run: async (bench) => {
    const gate = await tripsOn(bench, 'gate');
    const plain = await tripsOn(bench, 'plain');
    const engine = await onControlDatabase(bench, (url) => tripsOn(bench, 'engine', url));
    return rowsOf(gate, plain, engine);
  },
};
