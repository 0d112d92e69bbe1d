import { type Queryable, maybeOne, one } from '#lib/control-db.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import { requireVersion } from '#lib/versions.ts';
import { type Author, takeRoom } from './author.ts';
import { faultsOfSegment } from './check.ts';
import type { Condition } from './definition.ts';
import { nextVersion, withinPage } from './store.ts';

/** Groups of users that rules name. Segments belong to the project: all of its environments use the same. */

const maxSegments = 1000;
export const maxSegmentKeys = 100_000;

export interface SegmentRow {
  readonly id: string;
  readonly key: string;
  readonly name: string;
  readonly conditions: readonly Condition[] | null;
  readonly key_count: number;
  readonly bytes: number;
  /** Rises with each change, by more than one. */
  readonly version: number;
  readonly created_at: Date;
  readonly updated_at: Date;
}

/** A segment has conditions, or keys: one in each line. */
export interface SegmentFields {
  readonly name: string;
  readonly conditions: readonly Condition[] | null;
  readonly keys: { readonly text: string; readonly count: number } | null;
}

const columns = 'id, key, name, conditions, key_count, bytes, set_version as version, created_at, updated_at';

const shortList = 100;

interface ListedSegment extends SegmentRow {
  /** Null: it has conditions, or more keys than a list shows. */
  readonly keys: string[] | null;
  /** How many flags name it, of all environments. */
  readonly flags: number;
}

/** Lists the keys of short segments only, and as many segments as `withinPage` lets through. */
export const listSegments = async (
  db: Queryable,
  projectId: string,
  { limit, offset }: { readonly limit: number; readonly offset: number },
): Promise<{ segments: ListedSegment[]; total: number }> => {
  const segments = await db.query<ListedSegment>(
    `with uses as (
       select r ->> 'segment' as segment, count(distinct f.id) as flags
       from flags f, json_array_elements(f.definition -> 'targeting_rules') as r
       where f.project_id = $1 and r ->> 'segment' is not null group by 1)
     ${withinPage(
       `id, key, name, conditions, key_count, bytes, version, created_at, updated_at, keys, flags`,
       `select ${columns}, case when key_count between 1 and ${shortList} then string_to_array(keys, E'\\n')
          when keys is not null and key_count = 0 then array[]::text[] end as keys,
          coalesce((select flags from uses where segment = key), 0) as flags,
          case when key_count > ${shortList} then 0 else bytes end as size, row_number() over (order by key) as place
        from flag_segments where project_id = $1 order by place limit $2 offset $3`,
     )}`,
    [projectId, limit, offset],
  );
  const { total } = await one(
    db.query<{ total: number }>('select count(*) as total from flag_segments where project_id = $1', [projectId]),
  );
  return { segments, total };
};

/** @throws {ServiceError} `not_found` */
export const getSegment = async (db: Queryable, projectId: string, key: string): Promise<SegmentRow> => {
  const row = await maybeOne(
    db.query<SegmentRow>(`select ${columns} from flag_segments where project_id = $1 and key = $2`, [projectId, key]),
  );
  if (row === undefined) throw notFound('segment');
  return row;
};

/** The keys of a segment as JSON text: there can be 100,000. Null: it has conditions. */
export const segmentKeysOf = async (db: Queryable, id: string): Promise<string | null> => {
  const { keys } = await one(
    db.query<{ keys: string | null }>(
      `select case when keys = '' then '[]' else to_json(string_to_array(keys, E'\\n'))::text end as keys
       from flag_segments where id = $1`,
      [id],
    ),
  );
  return keys;
};

/** A flag whose rules name a segment. */
interface SegmentUser {
  readonly key: string;
  readonly environment: string;
}

const maxUsers = 100;

/** The first flags that name a segment, of all environments; archived ones, too. */
export const usersOfSegment = (db: Queryable, projectId: string, key: string): Promise<SegmentUser[]> =>
  db.query<SegmentUser>(
    `select f.key, e.name as environment from flags f join flag_environments e on e.id = f.environment_id
     where f.project_id = $1 and exists (
       select from json_array_elements(f.definition -> 'targeting_rules') as r where r ->> 'segment' = $2)
     order by e.name, f.key limit ${maxUsers}`,
    [projectId, key],
  );

/** @throws {ServiceError} `validation_failed` for conditions that cannot be evaluated */
export const requireUsableConditions = (conditions: readonly Condition[]): void => {
  const details = faultsOfSegment(conditions);
  if (details.length > 0) throw new ServiceError('validation_failed', 'The segment is not valid.', { details });
};

const textOf = ({ conditions }: SegmentFields): string | null =>
  conditions === null ? null : JSON.stringify(conditions);

const bytesOf = (fields: SegmentFields): number =>
  Buffer.byteLength(textOf(fields) ?? '') + Buffer.byteLength(fields.keys?.text ?? '') + fields.name.length;

/** All environments may be concerned. */
const touchAll = async (db: Queryable, projectId: string, version: number): Promise<void> => {
  await db.query('update flag_environments set version = $2 where project_id = $1', [projectId, version]);
};

const write = async (
  db: Queryable,
  projectId: string,
  {
    id,
    key,
    fields,
    version,
  }: {
    readonly id: string;
    readonly key: string;
    readonly fields: SegmentFields;
    readonly version: number;
  },
): Promise<SegmentRow> => {
  const row = await one(
    db.query<SegmentRow>(
      `insert into flag_segments (id, project_id, key, name, conditions, keys, key_count, bytes, set_version)
       values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
       on conflict (project_id, key) do update set name = excluded.name, conditions = excluded.conditions,
         keys = excluded.keys, key_count = excluded.key_count, bytes = excluded.bytes,
         set_version = excluded.set_version, updated_at = now()
       returning ${columns}`,
      [
        id,
        projectId,
        key,
        fields.name,
        textOf(fields),
        fields.keys?.text ?? null,
        fields.keys?.count ?? 0,
        bytesOf(fields),
        version,
      ],
    ),
  );
  await touchAll(db, projectId, version);
  return row;
};

const requireRoom = async (db: Queryable, projectId: string): Promise<void> => {
  const { total } = await one(
    db.query<{ total: number }>('select count(*) as total from flag_segments where project_id = $1', [projectId]),
  );
  if (total >= maxSegments)
    throw new ServiceError('plan_limit_exceeded', `A project has at most ${maxSegments} segments.`);
};

/** @throws {ServiceError} `conflict`, `validation_failed`, `plan_limit_exceeded` */
export const createSegment = async (
  db: Queryable,
  author: Pick<Author, 'projectId' | 'quota'>,
  key: string,
  fields: SegmentFields,
): Promise<SegmentRow> => {
  requireUsableConditions(fields.conditions ?? []);
  const { projectId } = author;
  const version = await nextVersion(db, projectId);
  const present = await db.query('select from flag_segments where project_id = $1 and key = $2', [projectId, key]);
  if (present.length > 0) throw new ServiceError('conflict', `There is a segment ${key} already.`);
  await requireRoom(db, projectId);
  await takeRoom(db, author, { flags: 0, bytes: bytesOf(fields) });
  return write(db, projectId, { id: newId(), key, fields, version });
};

export interface SegmentChange {
  /** The version that it has to have; left out: any. */
  readonly expected?: number | null;
  readonly name?: string | undefined;
  readonly conditions?: readonly Condition[] | undefined;
  readonly keys?: SegmentFields['keys'] | undefined;
}

const changedFields = async (db: Queryable, row: SegmentRow, change: SegmentChange): Promise<SegmentFields> => {
  const name = change.name ?? row.name;
  if (change.conditions !== undefined) return { name, conditions: change.conditions, keys: null };
  if (change.keys !== undefined) return { name, conditions: null, keys: change.keys };
  const { keys } = await one(
    db.query<{ keys: string | null }>('select keys from flag_segments where id = $1', [row.id]),
  );
  return { name, conditions: row.conditions, keys: keys === null ? null : { text: keys, count: row.key_count } };
};

const changedMeanwhile = 'The segment has changed';

/**
 * Conditions take the place of keys, and keys that of conditions.
 * @throws {ServiceError} as `createSegment`, `not_found`, `precondition_failed`
 */
export const changeSegment = async (
  db: Queryable,
  author: Pick<Author, 'projectId' | 'quota'>,
  key: string,
  change: SegmentChange,
): Promise<SegmentRow> => {
  const version = await nextVersion(db, author.projectId);
  const row = await getSegment(db, author.projectId, key);
  requireVersion(changedMeanwhile, row.version, change.expected ?? null);
  const fields = await changedFields(db, row, change);
  requireUsableConditions(fields.conditions ?? []);
  await takeRoom(db, author, { flags: 0, bytes: bytesOf(fields) - row.bytes });
  return write(db, author.projectId, { id: row.id, key, fields, version });
};

/** @throws {ServiceError} `not_found`, `precondition_failed`, `conflict` when rules name it */
export const deleteSegment = async (
  db: Queryable,
  author: Pick<Author, 'projectId' | 'quota'>,
  key: string,
  expected: number | null,
): Promise<void> => {
  const { projectId } = author;
  const version = await nextVersion(db, projectId);
  const row = await getSegment(db, projectId, key);
  requireVersion(changedMeanwhile, row.version, expected);
  const { id, bytes } = row;
  const users = await usersOfSegment(db, projectId, key);
  if (users.length > 0) {
    const names = users.slice(0, 10).map((user) => `${user.key} (${user.environment})`);
    throw new ServiceError('conflict', `The segment is used by ${names.join(', ')}.`, { details: { used_by: users } });
  }
  await db.query('delete from flag_segments where id = $1', [id]);
  await takeRoom(db, author, { flags: 0, bytes: -bytes });
  await touchAll(db, projectId, version);
};
