import { Client } from 'undici';
import { type Benchmark, median, ms, spread } from '../harness.ts';
import { type AiScene, model, startAiScene } from './scene.ts';

const arenas = 150;
/** As in service: at 30 arenas/s nobody's code would be compiled for minutes. */
const warmUp = { seconds: 6, callers: 4, slow: 20 } as const;

interface Arena {
  readonly results: readonly { readonly latency_ms: number; readonly error: unknown }[];
}

/** One caller with a kept-alive connection; answers what an arena took beyond its slowest model, in ms. */
const callerOf = ({ api, project, headers }: AiScene) => {
  const client = new Client(api.url);
  const path = `/projects/${project.id}/ai/arena`;
  const body = JSON.stringify({
    messages: [{ role: 'user', content: 'Which is best?' }],
    models: Array(4).fill(model),
  });
  return {
    ask: async (): Promise<number> => {
      const began = performance.now();
      const answer = await client.request({ method: 'POST', path, headers: { ...headers }, body });
      const text = await answer.body.text();
      const passed = performance.now() - began;
      const { results } = JSON.parse(text) as Arena;
      if (answer.statusCode !== 200 || results.some(({ error }) => error)) throw new Error(text.slice(0, 500));
      return passed - Math.max(...results.map(({ latency_ms: took }) => took));
    },
    close: () => client.close(),
  };
};

const warm = async (scene: AiScene): Promise<void> => {
  await scene.setPace('fast');
  const until = performance.now() + warmUp.seconds * 1000;
  const work = async (): Promise<void> => {
    const caller = callerOf(scene);
    while (performance.now() < until) await caller.ask();
    await caller.close();
  };
  await Promise.all(Array.from({ length: warmUp.callers }, work));
};

/** Four models side by side, as one job. */
export const arena: Benchmark = {
  name: 'ai/arena',
  run: async (bench) => {
    const scene = await startAiScene(bench);
    await warm(scene);
    await scene.setPace('slow');
    const caller = callerOf(scene);
    const times: number[] = [];
    for (let n = 0; n < warmUp.slow + arenas; n += 1) {
      const time = await caller.ask();
      if (n >= warmUp.slow) times.push(time);
    }
    await caller.close();
    return [
      {
        name: 'AI: an arena of 4 beyond its slowest model, p50',
        ours: ms(median(times)),
        target: { of: 'ours', atMost: 8 },
        notes: [`one caller; each model answers after 20 ms: ${spread(times)} ms`],
      },
    ];
  },
};
