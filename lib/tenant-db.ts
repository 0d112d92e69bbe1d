import { type ClientBase, DatabaseError } from 'pg';
import { Refusal, ServiceError } from './errors.ts';
import type { Log } from './log.ts';
import { lowerPriority } from './postgres/lower-priority.ts';
import { TenantConnections, type TenantLogin } from './tenant-connections.ts';

/**
 * As whom a project's database is used (design, section 6). `auth` has the secrets of the project's users; `users`
 * writes `auth.users`, so that the project's triggers run as it, and reads none of them (decision 054).
 */
export const tenantRoles = ['owner', 'api', 'service', 'reader', 'auth', 'users'] as const;
export type TenantRole = (typeof tenantRoles)[number];

/**
 * How long a statement of a role may take, in seconds: functions run for 300 (owner), what the others do are requests.
 * A session can lift it; then the watchdog ends what runs.
 */
export const statementTimeoutSeconds = {
  owner: 300,
  api: 30,
  service: 30,
  reader: 30,
  auth: 5,
  users: 5,
} as const satisfies Record<TenantRole, number>;

/** How long a session may sit in a transaction that it opened, in seconds. */
export const idleInTransactionSeconds = 60;

/** Roles that only the platform uses: its SQL names every schema, so nothing of the project's is ever found in its place. */
const isPlatformOnly = (role: TenantRole): boolean => role === 'auth' || role === 'users';

/**
 * The start-up options of every session. A role can ALTER itself to begin with other values, which would change how our
 * SQL is parsed, which objects it finds and how its values are written; start-up options take precedence over that.
 */
const sessionSettings = (role: TenantRole): Readonly<Record<string, string>> => ({
  statement_timeout: `${statementTimeoutSeconds[role]}s`,
  idle_in_transaction_session_timeout: `${idleInTransactionSeconds}s`,
  // The owner can lock auth.users in a transaction of its own: only this project's sign-ins wait for it.
  lock_timeout: isPlatformOnly(role) ? '2s' : '0',
  idle_session_timeout: '0',
  search_path: isPlatformOnly(role) ? 'pg_catalog' : 'public',
  role: 'none',
  row_security: 'on',
  default_transaction_read_only: 'off',
  default_transaction_isolation: 'read committed',
  default_transaction_deferrable: 'off',
  standard_conforming_strings: 'on',
  backslash_quote: 'safe_encoding',
  array_nulls: 'on',
  transform_null_equals: 'off',
  quote_all_identifiers: 'off',
  DateStyle: 'ISO, MDY',
  IntervalStyle: 'postgres',
  TimeZone: 'UTC',
  bytea_output: 'hex',
  extra_float_digits: '1',
  xmlbinary: 'base64',
  xmloption: 'content',
  check_function_bodies: 'on',
  // Notices of requests are not read, and a flood of them would count as their answer.
  client_min_messages: role === 'owner' || role === 'reader' ? 'notice' : 'error',
  default_tablespace: '',
  temp_tablespaces: '',
  default_table_access_method: 'heap',
  local_preload_libraries: '',
  plan_cache_mode: 'auto',
  // Settings that keep planning short, however many tables a request joins.
  join_collapse_limit: '8',
  from_collapse_limit: '8',
  geqo: 'on',
  geqo_threshold: '12',
  // The user that triggers and functions see where a secret key is used.
  ...(role === 'service' && { 'request.jwt.claims': '{"role":"service_role"}' }),
});

export interface TenantDbOptions {
  /** Connections of this process to all project databases together. */
  readonly budget: number;
  readonly login: (projectId: string, role: TenantRole) => Promise<TenantLogin>;
  readonly log: Log;
  /** How long a use waits for a connection, in ms; 2 s unless given. */
  readonly waitMs?: number;
}

/** A connection that is lent until it is given back. */
export interface TenantLease {
  readonly client: ClientBase;
  /** @param usable false: it is closed; so is one that is still in a transaction */
  readonly giveBack: (usable: boolean) => void;
}

export interface TenantDb {
  /**
   * Lends a connection to a project's database for the time of `work`.
   * @throws {ServiceError} `dependency_unavailable` when no connection was free within 2 s
   */
  readonly use: <T>(projectId: string, role: TenantRole, work: (client: ClientBase) => Promise<T>) => Promise<T>;
  /**
   * As `use`, for work that is known to be large: the server processes of these connections yield to all others that
   * want a processor, where the server runs on this machine. They are kept in a store of their own, two for each
   * project and role, since the priority of a process cannot be raised again without privileges.
   */
  readonly useAtLowPriority: TenantDb['use'];
  /**
   * Lends a connection for longer than one piece of work, from a store of its own: long and short borrowers do not wait
   * for each other. The borrower must reset settings, prepared statements and any other session state that outlives a
   * statement.
   * @throws {ServiceError} as `use`
   */
  readonly lease: (projectId: string, role: TenantRole) => Promise<TenantLease>;
  /** Closes what is idle to a project's database, and lends none of it again: before it is renamed or dropped. */
  readonly release: (projectId: string) => Promise<void>;
  /** Connections that are there; never above the budget. */
  readonly open: () => number;
  readonly close: () => Promise<void>;
}

const connectionsPerRole = 4;
// More than the functions that one worker runs at a time: each holds one, and some need a second for a transaction.
const leasesPerRole = 12;
const lowPriorityPerRole = 2;
const usualWaitMs = 2000;
const idleMs = 30_000;

const busy = (): ServiceError =>
  new ServiceError('dependency_unavailable', 'All connections to project databases are busy. Try again shortly.', {
    headers: { 'Retry-After': '1' },
  });

/**
 * An error that the server reported, or a refusal of ours, leaves a usable connection; after any other error it may be
 * in the middle of a statement.
 */
export const leavesUsable = (error: unknown): boolean =>
  error instanceof Refusal || (error instanceof DatabaseError && error.severity === 'ERROR');

type Store = 'usual' | 'leased' | 'low';
const stores: readonly Store[] = ['usual', 'leased', 'low'];
const perStore: Readonly<Record<Store, number>> = {
  usual: connectionsPerRole,
  leased: leasesPerRole,
  low: lowPriorityPerRole,
};

const keyOf = (projectId: string, role: TenantRole, store: Store): string => `${projectId}:${role}:${store}`;

const partsOf = (key: string): { readonly projectId: string; readonly role: TenantRole; readonly store: Store } => {
  const [projectId = '', role, store] = key.split(':');
  return { projectId, role: role as TenantRole, store: store as Store };
};

/**
 * At most 4 connections per (project, role), 12 that are leased and 2 of low priority, under one budget for the
 * process. Idle connections count, too: when the budget is used up, one of the project goes that was used least of
 * late. Opening one costs some ms, a warm one 0.04 ms.
 */
export const createTenantDb = ({ budget, login, log, waitMs = usualWaitMs }: TenantDbOptions): TenantDb => {
  const connections = new TenantConnections({
    budget,
    perKey: (key) => perStore[partsOf(key).store],
    waitMs,
    idleMs,
    ownerOf: (key) => partsOf(key).projectId,
    login: (key) => {
      const { projectId, role } = partsOf(key);
      return login(projectId, role);
    },
    settings: (key) => sessionSettings(partsOf(key).role),
    prepare: async (key, client) => {
      if (partsOf(key).store === 'low') await lowerPriority(client);
    },
    refusal: busy,
    log,
  });
  const useOf =
    (store: Store): TenantDb['use'] =>
    async (projectId, role, work) => {
      const connection = await connections.take(keyOf(projectId, role, store));
      let usable = true;
      try {
        return await work(connection.client);
      } catch (error) {
        usable = leavesUsable(error);
        throw error;
      } finally {
        connections.giveBack(connection, usable);
      }
    };
  return {
    use: useOf('usual'),
    useAtLowPriority: useOf('low'),
    lease: async (projectId, role) => {
      const connection = await connections.take(keyOf(projectId, role, 'leased'));
      return { client: connection.client, giveBack: (usable) => connections.giveBack(connection, usable) };
    },
    release: async (projectId) => {
      const keys = tenantRoles.flatMap((role) => stores.map((store) => keyOf(projectId, role, store)));
      await Promise.all(keys.map((key) => connections.retire(key)));
    },
    open: () => connections.count,
    close: () => connections.close(),
  };
};
