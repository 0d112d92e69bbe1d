import { createProject, deploy, signUp } from '../client.ts';
import { type Bench, type Benchmark, allRight, digits, median, ms, perSecond, percentile, spread } from '../harness.ts';
import type { LoadPlan, LoadResult } from '../load.ts';
import { requiredIn } from '../settings.ts';

const noOp = 'export const handler = () => null;';

type InvokePlan = Omit<LoadPlan, 'callers' | 'warmUp' | 'extent'>;

const invokePlan = async (bench: Bench): Promise<InvokePlan> => {
  const url = requiredIn(bench.env, 'PLINTH_TEST_BASE_URL');
  const user = await signUp(url);
  const project = await createProject(url, user);
  const fn = await deploy(url, user, project, noOp);
  return {
    url,
    headers: user.headers,
    requests: [{ method: 'POST', path: `/projects/${project}/functions/${fn}/invoke`, body: '{"payload":null}' }],
    status: 200,
    mustHold: '"status":"success"',
    field: 'duration_ms',
  };
};

/** The platform's overhead of each run: the caller's time without the sandbox's. */
const overheads = ({ latencies, values }: LoadResult): number[] =>
  latencies.map((latency, index) => latency - (values[index] ?? Number.NaN));

const rate = ({ latencies, seconds }: LoadResult): number => latencies.length / seconds;

const describe = (result: LoadResult): string[] => [
  `overhead ${spread(overheads(result))} ms; p95 ${digits(percentile(overheads(result), 0.95))} ms`,
  `the caller waits ${spread(result.latencies)} ms; the sandbox takes ${spread(result.values)} ms`,
  `${digits(rate(result))} invocations/s over ${result.latencies.length}`,
];

const run = async (bench: Bench, plan: InvokePlan, callers: number): Promise<LoadResult> =>
  allRight(await bench.servers.load({ ...plan, callers, warmUp: { seconds: 2 }, extent: { seconds: 6 } }));

export const functionInvoke: Benchmark = {
  name: 'functions/invoke',
  run: async (bench) => {
    const plan = await invokePlan(bench);
    const alone = await run(bench, plan, 1);
    const many = await run(bench, plan, 16);
    const manyProjects = await run(bench, plan, 64);
    return [
      {
        name: 'sync invoke of a no-op, the caller’s wait, p50, 1 caller',
        ours: ms(median(alone.latencies)),
        floor: ms(median(alone.values)),
        target: { of: 'ours', atMost: 4 },
        notes: ['floor: the time in the sandbox (`duration_ms` of the same answers)', ...describe(alone)],
      },
      {
        name: 'sync invoke of a no-op, the caller’s wait, p50, 16 callers',
        ours: ms(median(many.latencies)),
        floor: ms(median(many.values)),
        notes: describe(many),
      },
      {
        name: 'sync invocations of a no-op, 16 callers',
        ours: perSecond(rate(many)),
        target: { of: 'ours', atLeast: 600 },
        notes: ['two workers with 8 function slots each'],
      },
      {
        name: 'sync invocations of a no-op, 64 callers',
        ours: perSecond(rate(manyProjects)),
        target: { of: 'ours', atLeast: 600 },
        notes: describe(manyProjects),
      },
    ];
  },
};
