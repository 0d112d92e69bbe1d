import { argon2, randomBytes } from 'node:crypto';
import { promisify } from 'node:util';
import { runSql } from './data/scene.ts';
import { type Cpu, type Scene, ms, onScene, partsOf, password, rate, rounds } from './auth/scene.ts';
import { type Benchmark, allRight, byTurns, digits, median, perSecond, range } from './harness.ts';
import type { LoadPlan, LoadResult } from './load.ts';

interface Session {
  readonly access_token: string;
  readonly refresh_token: string;
}

const ask = async ({ api, project }: Scene, path: string, body: object): Promise<Session> => {
  const response = await fetch(`${api.url}/p/${project.ref}/auth/v1${path}`, {
    method: 'POST',
    headers: { apikey: project.publishableKey, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  if (response.status !== 200) throw new Error(`POST ${path} answered ${response.status}: ${text}`);
  return JSON.parse(text) as Session;
};

const newUser = (scene: Scene, email = `${randomBytes(8).toString('hex')}@example.com`): Promise<Session> =>
  ask(scene, '/signup', { email, password });

/** The platform's cost: `domain/accounts/passwords.ts`. */
const argon2Alone = async (count: number): Promise<number> => {
  const before = process.cpuUsage();
  for (let n = 0; n < count; n += 1) {
    const given = { message: Buffer.from(password), nonce: randomBytes(16), tagLength: 32 };
    await promisify(argon2)('argon2id', { ...given, parallelism: 1, memory: 19_456, passes: 2 });
  }
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000 / count;
};

const signInsInRound = 100;

const passwordSignIn: Benchmark = {
  name: 'auth/password',
  run: (bench) =>
    onScene(bench, async (scene) => {
      const email = `${randomBytes(8).toString('hex')}@example.com`;
      await newUser(scene, email);
      const signIns = async (): Promise<number> => {
        for (let n = 0; n < signInsInRound; n += 1) await ask(scene, '/token?grant_type=password', { email, password });
        return signInsInRound;
      };
      await signIns();
      const pairs = await byTurns(
        rounds,
        () => scene.cpuOf(signIns),
        async (): Promise<Cpu> => ({ all: await argon2Alone(signInsInRound), api: 0, postgres: 0 }),
      );
      const ours = pairs.map((pair) => pair.ours.all);
      const floor = pairs.map((pair) => pair.floor.all);
      return [
        {
          name: 'sign-in with a password; floor: the argon2id hash alone',
          ours: ms(median(ours)),
          floor: ms(median(floor)),
          ratio: median(pairs.map((pair) => pair.ours.all / pair.floor.all)),
          target: { of: 'ratio', atMost: 1.15 },
          notes: [
            `ours: ${range(ours)} ms, ${partsOf(pairs.map((pair) => pair.ours))}; one caller`,
            `floor: ${range(floor)} ms`,
          ],
        },
      ];
    }),
};

const chains = 8;
const refreshesInChain = 50;

const refreshGrant: Benchmark = {
  name: 'auth/refresh',
  run: (bench) =>
    onScene(bench, async (scene) => {
      const sessions = await Promise.all(Array.from({ length: chains }, () => newUser(scene)));
      let tokens = sessions.map((session) => session.refresh_token);
      const refreshes = async (): Promise<number> => {
        tokens = await Promise.all(
          tokens.map(async (first) => {
            let token = first;
            for (let n = 0; n < refreshesInChain; n += 1) {
              token = (await ask(scene, '/token?grant_type=refresh_token', { refresh_token: token })).refresh_token;
            }
            return token;
          }),
        );
        return chains * refreshesInChain;
      };
      await refreshes();
      const costs: Cpu[] = [];
      for (let round = 0; round < rounds; round += 1) costs.push(await scene.cpuOf(refreshes));
      return [
        {
          name: 'refresh grant',
          ours: ms(median(costs.map(({ all }) => all))),
          notes: [`${range(costs.map(({ all }) => all))} ms, ${partsOf(costs)}; ${chains} callers`],
        },
      ];
    }),
};

const table = [
  `create table notes as select n as id, 'note ' || n as body from generate_series(1, 10000) n`,
  'alter table notes add primary key (id)',
  'alter table notes enable row level security',
  'create policy everybody on notes for select to anon, authenticated using (true)',
];

const listWithToken: Benchmark = {
  name: 'auth/list',
  run: (bench) =>
    onScene(bench, async (scene) => {
      const { api, user, project } = scene;
      await runSql(api.url, user, project, ...table);
      const { access_token: token } = await newUser(scene);
      const key = { apikey: project.publishableKey };
      const plan = (headers: LoadPlan['headers']): LoadPlan => ({
        url: api.url,
        headers,
        requests: [{ method: 'GET', path: '/v1/rest/notes?select=id,body&order=id&limit=25' }],
        callers: 32,
        warmUp: { seconds: 1 },
        extent: { seconds: 3 },
        status: 200,
        mustHold: '"body":"note 25"',
        pid: api.pid,
      });
      const load = (headers: LoadPlan['headers']) => async (): Promise<LoadResult> =>
        allRight(await bench.servers.load(plan(headers)));
      const pairs = await byTurns(rounds, load({ ...key, authorization: `Bearer ${token}` }), load(key));
      const [ours, floor] = [pairs.map((pair) => rate(pair.ours)), pairs.map((pair) => rate(pair.floor))];
      return [
        {
          name: 'a list with a user’s token; floor: the same with a key',
          ours: perSecond(median(ours)),
          floor: perSecond(median(floor)),
          ratio: median(pairs.map((pair) => rate(pair.ours) / rate(pair.floor))),
          target: { of: 'ratio', atLeast: 0.9 },
          notes: [
            `ours: ${range(ours)}/s`,
            `floor: ${range(floor)}/s`,
            `p50 ${digits(median(pairs[0]?.ours.latencies ?? []))} ms`,
          ],
        },
      ];
    }),
};

const usersOfImport = 20_000;
const importRounds = 3;
const foreignHash = `$2b$10$${'a'.repeat(53)}`;

const importOf = async ({ stack, user, project }: Scene): Promise<number> => {
  const run = randomBytes(4).toString('hex');
  const users = Array.from({ length: usersOfImport }, (_, index) => ({
    email: `u${index}-${run}@example.com`,
    password_hash: foreignHash,
    user_metadata: { name: `User ${index}` },
  }));
  const before = performance.now();
  const response = await fetch(`${stack}/projects/${project.id}/users/import`, {
    method: 'POST',
    headers: { ...user.headers, prefer: 'wait=60' },
    body: JSON.stringify({ users }),
  });
  const { imported } = (await response.json()) as { readonly imported?: number };
  if (imported !== usersOfImport) throw new Error(`the import answered ${response.status} and imported ${imported}`);
  return usersOfImport / ((performance.now() - before) / 1000);
};

const importUsers: Benchmark = {
  name: 'auth/import',
  run: (bench) =>
    onScene(bench, async (scene) => {
      const rates: number[] = [];
      for (let round = 0; round < importRounds; round += 1) rates.push(await importOf(scene));
      return [
        {
          name: `an import of ${usersOfImport.toLocaleString('en')} users with bcrypt hashes`,
          ours: perSecond(median(rates)),
          target: { of: 'ours', atLeast: 2000 },
          notes: [`${range(rates)}/s, from the first byte of the request to the result`],
        },
      ];
    }),
};

/** Sign-in of a project's users. */
export const authBenchmarks: readonly Benchmark[] = [passwordSignIn, refreshGrant, listWithToken, importUsers];
