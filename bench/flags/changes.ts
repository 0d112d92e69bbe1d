import { Agent, request } from 'node:http';
import { apiSpec } from '../data/scene.ts';
import { type Bench, type Benchmark, digits, median, ms, percentile } from '../harness.ts';
import { memoryOf } from '../proc.ts';
import type { Server } from '../servers.ts';
import { type FlagScene, flagScene } from './serving.ts';

const streamOf = async (server: Server, { project }: FlagScene): Promise<string> => {
  const response = await fetch(`${server.url}/p/${project.ref}/ofrep/v1/evaluate/flags`, {
    method: 'POST',
    headers: { apikey: project.publishableKey, 'content-type': 'application/json' },
    body: '{}',
  });
  const { eventStreams } = (await response.json()) as { eventStreams: { url: string }[] };
  const url = new URL(eventStreams[0]?.url ?? '');
  return `${server.url}${url.pathname}${url.search}`;
};

interface Listening {
  readonly close: () => void;
}

/** @param onChange receives each message */
const listenTo = (url: string, agent: Agent, onChange: () => void): Promise<Listening> =>
  new Promise((resolve, reject) => {
    const sent = request(url, { agent }, (response) => {
      response.setEncoding('utf8');
      response.on('data', (text: string) => {
        if (text.includes('data: ')) onChange();
      });
      response.on('error', () => undefined);
      if (response.statusCode === 200) resolve({ close: () => void sent.destroy() });
      else reject(new Error(`a stream answered ${response.statusCode}`));
    });
    sent.on('error', reject);
    sent.end();
  });

const change = async ({ stack, user, project }: FlagScene, value: string): Promise<void> => {
  const response = await fetch(`${stack}/projects/${project.id}/flags/flag-1`, {
    method: 'PATCH',
    headers: user.headers,
    body: JSON.stringify({ value }),
  });
  if (!response.ok) throw new Error(await response.text());
  await response.text();
};

const changes = 100;

/** From the request that changes a flag until a listener of each of three processes has the message. */
export const changeSeen: Benchmark = {
  name: 'flags/change-seen',
  run: async (bench) => {
    const scene = await flagScene(bench);
    const servers = await Promise.all([1, 2, 3].map((n) => bench.servers.start(apiSpec(`flags-api-${n}`))));
    const agent = new Agent({ keepAlive: false, maxSockets: Infinity });
    let heard = Promise.withResolvers<void>();
    let left = 0;
    const note = (): void => {
      left -= 1;
      if (left === 0) heard.resolve();
    };
    const listeners = await Promise.all(
      servers.map(async (server) => listenTo(await streamOf(server, scene), agent, note)),
    );
    await new Promise((resolve) => setTimeout(resolve, 500));
    const took: number[] = [];
    for (let n = 0; n < changes; n += 1) {
      heard = Promise.withResolvers();
      left = servers.length;
      const began = performance.now();
      await change(scene, `changed ${n}`);
      await heard.promise;
      took.push(performance.now() - began);
    }
    for (const { close } of listeners) close();
    return [
      {
        name: 'from a change to all of three API processes, p99',
        ours: ms(percentile(took, 0.99)),
        target: { of: 'ours', atMost: 250 },
        notes: [
          `p50 ${digits(median(took))} ms, most ${digits(Math.max(...took))} ms, ${changes} changes, the request included`,
        ],
      },
    ];
  },
};

const wanted = 10_000;

const openAll = async (url: string, agent: Agent, onChange: () => void): Promise<Listening[]> => {
  const all: Listening[] = [];
  while (all.length < wanted)
    all.push(...(await Promise.all(Array.from({ length: 100 }, () => listenTo(url, agent, onChange)))));
  return all;
};

const rest = (milliseconds: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, milliseconds));

const measureListeners = async (bench: Bench) => {
  const scene = await flagScene(bench);
  const env = { PLINTH_CONNECTIONS: '20000', PLINTH_CONNECTIONS_PER_ADDRESS: '20000', PLINTH_FLAG_LISTENERS: '20000' };
  const server = await bench.servers.start({ ...apiSpec('flags-listened', env), nodeArgs: ['--expose-gc'] });
  const url = await streamOf(server, scene);
  const agent = new Agent({ keepAlive: false, maxSockets: Infinity });
  let heard = Promise.withResolvers<void>();
  let left = 0;
  const note = (): void => {
    left -= 1;
    if (left === 0) heard.resolve();
  };
  await rest(2000);
  const before = memoryOf(server.pid);
  const all = await openAll(url, agent, note);
  await rest(3000);
  const after = memoryOf(server.pid);
  const took: number[] = [];
  for (let n = 0; n < 5; n += 1) {
    heard = Promise.withResolvers();
    left = wanted;
    const began = performance.now();
    await change(scene, `to all ${n}`);
    await heard.promise;
    took.push(performance.now() - began);
  }
  for (const { close } of all) close();
  return { before, after, took };
};

export const listeners: Benchmark = {
  name: 'flags/listeners',
  run: async (bench) => {
    const { before, after, took } = await measureListeners(bench);
    return [
      {
        name: `memory of a listener, of ${wanted} in one process`,
        ours: { value: ((after.rssMb - before.rssMb) * 1000) / wanted, unit: 'KB' },
        target: { of: 'ours', atMost: 20 },
        notes: [`the process: ${digits(before.rssMb)} MB before, ${digits(after.rssMb)} MB with all of them`],
      },
      {
        name: `from a change to all of ${wanted} listeners of one process`,
        ours: ms(Math.max(...took)),
        target: { of: 'ours', atMost: 1000 },
        notes: [`five changes: ${took.map((time) => digits(time)).join(', ')} ms, the request included`],
      },
    ];
  },
};
