import { costNames, sumOf } from './calls/cost.ts';
import { type Measured, onChain, onPlatform } from './calls/sides.ts';
import { socketWrites } from './calls/writes.ts';
import { type Benchmark, type Row, byTurns, digits, median, ms, perSecond, range, spread } from './harness.ts';

const callers = 16;
const seconds = 4;
const rounds = 3;

const cpuMs = ({ result, cost }: Measured): number => (sumOf(cost) / result.latencies.length) * 1000;
const rate = ({ result }: Measured): number => result.latencies.length / result.seconds;
const waits = (all: readonly Measured[]): number[] => all.flatMap(({ result }) => result.latencies);

/** By who used it, in ms of each request. */
const costOf = (all: readonly Measured[]): string =>
  costNames
    .map((name) => {
      const each = all.map(({ cost, result }) => (cost[name] / result.latencies.length) * 1000);
      return `${name} ${digits(median(each))}`;
    })
    .join(', ');

const describe = (name: string, all: readonly Measured[]): string =>
  `${name}: ${range(all.map(rate))}/s; CPU ${range(all.map(cpuMs))} ms (${costOf(all)}); wait ${spread(waits(all))} ms`;

interface Compared {
  readonly ours: readonly Measured[];
  readonly floor: readonly Measured[];
}

const compare = async (ours: () => Promise<Measured>, floor: () => Promise<Measured>): Promise<Compared> => {
  const pairs = await byTurns(rounds, ours, floor);
  return { ours: pairs.map((pair) => pair.ours), floor: pairs.map((pair) => pair.floor) };
};

const medianRatio = ({ ours, floor }: Compared, of: (one: Measured) => number): number =>
  median(ours.map((one, place) => of(one) / of(floor[place] ?? one)));

const cpuRow = (name: string, compared: Compared, atMost: number): Row => ({
  name,
  ours: ms(median(compared.ours.map(cpuMs))),
  floor: ms(median(compared.floor.map(cpuMs))),
  ratio: medianRatio(compared, cpuMs),
  target: { of: 'ratio', atMost },
  notes: [describe('ours', compared.ours), describe('floor', compared.floor)],
});

/** A call beside an authenticated read by the same API. */
const againstRead: Benchmark = {
  name: 'calls/read',
  run: (bench) =>
    onPlatform(bench, async ({ measure, read }) => {
      const many = await compare(
        () => measure(callers, seconds),
        () => measure(callers, seconds, read),
      );
      const alone = await compare(
        () => measure(1, seconds),
        () => measure(1, seconds, read),
      );
      return [
        cpuRow(`CPU of a no-op call and of a GET, ${callers} callers`, many, 5),
        {
          name: 'wait of a no-op call and of a GET, p50, 1 caller',
          ours: ms(median(waits(alone.ours))),
          floor: ms(median(waits(alone.floor))),
          ratio: medianRatio(alone, ({ result }) => median(result.latencies)),
          target: { of: 'ratio', atMost: 5 },
          notes: [describe('ours', alone.ours), describe('floor', alone.floor)],
        },
      ];
    }),
};

/** A call beside the minimal chain. */
const againstChain: Benchmark = {
  name: 'calls/chain',
  run: (bench) =>
    onPlatform(bench, ({ measure }) =>
      onChain(bench, async (chain) => {
        const compared = await compare(
          () => measure(callers, seconds),
          () => chain.measure(callers, seconds),
        );
        return [
          cpuRow(`CPU of a no-op call and of a minimal chain, ${callers} callers`, compared, 1.3),
          {
            name: `no-op calls and those of a minimal chain, ${callers} callers`,
            ours: perSecond(median(compared.ours.map(rate))),
            floor: perSecond(median(compared.floor.map(rate))),
            ratio: medianRatio(compared, rate),
            target: { of: 'ratio', atLeast: 0.8 },
            notes: [describe('ours', compared.ours), describe('floor', compared.floor)],
          },
        ];
      }),
    ),
};

/**
 * A synchronous call of a function that does nothing. Asynchronous jobs beside plain BullMQ are in `jobs/throughput`.
 */
export const callBenchmarks: readonly Benchmark[] = [againstRead, socketWrites, againstChain];
