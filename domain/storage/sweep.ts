import type { Client } from 'pg';
import { type DatabaseServers, inDatabase } from '#domain/database-servers/database-servers.ts';
import type { Project } from '#domain/projects/store.ts';
import type { Queryable } from '#lib/control-db.ts';
import { newId } from '#lib/ids.ts';
import type { StorageDriver } from '#lib/object-store/object-store.ts';
import { uploadLifeMs } from '#lib/resumable/uploads.ts';
import { type StorageConfig, storageLimits } from './limits.ts';
import { keyOf } from './names.ts';
import { sweepRenditions } from './renditions.ts';

/** Bytes that no row names: of replaced and deleted objects, of uploads that broke off, of projects that are gone. */

export interface FileSweepDeps {
  readonly servers: Pick<DatabaseServers, 'connectTo'>;
  readonly bytes: StorageDriver;
  /** How long bytes are kept that no row names any more. */
  readonly keepHours: number;
  readonly config: StorageConfig;
}

export interface Swept {
  /** Contents that were replaced or deleted. */
  readonly removed: number;
  /** Contents that never had a row. */
  readonly orphans: number;
}

const atOnce = 1000;

const removeBytes = (bytes: StorageDriver, projectId: string, versions: readonly string[]): Promise<void> =>
  bytes.remove(versions.map((version) => keyOf(projectId, version)));

/** Downloads that began before a content was removed have opened it by then. */
const leastGraceS = 60;

/**
 * Tombstones up to this time are swept: those whose grace is over, and the oldest of what takes more than half of what
 * the plan allows for all files.
 */
const sweptUpTo = `
  select greatest(now() - make_interval(hours => $1), case when over.at is not null
    then least(over.at, now() - make_interval(secs => ${leastGraceS})) end)::text as at
  from (select max(b.removed_at) as at from (
    select removed_at, sum(size) over (order by removed_at desc, version) as bytes from plinth.storage_tombstones) b
    where b.bytes > $2::bigint / 2) over`;

/** Bytes first: a tombstone that is left over is swept again. */
const sweepTombstones = async (
  { bytes, keepHours, config }: FileSweepDeps,
  client: Client,
  { id: projectId, plan }: Pick<Project, 'id' | 'plan'>,
  signal: AbortSignal,
): Promise<number> => {
  const [upTo] = (await client.query<{ at: string }>(sweptUpTo, [keepHours, storageLimits(config, plan).total])).rows;
  let removed = 0;
  for (;;) {
    signal.throwIfAborted();
    const { rows } = await client.query<{ version: string }>(
      `select version from plinth.storage_tombstones where removed_at <= $1 order by removed_at limit ${atOnce}`,
      [upTo?.at],
    );
    if (rows.length === 0) return removed;
    const versions = rows.map(({ version }) => version);
    await removeBytes(bytes, projectId, versions);
    await client.query('delete from plinth.storage_tombstones where version = any ($1::uuid[])', [versions]);
    removed += versions.length;
  }
};

const withoutRow = async (client: Client, versions: readonly string[]): Promise<readonly string[]> => {
  const { rows } = await client.query<{ version: string }>(
    `select v.version from unnest($1::uuid[]) v (version)
     where not exists (select from only storage.objects o where o.version = v.version)
       and not exists (select from plinth.storage_tombstones b where b.version = v.version)`,
    [versions],
  );
  return rows.map(({ version }) => version);
};

const versionForm = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/;

/** The last part of a key; null for what is no content of an object. */
const versionOf = (key: string): string | null => {
  const name = key.slice(key.lastIndexOf('/') + 1);
  return versionForm.test(name) && key.split('/').length === 2 ? name : null;
};

/** Older than the grace, so that no upload is about to write its row. */
const sweepOrphans = async (
  { bytes, keepHours }: FileSweepDeps,
  client: Client,
  projectId: string,
  signal: AbortSignal,
): Promise<number> => {
  const before = Date.now() - keepHours * 3_600_000;
  let orphans = 0;
  let batch: string[] = [];
  const settle = async (): Promise<void> => {
    signal.throwIfAborted();
    const gone = await withoutRow(client, batch);
    if (gone.length > 0) await removeBytes(bytes, projectId, gone);
    orphans += gone.length;
    batch = [];
  };
  for await (const { key, modifiedAt } of bytes.list(`${projectId}/`)) {
    const version = versionOf(key);
    if (version !== null && modifiedAt.getTime() < before) batch.push(version);
    if (batch.length === atOnce) await settle();
  }
  if (batch.length > 0) await settle();
  return orphans;
};

const hasFiles = async (client: Client): Promise<boolean> =>
  (await client.query<{ has: boolean }>('select plinth.has_storage() as has')).rows[0]?.has === true;

/** Deletes the bytes of a project that no row names and whose grace is over. Can be repeated, and run beside itself. */
export const sweepFiles = (
  deps: FileSweepDeps,
  project: Pick<Project, 'id' | 'plan' | 'server_id' | 'db_name'>,
  signal: AbortSignal,
): Promise<Swept> =>
  inDatabase(deps.servers, project, async (client) => {
    if (!(await hasFiles(client))) return { removed: 0, orphans: 0 };
    await sweepRenditions(deps.bytes, project.id);
    const removed = await sweepTombstones(deps, client, project, signal);
    return { removed, orphans: await sweepOrphans(deps, client, project.id, signal) };
  });

/** A project that is due; from now on its next sweep is tomorrow's. */
export interface DueSweep {
  readonly jobId: string;
  readonly projectId: string;
}

const perRound = 100;

/** Projects whose files are to be swept, each at least once a day. */
export const dueSweeps = async (db: Queryable): Promise<readonly DueSweep[]> => {
  const rows = await db.query<{ project_id: string }>(
    `insert into storage_sweeps as s (project_id, due_at)
       select p.id, now() + interval '1 day' from projects p left join storage_sweeps d on d.project_id = p.id
       where p.deleted_at is null and p.status = 'active' and coalesce(d.due_at, '-infinity') <= now()
       order by d.due_at nulls first limit $1
     on conflict (project_id) do update set due_at = excluded.due_at where s.due_at <= now()
     returning project_id`,
    [perRound],
    'due-storage-sweeps',
  );
  return rows.map(({ project_id: projectId }) => ({ jobId: newId(), projectId }));
};

const removedAtOnce = 20;

/** Deletes all bytes of projects that are gone for good. */
export const removeFilesOfProjects = async (db: Queryable, bytes: StorageDriver): Promise<void> => {
  const gone = await db.query<{ project_id: string }>(
    'select project_id from storage_removals order by removed_at limit $1',
    [removedAtOnce],
  );
  for (const { project_id: projectId } of gone) {
    let keys: string[] = [];
    for await (const { key } of bytes.list(`${projectId}/`)) {
      keys.push(key);
      if (keys.length === atOnce) await bytes.remove(keys.splice(0));
    }
    await bytes.remove(keys);
    await sweepRenditions(bytes, projectId, Infinity);
    keys = [];
    await db.query('delete from storage_removals where project_id = $1', [projectId]);
  }
};

/**
 * An unfinished write is left alone for so long. Over S3 a resumable upload is one, too, and could end at the last moment
 * of its life: twice that life leaves it a day.
 */
const unfinishedMs = 2 * uploadLifeMs;

export const removeUnfinishedFiles = async (bytes: StorageDriver): Promise<void> => {
  await bytes.removeUnfinished(new Date(Date.now() - unfinishedMs));
};
