import { apiSpec, createDataProject } from '../data/scene.ts';
import { type BenchUser, signUp } from '../client.ts';
import { type Bench, type Benchmark, type Row, allRight, byTurns, digits, median, range } from '../harness.ts';
import type { LoadResult } from '../load.ts';
import { requiredIn } from '../settings.ts';

export const cpuMicros = ({ latencies, cpuSeconds }: LoadResult): number => (cpuSeconds / latencies.length) * 1e6;

const flags = Array.from({ length: 50 }, (_, n) => ({
  key: `flag-${n}`,
  flag_type: 'string',
  value: `value ${n}`,
  targeting_rules: [
    { attribute: 'plan', operator: 'in', values: ['enterprise'], value: 'a' },
    { attribute: 'country', operator: 'in', values: ['DE', 'AT'], value: 'b' },
    { rollout: { percent: 50 }, value: 'c' },
  ],
}));

export interface FlagScene {
  readonly user: BenchUser;
  readonly project: { readonly id: string; readonly ref: string; readonly publishableKey: string };
  readonly stack: string;
}

/** A project with 50 flags. */
export const flagScene = async (bench: Bench): Promise<FlagScene> => {
  const stack = requiredIn(bench.env, 'PLINTH_TEST_BASE_URL');
  const user = await signUp(stack);
  const project = await createDataProject(stack, user);
  const response = await fetch(`${stack}/projects/${project.id}/flags/import`, {
    method: 'PUT',
    headers: user.headers,
    body: JSON.stringify({ flags }),
  });
  if (!response.ok) throw new Error(await response.text());
  return { user, project, stack };
};

export const body = JSON.stringify({
  context: { targetingKey: 'user-1', plan: 'free', country: 'CH', email: 'user-1@example.com' },
});

const serving = (name: string, title: string, suffix: string): Benchmark => ({
  name,
  run: async (bench): Promise<readonly Row[]> => {
    const { project } = await flagScene(bench);
    const ours = await bench.servers.start(apiSpec('flags-api'));
    const path = `/p/${project.ref}/ofrep/v1/evaluate/flags${suffix}`;
    const headers = { apikey: project.publishableKey, 'content-type': 'application/json' };
    const answer = await (await fetch(`${ours.url}${path}`, { method: 'POST', headers, body })).text();
    const env = { ANSWER_BYTES: String(Buffer.byteLength(answer)) };
    const floor = await bench.servers.start({ name: 'constant-koa', file: 'bench/floors/constant-koa.ts', env });
    const plan = { callers: 32, warmUp: { seconds: 1 }, extent: { seconds: 3 }, status: 200 };
    const load = (server: typeof ours, requested: string) => async () =>
      allRight(
        await bench.servers.load({
          ...plan,
          headers,
          requests: [{ method: 'POST', path: requested, body }],
          url: server.url,
          pid: server.pid,
        }),
      );
    const pairs = await byTurns(5, load(ours, path), load(floor, '/constant'));
    await Promise.all([ours.stop(), floor.stop()]);
    const [mine, theirs] = [pairs.map((pair) => cpuMicros(pair.ours)), pairs.map((pair) => cpuMicros(pair.floor))];
    return [
      {
        name: title,
        ours: { value: median(mine), unit: 'µs CPU' },
        floor: { value: median(theirs), unit: 'µs CPU' },
        ratio: median(pairs.map((pair) => cpuMicros(pair.ours) / cpuMicros(pair.floor))),
        target: { of: 'ratio', atMost: 1.6 },
        notes: [
          `ours: ${range(mine)} µs, floor: ${range(theirs)} µs; ${answer.length} bytes, 32 callers`,
          `answers a second: ${digits(median(pairs.map((pair) => pair.ours.latencies.length / pair.ours.seconds)))}`,
        ],
      },
    ];
  },
});

export const servingBenchmarks = [
  serving('flags/single', 'OFREP, one flag; floor: a bare Koa route with a constant', '/flag-7'),
  serving('flags/bulk', 'OFREP, 50 flags; floor: a bare Koa route with a constant', ''),
];
