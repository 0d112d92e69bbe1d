import { hash } from 'node:crypto';
import type { Actor } from '#domain/audit/actor.ts';
import { type Queryable, maybeOne, one } from '#lib/control-db.ts';
import { newId } from '#lib/ids.ts';
import { textArray } from '#lib/text-array.ts';
import { type FlagDefinition, defaultEnvironment, definitionText } from './definition.ts';

/** A flag in one environment. */
export interface FlagRow {
  readonly id: string;
  readonly project_id: string;
  readonly environment_id: string;
  readonly environment: string;
  readonly key: string;
  readonly version: number;
  /** JSON text. */
  readonly definition: string;
  readonly created_at: Date;
  readonly updated_at: Date;
}

export interface EnvironmentRow {
  readonly id: string;
  readonly name: string;
}

const columns = `f.id, f.project_id, f.environment_id, e.name as environment, f.key, f.version,
  f.definition::text as definition, f.created_at, f.updated_at`;

/** A page of longer rows has fewer of them, and one at least: the event loop parses and writes a whole page at once. */
const maxPageBytes = 1_000_000;

/**
 * SQL for the rows of a page up to so many bytes; the page behind them begins at its offset and their number.
 * @param columns SQL: what is answered
 * @param page SQL: the rows, each with its `place` and its `size` in bytes
 */
export const withinPage = (columns: string, page: string): string => `
  select ${columns} from (
    select *, sum(size) over (order by place) - size as before from (${page}) as page) as measured
  where before < ${maxPageBytes} order by place`;

const source = 'flags f join flag_environments e on e.id = f.environment_id';

export const fingerprintOf = (text: string): Buffer => hash('sha256', text, 'buffer');

/**
 * Begins a change of a project's flags: until the transaction ends nobody else changes any of them.
 * @returns the version that the change makes
 */
export const nextVersion = async (db: Queryable, projectId: string): Promise<number> => {
  const { version, isNew } = await one(
    db.query<{ version: number; isNew: boolean }>(
      `insert into flag_sets (project_id, version) values ($1, 1)
       on conflict (project_id) do update set version = flag_sets.version + 1
       returning version, version = 1 as "isNew"`,
      [projectId],
    ),
  );
  if (isNew) await insertEnvironment(db, projectId, { name: defaultEnvironment, version });
  return version;
};

/** The flags that a project may have. */
export interface FlagQuota {
  /** Null: any number. */
  readonly flags: number | null;
  readonly bytes: number;
}

/** The number of flags of all environments, and their bytes with those of segments. */
export const usedOf = async (db: Queryable, projectId: string): Promise<{ flags: number; bytes: number }> =>
  (await maybeOne(
    db.query<{ flags: number; bytes: number }>('select flags, bytes from flag_sets where project_id = $1', [projectId]),
  )) ?? { flags: 0, bytes: 0 };

/** Counts what a change adds. */
export const countUse = (
  db: Queryable,
  projectId: string,
  added: { readonly flags: number; readonly bytes: number },
): Promise<{ flags: number; bytes: number }> =>
  one(
    db.query<{ flags: number; bytes: number }>(
      'update flag_sets set flags = flags + $2, bytes = bytes + $3 where project_id = $1 returning flags, bytes',
      [projectId, added.flags, added.bytes],
    ),
  );

export const findEnvironment = (db: Queryable, projectId: string, name: string): Promise<EnvironmentRow | undefined> =>
  maybeOne(
    db.query<EnvironmentRow>('select id, name from flag_environments where project_id = $1 and name = $2', [
      projectId,
      name,
    ]),
  );

export const insertEnvironment = async (
  db: Queryable,
  projectId: string,
  { name, version }: { readonly name: string; readonly version: number },
): Promise<EnvironmentRow> => {
  const id = newId();
  await db.query('insert into flag_environments (id, project_id, name, version) values ($1, $2, $3, $4)', [
    id,
    projectId,
    name,
    version,
  ]);
  return { id, name };
};

/** Notes that the flags in force in an environment changed. */
export const touchEnvironment = async (db: Queryable, id: string, version: number): Promise<void> => {
  await db.query('update flag_environments set version = $2 where id = $1', [id, version]);
};

export interface FlagName {
  readonly environment: string;
  readonly key: string;
}

export const findFlag = (
  db: Queryable,
  projectId: string,
  { environment, key }: FlagName,
): Promise<FlagRow | undefined> =>
  maybeOne(
    db.query<FlagRow>(`select ${columns} from ${source} where e.project_id = $1 and e.name = $2 and f.key = $3`, [
      projectId,
      environment,
      key,
    ]),
  );

export interface FlagFilter {
  /** Left out: of all environments. */
  readonly environment?: string | undefined;
  readonly q?: string | undefined;
  readonly stale?: boolean | undefined;
  /** Left out: archived ones and others. */
  readonly archived?: boolean | undefined;
  readonly limit: number;
  readonly offset: number;
}

/** In days: a flag that was not asked for, or always answered alike, for so long is stale. */
const staleDays = 30;

export type StaleReason = 'unused' | 'always_alike';

/**
 * Why a flag is stale, in SQL; null: it is not. One that was changed lately is not: its answers are to come. Nobody
 * evaluates archived ones.
 */
const staleReason = `case
  when f.is_archived then null
  when f.updated_at > now() - interval '${staleDays} days' then null
  when not exists (select from flag_stats s where s.environment_id = f.environment_id and s.key = f.key
    and s.last_at > now() - interval '${staleDays} days') then 'unused'
  when (select count(distinct s.variant) from flag_stats s where s.environment_id = f.environment_id and s.key = f.key
    and s.last_at > now() - interval '${staleDays} days') = 1 then 'always_alike' end`;

const filtered = `e.project_id = $1 and ($2::text is null or e.name = $2)
  and ($3::text is null or f.key ilike '%' || $3 || '%' or f.name ilike '%' || $3 || '%')
  and ($4::boolean is null or (${staleReason} is not null) = $4) and ($5::boolean is null or f.is_archived = $5)`;

const escaped = (text: string | undefined): string | null => text?.replaceAll(/[\\%_]/g, String.raw`\$&`) ?? null;

/** The flags of a page, as many as `withinPage` lets through. */
export const listFlags = async (
  db: Queryable,
  projectId: string,
  { environment, q, stale, archived, limit, offset }: FlagFilter,
): Promise<{ rows: (FlagRow & { readonly stale_reason: StaleReason | null })[]; total: number }> => {
  const values = [projectId, environment ?? null, escaped(q), stale ?? null, archived ?? null];
  const rows = await db.query<FlagRow & { readonly stale_reason: StaleReason | null }>(
    withinPage(
      `id, project_id, environment_id, environment, key, version, definition::text as definition, created_at, updated_at,
       stale_reason`,
      `select f.id, f.project_id, f.environment_id, e.name as environment, f.key, f.version, f.definition, f.created_at,
         f.updated_at, ${staleReason} as stale_reason, f.bytes as size,
         row_number() over (order by e.created_at, e.id, f.key) as place
       from ${source} where ${filtered} order by place limit $6 offset $7`,
    ),
    [...values, limit, offset],
  );
  const { total } = await one(
    db.query<{ total: number }>(`select count(*) as total from ${source} where ${filtered}`, values),
  );
  return { rows, total };
};

export const staleReasonOf = async (db: Queryable, flagId: string): Promise<StaleReason | null> =>
  (
    await maybeOne(
      db.query<{ reason: StaleReason | null }>(`select ${staleReason} as reason from flags f where f.id = $1`, [
        flagId,
      ]),
    )
  )?.reason ?? null;

/** A change of an environment's flags. */
export interface Change {
  readonly projectId: string;
  readonly environmentId: string;
  /** As `nextVersion` answered it. */
  readonly setVersion: number;
  readonly actor: Pick<Actor, 'type' | 'id' | 'email'>;
}

/** A flag as it is to be. */
export interface NewState {
  readonly key: string;
  readonly definition: Pick<FlagDefinition, 'name' | 'flag_type' | 'is_enabled' | 'is_archived'>;
  readonly text: string;
}

export const stateOf = (key: string, definition: FlagDefinition): NewState => ({
  key,
  definition,
  text: definitionText(definition),
});

/** The first version of a flag follows the last of an earlier one with its key: an old ETag must not fit. */
const upsert = `
  insert into flags (id, project_id, environment_id, key, name, flag_type, is_enabled, is_archived, version, definition,
    fingerprint, bytes, set_version)
  select new.id, $1, $2, new.key, new.name, new.flag_type, new.is_enabled, new.is_archived,
    coalesce((select max(h.version) from flag_history h where h.environment_id = $2 and h.key = new.key), 0) + 1,
    new.definition::json, new.fingerprint, octet_length(new.definition), $3
  from unnest($4::uuid[], $5::text[], $6::text[], $7::text[], $8::boolean[], $9::text[], $10::bytea[], $11::boolean[])
    as new (id, key, name, flag_type, is_enabled, definition, fingerprint, is_archived)
  on conflict (environment_id, key) do update set name = excluded.name, flag_type = excluded.flag_type,
    is_enabled = excluded.is_enabled, is_archived = excluded.is_archived, version = excluded.version, definition = excluded.definition,
    fingerprint = excluded.fingerprint, bytes = excluded.bytes, set_version = excluded.set_version, updated_at = now()
  returning key, version, definition::text as text`;

const history = `
  insert into flag_history (project_id, environment_id, key, version, definition, changed_by, set_version)
  select $1, $2, f.key, f.version, f.definition, $4, $3
  from flags f where f.environment_id = $2 and f.key = any ($5::text[])`;

/** Past versions of one flag that are kept: as many as fit into a megabyte, 5 to 50. */
const prune = `
  delete from flag_history h using flags f
  where f.environment_id = $1 and f.key = any ($2::text[]) and h.environment_id = $1 and h.key = f.key
    and h.version <= f.version - greatest(5, least(50, 1000000 / f.bytes))`;

/** Writes flags as they are to be, and their history. */
export const writeFlags = async (db: Queryable, change: Change, states: readonly NewState[]): Promise<void> => {
  if (states.length === 0) return;
  const keys = states.map(({ key }) => key);
  await db.query(upsert, [
    change.projectId,
    change.environmentId,
    change.setVersion,
    states.map(() => newId()),
    keys,
    states.map(({ definition }) => definition.name),
    states.map(({ definition }) => definition.flag_type),
    states.map(({ definition }) => definition.is_enabled),
    textArray(states.map(({ text }) => text)),
    states.map(({ text }) => fingerprintOf(text)),
    states.map(({ definition }) => definition.is_archived === true),
  ]);
  await db.query(history, [
    change.projectId,
    change.environmentId,
    change.setVersion,
    JSON.stringify(change.actor),
    keys,
  ]);
  await db.query(prune, [change.environmentId, keys]);
};

/** Versions go until there is room for some changes more, so that not every change has to look for the oldest. */
const roomLeft = 0.1;

/**
 * Forgets the oldest past versions of a project, those of deleted flags too, when all versions that it keeps have more
 * bytes than that: many flags that are changed in turns would otherwise keep 50 times their bytes.
 */
export const forgetVersions = async (db: Queryable, projectId: string, maxBytes: number): Promise<void> => {
  const [over] = await db.query<{ excess: number }>(
    `select (history_bytes - $2::bigint)::float8 as excess from flag_sets
     where project_id = $1 and history_bytes > $2::bigint`,
    [projectId, maxBytes],
  );
  if (over === undefined) return;
  await db.query(
    `with past as (
       select h.environment_id, h.key, h.version,
         sum(h.bytes) over (order by h.set_version, h.environment_id, h.key) - h.bytes as older
       from flag_history h left join flags f on f.environment_id = h.environment_id and f.key = h.key
       where h.project_id = $1 and h.definition is not null and (f.version is null or h.version < f.version))
     delete from flag_history h using past
     where past.older < $2 and h.environment_id = past.environment_id and h.key = past.key
       and h.version = past.version`,
    [projectId, over.excess + maxBytes * roomLeft],
  );
};

/** Deleted flags of a project of which the last version is kept. */
const keptDeleted = 1000;

/** The processes that saw none of the deletions that are forgotten here load the whole environment. */
const forgetDeleted = async (db: Queryable, projectId: string): Promise<void> => {
  await db.query(
    `with old as (
       select environment_id, key, set_version from flag_history where project_id = $1 and definition is null
       order by set_version desc, key offset ${keptDeleted}),
     gone as (
       delete from flag_history h using old where h.environment_id = old.environment_id and h.key = old.key
         and h.set_version <= old.set_version)
     update flag_sets set forgotten_version = greatest(forgotten_version, (select max(set_version) from old))
     where project_id = $1 and exists (select from old)`,
    [projectId],
  );
};

/** Deletes flags with their statistics; their last versions stay in the history. Answers their bytes. */
export const deleteFlags = async (db: Queryable, change: Change, keys: readonly string[]): Promise<number> => {
  if (keys.length === 0) return 0;
  const gone = await db.query<{ key: string; version: number; bytes: number }>(
    'delete from flags where environment_id = $1 and key = any ($2::text[]) returning key, version, bytes',
    [change.environmentId, keys],
  );
  await db.query('delete from flag_stats where environment_id = $1 and key = any ($2::text[])', [
    change.environmentId,
    keys,
  ]);
  await db.query(
    `delete from flag_history h using unnest($2::text[], $3::integer[]) as gone (key, version)
     where h.environment_id = $1 and h.key = gone.key and h.version < gone.version`,
    [change.environmentId, gone.map(({ key }) => key), gone.map(({ version }) => version)],
  );
  await db.query(
    `insert into flag_history (project_id, environment_id, key, version, changed_by, set_version)
     select $1, $2, gone.key, gone.version + 1, $4, $3 from unnest($5::text[], $6::integer[]) as gone (key, version)`,
    [
      change.projectId,
      change.environmentId,
      change.setVersion,
      JSON.stringify(change.actor),
      gone.map(({ key }) => key),
      gone.map(({ version }) => version),
    ],
  );
  await forgetDeleted(db, change.projectId);
  return gone.reduce((sum, { bytes }) => sum + bytes, 0);
};

/** The bytes of some flags. */
export const bytesOf = async (db: Queryable, environmentId: string, keys: readonly string[]): Promise<number> => {
  const { bytes } = await one(
    db.query<{ bytes: number }>(
      'select coalesce(sum(bytes), 0)::float8 as bytes from flags where environment_id = $1 and key = any ($2::text[])',
      [environmentId, keys],
    ),
  );
  return bytes;
};

export interface HistoryRow {
  readonly version: number;
  readonly changed_at: Date;
  readonly changed_by: Pick<Actor, 'type' | 'id' | 'email'>;
  /** JSON text; null: there was none, or it is not kept. */
  readonly before: string | null;
  readonly after: string | null;
}

/** The versions of a flag, the newest first, as many as `withinPage` lets through. */
export const historyOf = async (
  db: Queryable,
  { environmentId, key }: { readonly environmentId: string; readonly key: string },
  { limit, offset }: { readonly limit: number; readonly offset: number },
): Promise<{ rows: HistoryRow[]; total: number }> => {
  const rows = await db.query<HistoryRow>(
    withinPage(
      `version, changed_at, changed_by, earlier::text as "before", definition::text as "after"`,
      `select h.version, h.changed_at, h.changed_by, h.definition, b.definition as earlier,
         h.bytes + coalesce(b.bytes, 0) as size, -h.version as place
       from flag_history h left join flag_history b
         on b.environment_id = h.environment_id and b.key = h.key and b.version = h.version - 1
       where h.environment_id = $1 and h.key = $2 order by place limit $3 offset $4`,
    ),
    [environmentId, key, limit, offset],
  );
  const { total } = await one(
    db.query<{ total: number }>('select count(*) as total from flag_history where environment_id = $1 and key = $2', [
      environmentId,
      key,
    ]),
  );
  return { rows, total };
};

/** The definition of a past version. */
export const versionOf = async (
  db: Queryable,
  { environmentId, key, version }: { readonly environmentId: string; readonly key: string; readonly version: number },
): Promise<string | undefined> =>
  (
    await maybeOne(
      db.query<{ definition: string | null }>(
        `select definition::text as definition from flag_history
         where environment_id = $1 and key = $2 and version = $3`,
        [environmentId, key, version],
      ),
    )
  )?.definition ?? undefined;

/** A flag with the flags that it needs. */
export interface Needing {
  readonly key: string;
  readonly prerequisites: readonly { readonly key: string }[];
}

/**
 * The flags of an environment that have prerequisites, with these; archived ones need none. The values stay in the
 * database: they can be as large as all flags together.
 */
export const prerequisitesIn = (db: Queryable, environmentId: string): Promise<Needing[]> =>
  db.query(
    `select key, (select json_agg(json_build_object('key', one -> 'key'))
       from json_array_elements(definition -> 'prerequisites') as one) as prerequisites from flags
     where environment_id = $1 and not is_archived and json_array_length(definition -> 'prerequisites') > 0
     order by key`,
    [environmentId],
  );

/** The keys among these of which there are flags that are not archived. */
export const presentKeys = async (
  db: Queryable,
  environmentId: string,
  keys: readonly string[],
): Promise<ReadonlySet<string>> => {
  const rows = await db.query<{ key: string }>(
    'select key from flags where environment_id = $1 and key = any ($2::text[]) and not is_archived',
    [environmentId, keys],
  );
  return new Set(rows.map(({ key }) => key));
};

/** The keys among these of which there are segments. */
export const presentSegments = async (
  db: Queryable,
  projectId: string,
  keys: readonly string[],
): Promise<ReadonlySet<string>> => {
  const rows = await db.query<{ key: string }>(
    'select key from flag_segments where project_id = $1 and key = any ($2::text[])',
    [projectId, keys],
  );
  return new Set(rows.map(({ key }) => key));
};

export type FlagEvent = 'flag.created' | 'flag.updated' | 'flag.deleted';

/** For webhooks; events that nobody subscribes to are not kept. */
export const emitFlagEvents = async (
  db: Queryable,
  change: Change & { readonly environment: string },
  event: FlagEvent,
  keys: readonly string[],
): Promise<void> => {
  if (keys.length === 0) return;
  await db.query(
    `insert into outbox_events (project_id, event, data)
     select $1, $2, json_build_object('key', h.key, 'environment', $3::text, 'version', h.version,
       'changed_by', h.changed_by, 'flag', case when octet_length(h.definition::text) <= 65536 then h.definition end)
     from flag_history h where h.environment_id = $4 and h.set_version = $5 and h.key = any ($6::text[])`,
    [change.projectId, event, change.environment, change.environmentId, change.setVersion, keys],
  );
};
