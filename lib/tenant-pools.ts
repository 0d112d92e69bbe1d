import { LRUCache } from 'lru-cache';
import { Pool, type PoolClient } from 'pg';
import type { Log } from './log.ts';

export interface TenantLogin {
  readonly host: string;
  readonly port: number;
  readonly database: string;
  readonly user: string;
  readonly password: string;
}

/** One (project, role)'s connections. */
export interface TenantPool {
  readonly pool: Pool;
  /** Who uses the pool or waits for it: while above 0 it stays open. */
  borrowed: number;
}

/** The open pools of a process, under one budget of connections. */
export interface TenantPools {
  readonly find: (key: string) => TenantPool | undefined;
  readonly add: (key: string, login: TenantLogin) => TenantPool;
  /** A connection of that pool; where that needs a new one beyond the budget, an idle one of another pool goes first. */
  readonly connect: (tenant: TenantPool) => Promise<PoolClient>;
  readonly end: (key: string) => Promise<void>;
  readonly endAll: () => Promise<void>;
  /** Open connections, idle ones too. */
  readonly open: () => number;
}

const connectionsPerPool = 4;
const mostPools = 10_000;
const idleMs = 30_000;

const openPool = (login: TenantLogin, connectMs: number, log: Log): TenantPool => {
  const pool = new Pool({
    ...login,
    max: connectionsPerPool,
    connectionTimeoutMillis: connectMs,
    idleTimeoutMillis: idleMs,
    keepAlive: true,
    options: '-c standard_conforming_strings=on',
  });
  pool.on('error', (error) => log.debug({ err: error }, 'an idle tenant connection broke'));
  return { pool, borrowed: 0 };
};

export const createTenantPools = (budget: number, connectMs: number, log: Log): TenantPools => {
  const pools = new LRUCache<string, TenantPool>({ max: mostPools });

  const open = (): number => [...pools.values()].reduce((sum, { pool }) => sum + pool.totalCount, 0);

  const end = async (key: string): Promise<void> => {
    const tenant = pools.get(key);
    pools.delete(key);
    await tenant?.pool.end().catch((error: unknown) => log.warn({ err: error }, 'a tenant pool did not close'));
  };

  /** Closes an idle connection of the pool that was used longest ago; false when none is idle. */
  const closeAnIdleOne = async (apartFrom: TenantPool): Promise<boolean> => {
    const oldestFirst = [...pools.entries()].toReversed();
    const victim = oldestFirst.find(([, other]) => other !== apartFrom && other.pool.idleCount > 0);
    if (victim === undefined) return false;
    const [key, { borrowed, pool }] = victim;
    if (borrowed === 0) await end(key);
    else (await pool.connect()).release(true);
    return true;
  };

  return {
    find: (key) => pools.get(key),
    add: (key, login) => {
      const tenant = openPool(login, connectMs, log);
      pools.set(key, tenant);
      return tenant;
    },
    connect: async (tenant) => {
      const { pool } = tenant;
      const needsNew = (): boolean => pool.idleCount === 0 && pool.totalCount < connectionsPerPool;
      while (needsNew() && open() >= budget) {
        if (!(await closeAnIdleOne(tenant))) break;
      }
      // In the same turn as the last look at the budget: nobody gets in between.
      return pool.connect();
    },
    end,
    endAll: async () => {
      await Promise.all([...pools.keys()].map((key) => end(key)));
    },
    open,
  };
};
