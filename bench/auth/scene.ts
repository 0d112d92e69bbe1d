import { type BenchUser, signUp } from '../client.ts';
import { costBetween, costNow, postmasterOf, sumOf } from '../calls/cost.ts';
import { type DataProject, apiSpec, createDataProject, databaseUrlOf } from '../data/scene.ts';
import { type Bench, type Quantity, digits, median } from '../harness.ts';
import { withPostgres } from '../jobs/database.ts';
import { withRedis } from '../jobs/round.ts';
import type { LoadResult } from '../load.ts';
import type { Server } from '../servers.ts';
import { requiredIn } from '../settings.ts';

/** Processor time of one call, in ms. */
export interface Cpu {
  readonly all: number;
  readonly api: number;
  readonly postgres: number;
}

export interface Scene {
  /** The address of the bench's own platform, which has workers. */
  readonly stack: string;
  readonly api: Server;
  readonly user: BenchUser;
  readonly project: DataProject;
  /** Processor time of all servers together for each of so many calls. @param pid another server than the API */
  readonly cpuOf: (work: () => Promise<number>, pid?: number) => Promise<Cpu>;
}

export const password = 'correct horse battery';

/** A project of the bench's stack, reached through an API of its own. */
export const onScene = async <T>(bench: Bench, work: (scene: Scene) => Promise<T>): Promise<T> => {
  const stack = requiredIn(bench.env, 'PLINTH_TEST_BASE_URL');
  const user = await signUp(stack);
  const project = await createDataProject(stack, user);
  const api = await bench.servers.start(apiSpec('auth-api'));
  const postmaster = await withPostgres(databaseUrlOf(bench, project), postmasterOf);
  const cpuOf: Scene['cpuOf'] = (calls, pid = api.pid) =>
    withRedis(bench, async (redis) => {
      const payers = { api: pid, workers: [], postmaster };
      const before = await costNow({ ...payers, redis });
      const done = await calls();
      const cost = costBetween(before, await costNow({ ...payers, redis }));
      const each = (seconds: number): number => (seconds / done) * 1000;
      return { all: each(sumOf(cost)), api: each(cost.api), postgres: each(cost.postgres) };
    });
  try {
    return await work({ stack, api, user, project, cpuOf });
  } finally {
    await api.stop();
  }
};

export const rounds = 5;
export const ms = (value: number): Quantity => ({ value, unit: 'ms CPU' });

export const partsOf = (costs: readonly Cpu[]): string =>
  `of which API ${digits(median(costs.map(({ api }) => api)))} and PostgreSQL ${digits(median(costs.map(({ postgres }) => postgres)))}`;

export const rate = ({ latencies, seconds }: LoadResult): number => latencies.length / seconds;
