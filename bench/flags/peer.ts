import { existsSync } from 'node:fs';
import path from 'node:path';
import { createThrowawayDatabase } from '#scripts/infra/throwaway-database.ts';
import { apiSpec } from '../data/scene.ts';
import { type Bench, type Benchmark, type Row, allRight, byTurns, digits, median, range } from '../harness.ts';
import type { LoadPlan } from '../load.ts';
import type { Server } from '../servers.ts';
import { requiredIn } from '../settings.ts';
import { body, cpuMicros, flagScene } from './serving.ts';

/** `npm install unleash-server@8.2` in a folder that BENCH_UNLEASH names; plinth does not depend on it. */
const installed = (): string | null => {
  const folder = process.env['BENCH_UNLEASH'] ?? '';
  return existsSync(path.join(folder, 'node_modules/unleash-server')) ? folder : null;
};

const adminToken = '*:*.bench-admin-token-0123456789';
const frontendToken = 'default:development.bench-frontend-token-0123456789';

const startUnleash = (bench: Bench, folder: string, database: string): Promise<Server> =>
  bench.servers.start({
    name: 'unleash',
    file: 'bench/floors/unleash.ts',
    env: {
      BENCH_PEER: folder,
      BENCH_DATABASE: database,
      NODE_ENV: 'production',
      INIT_ADMIN_API_TOKENS: adminToken,
      INIT_FRONTEND_API_TOKENS: frontendToken,
      // Its own limit of 20,000 a minute would end the measurement.
      SDK_API_RATE_LIMIT_PER_MINUTE: '100000000',
      TOKEN_AUTHENTICATION_RATE_LIMIT_PER_MINUTE: '100000000',
    },
  });

const constraint = (contextName: string, values: readonly string[]) => ({ contextName, operator: 'IN', values });
const rollout = (groupId: string, percent: number, constraints: readonly object[]) => ({
  name: 'flexibleRollout',
  constraints,
  parameters: { rollout: String(percent), stickiness: 'userId', groupId },
});

/** The rules of the flags that ours answers: in place of values each is on or off. */
const strategiesOf = (key: string) => [
  rollout(key, 100, [constraint('plan', ['enterprise'])]),
  rollout(key, 100, [constraint('country', ['DE', 'AT'])]),
  rollout(key, 50, []),
];

const fill = async ({ url }: Server): Promise<void> => {
  const post = async (place: string, value?: object): Promise<void> => {
    const headers = { authorization: adminToken, 'content-type': 'application/json' };
    const text = value && JSON.stringify(value);
    const answer = await fetch(`${url}/api/admin/projects/default/features${place}`, {
      method: 'POST',
      headers,
      ...(text !== undefined && { body: text }),
    });
    if (!answer.ok) throw new Error(await answer.text());
  };
  for (let n = 0; n < 50; n += 1) {
    const environment = `/flag-${n}/environments/development`;
    await post('', { name: `flag-${n}`, type: 'release' });
    for (const strategy of strategiesOf(`flag-${n}`)) await post(`${environment}/strategies`, strategy);
    await post(`${environment}/on`);
  }
};

const peerBody = JSON.stringify({
  context: {
    userId: 'user-1',
    properties: { plan: 'free', country: 'CH', email: 'user-1@example.com' },
  },
});

const answersFlags = async (url: string, headers: Record<string, string>): Promise<number> => {
  for (const until = performance.now() + 30_000; performance.now() < until;) {
    const answer = await fetch(url, { method: 'POST', headers, body: peerBody });
    if (!answer.ok) throw new Error(await answer.text());
    const { toggles } = (await answer.json()) as { readonly toggles: readonly unknown[] };
    if (toggles.length > 0) return toggles.length;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  throw new Error('unleash-server serves none of its flags');
};

const compare = async (bench: Bench, folder: string, database: string): Promise<Row> => {
  const peer = await startUnleash(bench, folder, database);
  await fill(peer);
  const json = { 'content-type': 'application/json' };
  const peerHeaders = { ...json, authorization: frontendToken };
  const on = await answersFlags(`${peer.url}/api/frontend`, peerHeaders);
  const { project } = await flagScene(bench);
  const ours = await bench.servers.start(apiSpec('flags-api'));
  const load = (server: Server, of: Pick<LoadPlan, 'headers' | 'requests'>) => async () =>
    allRight(
      await bench.servers.load({
        callers: 32,
        warmUp: { seconds: 1 },
        extent: { seconds: 3 },
        status: 200,
        ...of,
        url: server.url,
        pid: server.pid,
      }),
    );
  const path = `/p/${project.ref}/ofrep/v1/evaluate/flags`;
  const pairs = await byTurns(
    5,
    load(ours, {
      headers: { ...json, apikey: project.publishableKey },
      requests: [{ method: 'POST', path, body }],
    }),
    load(peer, { headers: peerHeaders, requests: [{ method: 'POST', path: '/api/frontend', body: peerBody }] }),
  );
  const [mine, theirs] = [pairs.map((pair) => cpuMicros(pair.ours)), pairs.map((pair) => cpuMicros(pair.floor))];
  return {
    name: 'OFREP, 50 flags; floor: unleash-server 8.2, its frontend API',
    ours: { value: median(mine), unit: 'µs CPU' },
    floor: { value: median(theirs), unit: 'µs CPU' },
    ratio: median(pairs.map((pair) => cpuMicros(pair.ours) / cpuMicros(pair.floor))),
    target: { of: 'ratio', atMost: 0.2 },
    notes: [
      `ours: ${range(mine)} µs, unleash: ${range(theirs)} µs; it answers the ${digits(on)} of 50 that are on, ours all`,
    ],
  };
};

/** Skipped where the peer is not installed. */
export const peer: Benchmark = {
  name: 'flags/unleash',
  run: async (bench) => {
    const folder = installed();
    if (folder === null) {
      bench.print('flags/unleash is skipped: BENCH_UNLEASH names no folder with unleash-server');
      return [];
    }
    const database = await createThrowawayDatabase(requiredIn(bench.env, 'DATABASE_URL'));
    try {
      return [await compare(bench, folder, database.url)];
    } finally {
      await bench.servers.stopAll();
      await database.drop();
    }
  },
};
