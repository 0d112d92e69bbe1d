import { readFileSync, readdirSync } from 'node:fs';
import type { Redis } from 'ioredis';
import type { Client } from 'pg';
import { redisCpu } from '../jobs/redis-cost.ts';

/** Seconds of processor time by who used it. */
export type Cost = Readonly<Record<'api' | 'workers' | 'runners' | 'redis' | 'postgres', number>>;

export const costNames = ['api', 'workers', 'runners', 'redis', 'postgres'] as const;

const ticksPerSecond = 100;

/** The ticks of a process, and those of its children that it has waited for. Null for one that ended. */
const ticksOf = (pid: number): { readonly own: number; readonly ofEnded: number } | null => {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat
      .slice(stat.lastIndexOf(')') + 2)
      .split(' ')
      .map(Number);
    const [user = 0, system = 0, usersEnded = 0, systemsEnded = 0] = fields.slice(11, 15);
    return { own: user + system, ofEnded: usersEnded + systemsEnded };
  } catch {
    return null;
  }
};

const childrenOf = (pid: number): number[] => {
  try {
    return readdirSync(`/proc/${pid}/task`).flatMap((task) =>
      readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8').split(' ').filter(Boolean).map(Number),
    );
  } catch {
    return [];
  }
};

const below = (pid: number): number[] => childrenOf(pid).flatMap((child) => [child, ...below(child)]);

const own = (pids: readonly number[]): number =>
  pids.reduce((sum, pid) => sum + (ticksOf(pid)?.own ?? 0), 0) / ticksPerSecond;

/** Everything below these processes, ended children included. */
const descendants = (pids: readonly number[]): number => {
  const ended = [...pids, ...pids.flatMap(below)].reduce((sum, pid) => sum + (ticksOf(pid)?.ofEnded ?? 0), 0);
  return own(pids.flatMap(below)) + ended / ticksPerSecond;
};

/** The server's first process: the parent of each of its sessions. Linux only. */
export const postmasterOf = async (client: Client): Promise<number> => {
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
  const stat = readFileSync(`/proc/${rows[0]?.pid ?? 0}/stat`, 'utf8');
  return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
};

export interface Payers {
  readonly api?: number;
  readonly workers: readonly number[];
  readonly postmaster: number;
  readonly redis: Redis;
}

export const costNow = async ({ api, workers, postmaster, redis }: Payers): Promise<Cost> => ({
  api: own(api === undefined ? [] : [api]),
  workers: own(workers),
  runners: descendants(workers),
  redis: await redisCpu(redis),
  postgres: own([postmaster]) + descendants([postmaster]),
});

export const costBetween = (before: Cost, after: Cost): Cost =>
  Object.fromEntries(costNames.map((name) => [name, after[name] - before[name]])) as unknown as Cost;

export const sumOf = (cost: Cost): number => costNames.reduce((sum, name) => sum + cost[name], 0);
