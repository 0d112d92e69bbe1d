import { DatabaseError, type PoolClient } from 'pg';
import { ServiceError } from './errors.ts';
import type { Log } from './log.ts';
import { createPermits } from './permits.ts';
import { type TenantLogin, type TenantPool, createTenantPools } from './tenant-pools.ts';

/** As whom a project's database is used (design, section 6). */
export const tenantRoles = ['owner', 'api', 'service', 'reader'] as const;
export type TenantRole = (typeof tenantRoles)[number];

export interface TenantDbOptions {
  /** Connections of this process to all project databases together. */
  readonly budget: number;
  readonly login: (projectId: string, role: TenantRole) => Promise<TenantLogin>;
  readonly log: Log;
}

export interface TenantDb {
  /**
   * Lends a connection to a project's database for the time of `work`.
   * @throws {ServiceError} `dependency_unavailable` when no connection was free within 2 s
   */
  readonly use: <T>(projectId: string, role: TenantRole, work: (client: PoolClient) => Promise<T>) => Promise<T>;
  /** Closes what is open to a project's database: before it is renamed or dropped. */
  readonly release: (projectId: string) => Promise<void>;
  /** Open connections; never above the budget. */
  readonly open: () => number;
  readonly close: () => Promise<void>;
}

const waitMs = 2000;

const busy = (): ServiceError =>
  new ServiceError('dependency_unavailable', 'All connections to project databases are busy. Try again shortly.', {
    headers: { 'Retry-After': '1' },
  });

/** A statement that the server refused leaves a usable connection; any other failure may have left it half-way. */
const leavesUsable = (error: unknown): boolean => error instanceof DatabaseError && error.severity === 'ERROR';

const keyOf = (projectId: string, role: TenantRole): string => `${projectId}:${role}`;

/**
 * One small pool per (project, role), under one budget for the process. Idle connections count, too: when the budget is
 * used up, the pool that was used longest ago gives one back. Opening one costs 5.5 ms, a warm one 0.04 ms.
 */
export const createTenantDb = ({ budget, login, log }: TenantDbOptions): TenantDb => {
  const permits = createPermits(budget, waitMs, busy);
  const pools = createTenantPools(budget, waitMs, log);

  /** Counts the borrower in the same turn in which it finds the pool, so that nobody closes the pool in between. */
  const borrow = async (projectId: string, role: TenantRole): Promise<TenantPool> => {
    const key = keyOf(projectId, role);
    const settings = pools.find(key) ? null : await login(projectId, role);
    const tenant = pools.find(key) ?? (settings && pools.add(key, settings));
    // Closed while the login was looked up: once more.
    if (tenant === null) return borrow(projectId, role);
    tenant.borrowed += 1;
    return tenant;
  };

  const lend = async <T>(tenant: TenantPool, work: (client: PoolClient) => Promise<T>): Promise<T> => {
    const client = await pools.connect(tenant);
    let usable = true;
    try {
      return await work(client);
    } catch (error) {
      usable = leavesUsable(error);
      throw error;
    } finally {
      client.release(!usable);
    }
  };

  return {
    use: async (projectId, role, work) => {
      await permits.acquire();
      try {
        const tenant = await borrow(projectId, role);
        return await lend(tenant, work).finally(() => {
          tenant.borrowed -= 1;
        });
      } finally {
        permits.release();
      }
    },
    release: async (projectId) => {
      await Promise.all(tenantRoles.map((role) => pools.end(keyOf(projectId, role))));
    },
    open: pools.open,
    close: pools.endAll,
  };
};
