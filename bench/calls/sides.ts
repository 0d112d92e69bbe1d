import { randomBytes } from 'node:crypto';
import path from 'node:path';
import { createProject, deploy, signUp } from '../client.ts';
import { type Bench, allRight } from '../harness.ts';
import { onControlDatabase, withPostgres } from '../jobs/database.ts';
import { withRedis } from '../jobs/round.ts';
import type { LoadPlan, LoadResult } from '../load.ts';
import type { Server } from '../servers.ts';
import { requiredIn } from '../settings.ts';
import { type Cost, type Payers, costBetween, costNow, postmasterOf } from './cost.ts';

type RequestPlan = Pick<LoadPlan, 'url' | 'headers' | 'requests' | 'status' | 'mustHold'>;

/** One load, and what it cost everybody but the process that drives it. */
export interface Measured {
  readonly result: LoadResult;
  readonly cost: Cost;
}

/** One API with its workers, and how it is called. */
export interface Side {
  readonly processes: readonly Server[];
  readonly measure: (callers: number, seconds: number, plan?: RequestPlan) => Promise<Measured>;
}

export interface Platform extends Side {
  readonly call: RequestPlan;
  readonly read: RequestPlan;
}

const noOp = 'export const handler = () => null;';

interface Load {
  readonly plan: RequestPlan;
  readonly callers: number;
  readonly seconds: number;
}

const load = async (bench: Bench, { plan, callers, seconds }: Load): Promise<LoadResult> =>
  allRight(await bench.servers.load({ ...plan, callers, warmUp: { requests: 0 }, extent: { seconds } }));

const sideOf = (bench: Bench, payers: Omit<Payers, 'redis'>, own: RequestPlan, processes: readonly Server[]): Side => ({
  processes,
  measure: (callers, seconds, plan = own) =>
    withRedis(bench, async (redis) => {
      await load(bench, { plan, callers, seconds: 1 });
      const before = await costNow({ ...payers, redis });
      const result = await load(bench, { plan, callers, seconds });
      return { result, cost: costBetween(before, await costNow({ ...payers, redis })) };
    }),
});

const plansOf = async (url: string): Promise<Pick<Platform, 'call' | 'read'>> => {
  const user = await signUp(url);
  const project = await createProject(url, user);
  const fn = await deploy(url, user, project, noOp);
  const common = { url, headers: user.headers, status: 200 };
  return {
    call: {
      ...common,
      requests: [{ method: 'POST', path: `/projects/${project}/functions/${fn}/invoke`, body: '{"payload":null}' }],
      mustHold: '"status":"success"',
    },
    read: { ...common, requests: [{ method: 'GET', path: `/projects/${project}` }], mustHold: `"id":"${project}"` },
  };
};

/**
 * Our API and two workers as `npm start` has them, but for rate limits.
 * @param nodeArgs for each process
 */
export const onPlatform = <T>(
  bench: Bench,
  work: (platform: Platform) => Promise<T>,
  nodeArgs: readonly string[] = [],
): Promise<T> =>
  onControlDatabase(bench, async (databaseUrl) => {
    const env = {
      DATABASE_URL: databaseUrl,
      PLINTH_REDIS_PREFIX: `bench-${randomBytes(6).toString('hex')}`,
      PLINTH_RATE_LIMITS: 'off',
      PLINTH_LOG_FORMAT: 'json',
    };
    const start = (name: string, file: string, more: Record<string, string> = {}): Promise<Server> =>
      bench.servers.start({ name, file, env: { ...env, ...more }, nodeArgs: ['--no-node-snapshot', ...nodeArgs] });
    const [api, ...workers] = await Promise.all([
      start('calls-api', 'api/server.ts'),
      ...['worker-1', 'worker-2'].map((name) =>
        start(`calls-${name}`, 'workers/server.ts', { PLINTH_WORKER_NAME: name }),
      ),
    ]);
    try {
      const plans = await plansOf(api.url);
      const payers = {
        api: api.pid,
        workers: workers.map(({ pid }) => pid),
        postmaster: await withPostgres(databaseUrl, postmasterOf),
      };
      return await work({ ...sideOf(bench, payers, plans.call, [api, ...workers]), ...plans });
    } finally {
      await Promise.all([api, ...workers].map((process) => process.stop()));
    }
  });

const chainTable = 'create table chain_jobs (id uuid primary key, status text not null, data text, result text)';

/** The same call as a good developer would write it who promises nothing. */
export const onChain = <T>(bench: Bench, work: (chain: Side) => Promise<T>): Promise<T> =>
  onControlDatabase(bench, async (databaseUrl) => {
    await withPostgres(databaseUrl, (client) => client.query(chainTable));
    const env = {
      DATABASE_URL: databaseUrl,
      REDIS_URL: requiredIn(bench.env, 'REDIS_URL'),
      BENCH_PREFIX: `chain-${randomBytes(6).toString('hex')}`,
    };
    const nodeArgs = ['--no-node-snapshot'];
    const worker = await bench.servers.start({
      name: 'chain-worker',
      file: path.join('bench/floors', 'chain-worker.ts'),
      env,
      nodeArgs,
    });
    const api = await bench.servers.start({ name: 'chain-api', file: 'bench/floors/chain-api.ts', env });
    try {
      const plan: RequestPlan = {
        url: api.url,
        headers: { 'content-type': 'application/json' },
        requests: [{ method: 'POST', path: '/invoke', body: '{"payload":null}' }],
        status: 200,
        mustHold: '"status":"success"',
      };
      const postmaster = await withPostgres(databaseUrl, postmasterOf);
      return await work(sideOf(bench, { api: api.pid, workers: [worker.pid], postmaster }, plan, [api, worker]));
    } finally {
      await Promise.all([api.stop(), worker.stop()]);
    }
  });
