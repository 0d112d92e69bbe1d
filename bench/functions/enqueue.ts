import { setTimeout as pause } from 'node:timers/promises';
import { createProject, deploy, signUp } from '../client.ts';
import { type Bench, type Benchmark, type Row, digits, median, perSecond, range } from '../harness.ts';
import { requiredIn } from '../settings.ts';

const inCall = 1000;
const rounds = 7;

const kinds = {
  plain: () => ({}),
  delayed: () => ({ delay_ms: 3_600_000 }),
  unique: (round: number, n: number) => ({ unique_key: `${round}-${n}` }),
} as const satisfies Record<string, (round: number, n: number) => object>;
type Kind = keyof typeof kinds;

const scene = async ({ env }: Bench) => {
  const url = requiredIn(env, 'PLINTH_TEST_BASE_URL');
  const user = await signUp(url);
  const projectId = await createProject(url, user);
  const fn = await deploy(url, user, projectId, 'export const handler = () => null;');
  const project = `${url}/projects/${projectId}`;
  /** The runs in the background are no part of the figure. */
  const untilIdle = async (): Promise<void> => {
    for (;;) {
      const answer = await fetch(`${project}/jobs?type=function.invoke&limit=1`, { headers: user.headers });
      const { jobs } = (await answer.json()) as { jobs: { status: string; waiting_reason: string | null }[] };
      if (jobs[0] === undefined || jobs[0].status === 'succeeded' || jobs[0].waiting_reason === 'delayed') break;
      await pause(100);
    }
    await pause(500);
  };
  /** Jobs a second of one call. */
  const accept = async (kind: Kind, round: number): Promise<number> => {
    const jobs = Array.from({ length: inCall }, (_, n) => ({ payload: { n }, ...kinds[kind](round, n) }));
    const body = JSON.stringify({ jobs });
    const began = performance.now();
    const answer = await fetch(`${project}/functions/${fn}/jobs`, {
      method: 'POST',
      headers: { ...user.headers },
      body,
    });
    if (answer.status !== 202) throw new Error(await answer.text());
    await answer.arrayBuffer();
    const rate = inCall / ((performance.now() - began) / 1000);
    await untilIdle();
    return rate;
  };
  return { accept };
};

/** A call of 1,000 jobs, after which nothing else happens until they have run; the kinds take turns. */
export const functionEnqueue: Benchmark = {
  name: 'functions/enqueue',
  run: async (bench) => {
    const { accept } = await scene(bench);
    const rates: Record<Kind, number[]> = { plain: [], delayed: [], unique: [] };
    for (let round = 0; round <= rounds; round += 1) {
      for (const kind of ['plain', 'delayed', 'unique'] as const) {
        const rate = await accept(kind, round);
        // The first call of each kind warms up.
        if (round > 0) rates[kind].push(rate);
      }
    }
    const plain = median(rates.plain);
    const notes = [
      `rounds: plain ${range(rates.plain)}, delayed ${range(rates.delayed)}, unique ${range(rates.unique)} /s`,
    ];
    const beside = (kind: Kind): Row => ({
      name: `jobs accepted, 1,000 ${kind} ones in a call`,
      ours: perSecond(median(rates[kind])),
      floor: perSecond(plain),
      ratio: median(rates[kind]) / plain,
      target: { of: 'ratio', atLeast: 0.7 },
      notes: [`beside plain ones in the same run: ${digits(plain)} /s`],
    });
    return [
      {
        name: 'jobs accepted, 1,000 in a call',
        ours: perSecond(plain),
        target: { of: 'ours', atLeast: 20_000 },
        notes,
      },
      beside('delayed'),
      beside('unique'),
    ];
  },
};
