import { randomBytes } from 'node:crypto';
import { Browser } from '#test/oauth/browser.ts';
import { type Cpu, type Scene, ms, onScene, partsOf, password, rounds } from './auth/scene.ts';
import { databaseUrlOf } from './data/scene.ts';
import {
  type Bench,
  type Benchmark,
  allRight,
  byTurns,
  digits,
  median,
  megabytes,
  ms as wallMs,
  percentile,
  range,
} from './harness.ts';
import type { LoadResult } from './load.ts';
import { memoryOf } from './proc.ts';
import type { Server } from './servers.ts';

interface Client {
  readonly client_id: string;
  readonly client_secret: string;
}

const redirectUri = 'https://app.example.com/callback';

const newClient = async ({ api, user, project }: Scene): Promise<Client> => {
  const response = await fetch(`${api.url}/projects/${project.id}/oauth/clients`, {
    method: 'POST',
    headers: user.headers,
    body: JSON.stringify({ name: 'bench', redirect_uris: [redirectUri] }),
  });
  return (await response.json()) as Client;
};

const grant = async (url: string, fields: Readonly<Record<string, string>>): Promise<string> => {
  const response = await fetch(url, { method: 'POST', body: new URLSearchParams(fields) });
  const answer = (await response.json()) as { refresh_token?: string };
  if (answer.refresh_token === undefined) throw new Error(`${url} answered ${response.status}`);
  return answer.refresh_token;
};

/** The challenge of a verifier of 43 times the letter a. */
const verifier = 'a'.repeat(43);
const challenge = 'ZtNPunH49FD35FWYhT5Tv8I7vRKQJ8uxMaL0_9eHjNA';

/** The first refresh token of a new user, who signs in on the pages. */
const signIn = async ({ api, project }: Scene, client: Client): Promise<string> => {
  const issuer = `${api.url}/oauth/${project.id}`;
  const email = `${randomBytes(8).toString('hex')}@example.com`;
  await fetch(`${api.url}/p/${project.ref}/auth/v1/signup`, {
    method: 'POST',
    headers: { apikey: project.publishableKey, 'content-type': 'application/json' },
    body: JSON.stringify({ email, password }),
  });
  const query = new URLSearchParams({
    client_id: client.client_id,
    redirect_uri: redirectUri,
    response_type: 'code',
    scope: 'openid profile email',
    code_challenge: challenge,
    code_challenge_method: 'S256',
  });
  const browser = new Browser(api.url);
  const consent = await browser.submit(await browser.open(`${issuer}/authorize?${query.toString()}`), '/login', {
    email,
    password,
  });
  const { url } = await browser.submit(consent, '/consent');
  return grant(`${issuer}/token`, {
    grant_type: 'authorization_code',
    code: new URL(url).searchParams.get('code') ?? '',
    code_verifier: verifier,
    redirect_uri: redirectUri,
    ...client,
  });
};

const chains = 8;
const refreshesInChain = 50;

/** Trades tokens one after the other, in several chains at once; each round goes on where the one before ended. */
const chainsOf = (url: string, client: Client, first: readonly string[]): (() => Promise<number>) => {
  let tokens = [...first];
  return async () => {
    tokens = await Promise.all(
      tokens.map(async (start) => {
        let token = start;
        for (let n = 0; n < refreshesInChain; n += 1) {
          token = await grant(url, { grant_type: 'refresh_token', refresh_token: token, ...client });
        }
        return token;
      }),
    );
    return chains * refreshesInChain;
  };
};

const plainChains = async (plain: Server): Promise<() => Promise<number>> => {
  const made: (Client & { readonly token: string })[] = [];
  for (let n = 0; n < chains; n += 1) made.push((await plain.request('token')) as (typeof made)[number]);
  const [{ client_id, client_secret } = { client_id: '', client_secret: '' }] = made;
  return chainsOf(
    `${plain.url}/token`,
    { client_id, client_secret },
    made.map(({ token }) => token),
  );
};

const all = (costs: readonly Cpu[]): number[] => costs.map((cost) => cost.all);

const refresh: Benchmark = {
  name: 'oauth/refresh',
  run: (bench) =>
    onScene(bench, async (scene) => {
      const env = { DATABASE_URL: databaseUrlOf(bench, scene.project) };
      const plain = await bench.servers.start({ name: 'plain-oidc', file: 'bench/floors/plain-oidc.ts', env });
      const client = await newClient(scene);
      const first = await Promise.all(Array.from({ length: chains }, () => signIn(scene, client)));
      const { client_id, client_secret } = client;
      const url = `${scene.api.url}/oauth/${scene.project.id}/token`;
      const [ours, floor] = [chainsOf(url, { client_id, client_secret }, first), await plainChains(plain)];
      await ours();
      await floor();
      const pairs = await byTurns(
        rounds,
        () => scene.cpuOf(ours),
        () => scene.cpuOf(floor, plain.pid),
      );
      await plain.stop();
      const [mine, theirs] = [pairs.map((pair) => pair.ours), pairs.map((pair) => pair.floor)];
      return [
        {
          name: 'refresh grant of a client; floor: plain oidc-provider with PostgreSQL',
          ours: ms(median(all(mine))),
          floor: ms(median(all(theirs))),
          ratio: median(pairs.map((pair) => pair.ours.all / pair.floor.all)),
          target: { of: 'ratio', atMost: 0.6 },
          notes: [
            `ours: ${range(all(mine))} ms, ${partsOf(mine)}; ${chains} callers`,
            `floor: ${range(all(theirs))} ms, ${partsOf(theirs)}`,
          ],
        },
      ];
    }),
};

const cpuMs = ({ latencies, cpuSeconds }: LoadResult): number => (cpuSeconds / latencies.length) * 1000;

const documents: Benchmark = {
  name: 'oauth/documents',
  run: (bench) =>
    onScene(bench, async (scene) => {
      const bare = await bench.servers.start({ name: 'bare-json', file: 'bench/floors/bare-json.ts' });
      await signIn(scene, await newClient(scene));
      const load = (server: Server, path: string) => async (): Promise<LoadResult> =>
        allRight(
          await bench.servers.load({
            url: server.url,
            headers: {},
            requests: [{ method: 'GET', path: `/oauth/${scene.project.id}${path}` }],
            callers: 32,
            warmUp: { seconds: 1 },
            extent: { seconds: 2 },
            status: 200,
            pid: server.pid,
          }),
        );
      const rowOf = async (name: string, path: string) => {
        const pairs = await byTurns(rounds, load(scene.api, path), load(bare, '/document'));
        return {
          name: `${name}; floor: bare Koa`,
          ours: ms(median(pairs.map((pair) => cpuMs(pair.ours)))),
          floor: ms(median(pairs.map((pair) => cpuMs(pair.floor)))),
          ratio: median(pairs.map((pair) => cpuMs(pair.ours) / cpuMs(pair.floor))),
          target: { of: 'ratio', atMost: 3 } as const,
          notes: [`ours: ${range(pairs.map((pair) => cpuMs(pair.ours)))} ms`],
        };
      };
      return [
        await rowOf('discovery', '/.well-known/openid-configuration'),
        await rowOf('JWKS', '/.well-known/jwks.json'),
      ];
    }),
};

interface IssuersRun {
  readonly latencies: readonly number[];
  readonly heapMb: number;
}

const issuerCount = 1000;

const issuers: Benchmark = {
  name: 'oauth/issuers',
  run: async (bench: Bench) => {
    const server = await bench.servers.start({
      name: 'issuers',
      file: 'bench/auth/issuers-process.ts',
      nodeArgs: ['--expose-gc'],
    });
    const warm = (await server.request('warm')) as IssuersRun;
    const before = memoryOf(server.pid).rssMb;
    const run = (await server.request(String(issuerCount))) as IssuersRun;
    const grown = memoryOf(server.pid).rssMb - before;
    await server.stop();
    const p99 = percentile(run.latencies, 0.99);
    return [
      {
        name: `${issuerCount} issuers in one process, asked in turn: memory`,
        ours: megabytes(grown),
        target: { of: 'ours', atMost: 100 },
        notes: [`of which live objects ${digits(run.heapMb - warm.heapMb)} MB; the rest is what V8 keeps for itself`],
      },
      {
        name: 'first request to a cold issuer, p99, without the database',
        ours: wallMs(p99),
        target: { of: 'ours', atMost: 15 },
        notes: [`p50 ${digits(median(run.latencies))} ms`],
      },
    ];
  },
};

/** The OpenID provider of projects. */
export const oauthBenchmarks: readonly Benchmark[] = [refresh, documents, issuers];
