import { deploy, projectBody, signUp } from '../client.ts';
import { type Bench, type Benchmark, digits, median, ms, percentile, spread } from '../harness.ts';
import { requiredIn } from '../settings.ts';
import { oneByOne } from './measure.ts';

const backlog = 10_000;
const inCall = 1000;
const calls = 300;

const slow = 'export const handler = () => new Promise((resolve) => setTimeout(resolve, 5000));';
const noOp = 'export const handler = () => null;';

const scene = async ({ env }: Bench) => {
  const url = requiredIn(env, 'PLINTH_TEST_BASE_URL');
  const user = await signUp(url);
  // Four of its five places are for jobs; the workers have slots beyond that.
  const made = await fetch(`${url}/projects`, {
    method: 'POST',
    headers: user.headers,
    body: JSON.stringify({ ...projectBody(), plan: 'free' }),
  });
  const { id: projectId } = (await made.json()) as { readonly id: string };
  const functions = `${url}/projects/${projectId}/functions`;
  const called = await deploy(url, user, projectId, noOp);
  const queued = await deploy(url, user, projectId, slow);
  const post = async (path: string, body: object): Promise<unknown> => {
    const answer = await fetch(`${functions}/${path}`, {
      method: 'POST',
      headers: user.headers,
      body: JSON.stringify(body),
    });
    if (!answer.ok) throw new Error(await answer.text());
    return answer.json();
  };
  return {
    enqueue: (count: number) => post(`${queued}/jobs`, { payloads: Array.from({ length: count }, () => null) }),
    /** The time in the queue that a call tells, in ms. */
    call: async (): Promise<number> => {
      const { status, timings } = (await post(`${called}/invoke`, { payload: null })) as {
        readonly status: string;
        readonly timings: { readonly queue: number };
      };
      if (status !== 'success') throw new Error(`a call ended as ${status}`);
      return timings.queue;
    },
  };
};

/** A caller beside the backlog of its own project: jobs that idle in every place that is not kept for callers. */
export const functionBacklog: Benchmark = {
  name: 'functions/backlog',
  run: async (bench) => {
    const { call, enqueue } = await scene(bench);
    const measure = async (): Promise<{ readonly waits: number[]; readonly queued: number[] }> => {
      const queued: number[] = [];
      const waits = await oneByOne(calls, async () => void queued.push(await call()));
      return { waits, queued };
    };
    await measure();
    const alone = await measure();
    for (let made = 0; made < backlog; made += inCall) await enqueue(inCall);
    const beside = await measure();
    const [ours, floor] = [median(beside.waits), median(alone.waits)];
    return [
      {
        name: 'a call beside 10,000 waiting jobs of its project, its caller’s wait, p50',
        ours: ms(ours),
        floor: ms(floor),
        ratio: ours / floor,
        target: { of: 'ratio', atMost: 1.2 },
        notes: [
          `alone ${spread(alone.waits)} ms, beside ${spread(beside.waits)} ms; p99 beside ${digits(percentile(beside.waits, 0.99))} ms`,
          `in the queue, p50: alone ${digits(median(alone.queued))} ms, beside ${digits(median(beside.queued))} ms`,
        ],
      },
    ];
  },
};
