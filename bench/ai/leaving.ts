import { setTimeout as delay } from 'node:timers/promises';
import { type Benchmark, ms, percentile, spread } from '../harness.ts';
import { type AiScene, chatBody, startAiScene } from './scene.ts';

const leavers = 100;
const patienceMs = 5000;

const now = (): number => performance.timeOrigin + performance.now();

/** Begins a stream that would not end, and leaves after its first piece. */
const leave = async ({ api, project }: AiScene, name: string): Promise<number> => {
  const leaving = new AbortController();
  const response = await fetch(`${api.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${project.key}` },
    body: chatBody(true, name),
    signal: leaving.signal,
  });
  if (!response.ok) throw new Error(`a stream answered ${response.status}: ${await response.text()}`);
  await response.body?.getReader().read();
  const left = now();
  leaving.abort();
  return left;
};

const closingOf = async ({ upstream }: AiScene, name: string): Promise<number> => {
  for (const until = now() + patienceMs; now() < until; await delay(20)) {
    const closed = (await (await fetch(`${upstream.url}/closed`)).json()) as Record<string, number>;
    const at = closed[name];
    if (at !== undefined) return at;
  }
  throw new Error(`the stream ${name} was never closed`);
};

/** How long a provider goes on for nobody. */
export const leaving: Benchmark = {
  name: 'ai/leaving',
  run: async (bench) => {
    const scene = await startAiScene(bench);
    await scene.setPace('fast');
    const times: number[] = [];
    for (let n = 0; n < leavers; n += 1) {
      const name = `endless-${n}`;
      const left = await leave(scene, name);
      times.push((await closingOf(scene, name)) - left);
    }
    return [
      {
        name: 'AI: from a client’s leaving to the closed connection upstream, p99',
        ours: ms(percentile(times, 0.99)),
        target: { of: 'ours', atMost: 50 },
        notes: [`${leavers} streams, left after their first piece: ${spread(times)} ms`],
      },
    ];
  },
};
