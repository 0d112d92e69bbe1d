import { type Benchmark, median, ms, spread } from '../harness.ts';
import { type AiScene, model, startAiScene } from './scene.ts';

const arenas = 150;
const warmUp = 20;

interface Arena {
  readonly results: readonly { readonly latency_ms: number; readonly error: unknown }[];
}

/** What one arena takes beyond its slowest model, in ms. */
const arenaOverhead = async ({ api, project, headers }: AiScene): Promise<number> => {
  const body = JSON.stringify({
    messages: [{ role: 'user', content: 'Which is best?' }],
    models: Array(4).fill(model),
  });
  const began = performance.now();
  const response = await fetch(`${api.url}/projects/${project.id}/ai/arena`, { method: 'POST', headers, body });
  const answer = (await response.json()) as Arena;
  const passed = performance.now() - began;
  if (!response.ok || answer.results.some(({ error }) => error)) throw new Error(JSON.stringify(answer).slice(0, 500));
  return passed - Math.max(...answer.results.map(({ latency_ms: took }) => took));
};

/** Four models side by side, as one job. */
export const arena: Benchmark = {
  name: 'ai/arena',
  run: async (bench) => {
    const scene = await startAiScene(bench);
    await scene.setPace('slow');
    const times: number[] = [];
    for (let n = 0; n < warmUp + arenas; n += 1) {
      const time = await arenaOverhead(scene);
      if (n >= warmUp) times.push(time);
    }
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
