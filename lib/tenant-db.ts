import { type ClientBase, DatabaseError } from 'pg';
import { Refusal, ServiceError } from './errors.ts';
import type { Log } from './log.ts';
import { TenantConnections, type TenantLogin } from './tenant-connections.ts';

/** As whom a project's database is used (design, section 6). */
export const tenantRoles = ['owner', 'api', 'service', 'reader'] as const;
export type TenantRole = (typeof tenantRoles)[number];

/**
 * How long a statement of a role may take, in seconds: functions run for 300 (owner), what the others do are requests. A
 * session can lift it; then the watchdog ends what runs.
 */
export const statementTimeoutSeconds = {
  owner: 300,
  api: 30,
  service: 30,
  reader: 30,
} as const satisfies Record<TenantRole, number>;

/** How long a session may sit in a transaction that it opened, in seconds. */
export const idleInTransactionSeconds = 60;

/**
 * What every session begins with. A role can ALTER itself to begin with something else, which would change how our SQL is
 * read, what it finds and how its values are written: what comes with the start-up wins over that.
 */
const sessionSettings = (role: TenantRole): Readonly<Record<string, string>> => ({
  statement_timeout: `${statementTimeoutSeconds[role]}s`,
  idle_in_transaction_session_timeout: `${idleInTransactionSeconds}s`,
  lock_timeout: '0',
  idle_session_timeout: '0',
  search_path: 'public',
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
  // Nobody reads the notices of requests, and a flood of them would count as their answer.
  client_min_messages: role === 'api' || role === 'service' ? 'error' : 'notice',
  default_tablespace: '',
  temp_tablespaces: '',
  default_table_access_method: 'heap',
  local_preload_libraries: '',
  plan_cache_mode: 'auto',
  // What keeps planning short, however many tables a request joins.
  join_collapse_limit: '8',
  from_collapse_limit: '8',
  geqo: 'on',
  geqo_threshold: '12',
  // Whom triggers and functions see where a secret key asks.
  ...(role === 'service' && { 'request.jwt.claims': '{"role":"service_role"}' }),
});

export interface TenantDbOptions {
  /** Connections of this process to all project databases together. */
  readonly budget: number;
  readonly login: (projectId: string, role: TenantRole) => Promise<TenantLogin>;
  readonly log: Log;
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
   * Lends a connection to whoever keeps it for longer than one piece of work, from a store of its own: those who keep
   * connections and those who need one shortly do not wait for each other. Settings, prepared statements and whatever
   * else of a session outlives a statement is the borrower's to clear.
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
const waitMs = 2000;
const idleMs = 30_000;

const busy = (): ServiceError =>
  new ServiceError('dependency_unavailable', 'All connections to project databases are busy. Try again shortly.', {
    headers: { 'Retry-After': '1' },
  });

/** What the server refused, and what we refused ourselves, leaves a usable connection; anything else may be half-way. */
export const leavesUsable = (error: unknown): boolean =>
  error instanceof Refusal || (error instanceof DatabaseError && error.severity === 'ERROR');

const leased = 'leased';
const keyOf = (projectId: string, role: TenantRole): string => `${projectId}:${role}`;
const leaseKeyOf = (projectId: string, role: TenantRole): string => `${projectId}:${role}:${leased}`;

/**
 * At most 4 connections per (project, role), and 12 that are leased, under one budget for the process. Idle connections
 * count, too: when the budget is used up, one of the project goes that was used least of late. Opening one costs some ms, a
 * warm one 0.04 ms.
 */
export const createTenantDb = ({ budget, login, log }: TenantDbOptions): TenantDb => {
  const connections = new TenantConnections({
    budget,
    perKey: (key) => (key.endsWith(`:${leased}`) ? leasesPerRole : connectionsPerRole),
    waitMs,
    idleMs,
    ownerOf: (key) => key.slice(0, key.indexOf(':')),
    login: (key) => {
      const [projectId = '', role] = key.split(':');
      return login(projectId, role as TenantRole);
    },
    settings: (key) => sessionSettings(key.split(':')[1] as TenantRole),
    refusal: busy,
    log,
  });
  return {
    use: async (projectId, role, work) => {
      const connection = await connections.take(keyOf(projectId, role));
      let usable = true;
      try {
        return await work(connection.client);
      } catch (error) {
        usable = leavesUsable(error);
        throw error;
      } finally {
        connections.giveBack(connection, usable);
      }
    },
    lease: async (projectId, role) => {
      const connection = await connections.take(leaseKeyOf(projectId, role));
      return { client: connection.client, giveBack: (usable) => connections.giveBack(connection, usable) };
    },
    release: async (projectId) => {
      const keys = tenantRoles.flatMap((role) => [keyOf(projectId, role), leaseKeyOf(projectId, role)]);
      await Promise.all(keys.map((key) => connections.retire(key)));
    },
    open: () => connections.count,
    close: () => connections.close(),
  };
};
