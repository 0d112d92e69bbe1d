import { type Client, type ClientBase, escapeIdentifier } from 'pg';
import type { Queryable } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import { createFairPermits } from '#lib/fair-permits.ts';
import { type DatabaseServers, type HostedProject, maintenanceDatabase } from './database-servers.ts';
import { shadowDatabaseName } from './names.ts';
import { type ProvisionDeps, copyDatabase, fillDatabase } from './provision.ts';
import { ensureTemplate } from './template.ts';

/*
 * A shadow: a throw-away database with a project's roles, in which its migrations run to see what schema they make. A
 * project has one at most at a time, which follows from its name. A lock on the server says that it is in use; it dies
 * with the process, and what nobody holds is dropped by a sweep.
 */

/** A shadow needs few sessions: one for the migrations and one that reads the schema. */
const connections = 6;

/** The bounds of what one run may use. */
export interface ShadowLimits {
  readonly maxBytes: number;
  readonly maxMs: number;
}

const shadowLimits: ShadowLimits = { maxBytes: 256 * 1024 * 1024, maxMs: 180_000 };

const checkEveryMs = 250;

const refusal = (): ServiceError =>
  new ServiceError('dependency_unavailable', 'Too many throw-away databases are in use. Try again shortly.', {
    headers: { 'Retry-After': '5' },
  });

/** Each copies a template, which the disk of the server feels. */
const permits = createFairPermits({ total: 2, each: 1, maxWaiting: 8, waitMs: 60_000, refusal });

const tryLock = async (client: ClientBase, name: string): Promise<boolean> => {
  const { rows } = await client.query<{ locked: boolean }>(
    'select pg_try_advisory_lock(hashtextextended($1, 0)) as locked',
    [name],
  );
  return rows[0]?.locked === true;
};

const drop = (client: ClientBase, name: string): Promise<unknown> =>
  client.query(`drop database if exists ${escapeIdentifier(name)} with (force)`);

const tooLarge = ({ maxBytes }: ShadowLimits): ServiceError =>
  new ServiceError('payload_too_large', `The migrations fill a database of more than ${maxBytes / 1024 / 1024} MB.`, {
    hint: 'Migrations make a schema; rows belong into plinth/seed.sql.',
  });

const tooLong = ({ maxMs }: ShadowLimits): ServiceError =>
  new ServiceError('request_timeout', `The migrations took longer than ${maxMs / 1000} s together.`);

/** Ends the sessions of a shadow that became too large or takes too long. @returns how to stop watching */
const watch = (
  client: ClientBase,
  name: string,
  limits: ShadowLimits,
): { readonly stop: () => Promise<void>; readonly fault: () => ServiceError | null } => {
  const began = performance.now();
  let fault: ServiceError | null = null;
  let checking: Promise<void> = Promise.resolve();
  const check = async (): Promise<void> => {
    const { rows } = await client.query<{ bytes: number }>('select pg_database_size($1)::float8 as bytes', [name]);
    if ((rows[0]?.bytes ?? 0) > limits.maxBytes) fault ??= tooLarge(limits);
    if (performance.now() - began > limits.maxMs) fault ??= tooLong(limits);
    if (fault !== null)
      await client.query('select pg_terminate_backend(pid) from pg_stat_activity where datname = $1', [name]);
  };
  const timer = setInterval(() => {
    // A check that takes long is not followed by others; without the connection the lock is gone, too.
    checking = checking.then(check).catch(() => undefined);
  }, checkEveryMs);
  return {
    stop: async () => {
      clearInterval(timer);
      await checking;
    },
    fault: () => fault,
  };
};

const inUse = (): ServiceError =>
  new ServiceError('conflict', 'A throw-away database of the project is in use already.', {
    hint: 'A project has one at a time. Try again when the other check is done.',
    headers: { 'Retry-After': '2' },
  });

const locked = async <T>(client: Client, name: string, work: () => Promise<T>): Promise<T> => {
  if (!(await tryLock(client, name))) throw inUse();
  try {
    return await work();
  } finally {
    // Should it fail, the sweep drops it.
    await drop(client, name).catch(() => undefined);
  }
};

/** A project and the way to its server. */
export interface ShadowOf {
  readonly deps: ProvisionDeps;
  readonly project: HostedProject;
  readonly limits?: ShadowLimits;
}

/**
 * Makes a shadow of a project, empty but for what the platform puts into each database, and drops it after `work`.
 * @param work gets the name of the database
 * @throws {ServiceError} `conflict` while the project has another; `payload_too_large`, `request_timeout`;
 * `dependency_unavailable` when too many are in use on this process
 */
export const withShadow = async <T>(
  { deps, project, limits = shadowLimits }: ShadowOf,
  work: (database: string) => Promise<T>,
): Promise<T> => {
  const name = shadowDatabaseName(project.ref);
  await permits.acquire(project.id);
  try {
    const template = await ensureTemplate(deps.servers, project.server_id);
    const client = await deps.servers.connectTo(project.server_id, maintenanceDatabase);
    try {
      return await locked(client, name, async () => {
        await copyDatabase(client, { name, template, ref: project.ref, connections });
        await fillDatabase(deps, { ...project, db_name: name });
        const watching = watch(client, name, limits);
        try {
          return await work(name);
        } catch (error) {
          throw watching.fault() ?? error;
        } finally {
          await watching.stop();
        }
      });
    } finally {
      await client.end();
    }
  } finally {
    permits.release(project.id);
  }
};

/** Drops the shadows that a process left behind on a server. @returns how many */
export const dropLostShadows = async (
  servers: Pick<DatabaseServers, 'connectTo'>,
  serverId: string,
): Promise<number> => {
  const client = await servers.connectTo(serverId, maintenanceDatabase);
  try {
    const { rows } = await client.query<{ name: string }>(
      `select datname as name from pg_database where datname like 'plinth\\_shadow\\_%' order by datname limit 100`,
    );
    let dropped = 0;
    for (const { name } of rows) {
      if (!(await tryLock(client, name))) continue;
      await drop(client, name);
      await client.query('select pg_advisory_unlock(hashtextextended($1, 0))', [name]);
      dropped += 1;
    }
    return dropped;
  } finally {
    await client.end();
  }
};

/** The same on all servers. */
export const sweepShadows = async (db: Queryable, servers: Pick<DatabaseServers, 'connectTo'>): Promise<number> => {
  const rows = await db.query<{ id: string }>('select id from database_servers');
  let dropped = 0;
  for (const { id } of rows) dropped += await dropLostShadows(servers, id);
  return dropped;
};
