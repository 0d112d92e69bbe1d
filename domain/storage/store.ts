import type { RunOne, Sql, TextRow } from '#domain/data-api/data-api.ts';
import { Refusal } from '#lib/errors.ts';
import { isKeptFull, notAllowed, toStorageError } from './errors.ts';
import { type StorageCall, type StorageDeps, ticketFor } from './storage.ts';
import type { Ticket } from './tickets.ts';

/** A bucket, as storage-js reads it. */
export interface Bucket {
  readonly id: string;
  readonly name: string;
  readonly owner: string | null;
  readonly public: boolean;
  readonly file_size_limit: number | null;
  readonly allowed_mime_types: readonly string[] | null;
  readonly created_at: string;
  readonly updated_at: string;
}

export interface StoredObject {
  readonly id: string;
  readonly bucket_id: string;
  readonly name: string;
  readonly owner: string | null;
  readonly owner_id: string | null;
  readonly version: string;
  readonly size: number;
  readonly mime_type: string;
  readonly etag: string;
  readonly cache_control: string;
  readonly user_metadata: Readonly<Record<string, unknown>>;
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly created_at: string;
  readonly updated_at: string;
}

/** An object that was deleted. The users' metadata of a thousand can be 64 MB, and no answer has them. */
export type DeletedObject = Omit<StoredObject, 'user_metadata'>;

const instant = (column: string): string => `to_char(${column} at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;

const objectFields = `'id', o.id, 'bucket_id', o.bucket_id, 'name', o.name, 'owner', o.owner,
  'owner_id', o.owner_id, 'version', o.version, 'size', o.size, 'mime_type', o.mime_type, 'etag', o.etag,
  'cache_control', o.cache_control, 'metadata', o.metadata,
  'created_at', ${instant('o.created_at')}, 'updated_at', ${instant('o.updated_at')}`;

/** The object `o` as JSON. */
const objectJson = `json_build_object(${objectFields}, 'user_metadata', o.user_metadata)`;

const bucketJson = `json_build_object('id', b.id, 'name', b.name, 'owner', b.owner, 'public', b.public,
  'file_size_limit', b.file_size_limit, 'allowed_mime_types', b.allowed_mime_types,
  'created_at', ${instant('b.created_at')}, 'updated_at', ${instant('b.updated_at')})`;

type Param = string | number | null;

const sqlOf = (text: string, params: readonly Param[]): Sql => ({
  text,
  params: params.map((param) => (param === null ? null : String(param))),
});

const runOf = (mode: 'read' | 'write', { signal }: StorageCall) => ({ mode, signal });

const parse = (text: string | null | undefined): unknown =>
  text === null || text === undefined ? null : JSON.parse(text);

/** The row of a statement that changes nothing, as the caller may see it. */
export const read = async (
  { data }: StorageDeps,
  call: StorageCall,
  text: string,
  params: readonly Param[],
): Promise<TextRow> => {
  try {
    return await data.one(call.caller, runOf('read', call), sqlOf(text, params));
  } catch (error) {
    throw toStorageError(error);
  }
};

/** The failure of a write as its caller sees it. Contents that the project keeps go sooner where they left no room. */
const writeFailure = ({ markRemoved }: StorageDeps, { project }: StorageCall, error: unknown): unknown => {
  if (isKeptFull(error)) markRemoved(project.id, 'now');
  return toStorageError(error);
};

const write = async (deps: StorageDeps, call: StorageCall, sql: Sql): Promise<TextRow> => {
  try {
    return await deps.data.one(call.caller, runOf('write', call), sql);
  } catch (error) {
    throw writeFailure(deps, call, error);
  }
};

/** Null: there is none, or no policy lets the caller see it. */
export const findObject = async (
  deps: StorageDeps,
  call: StorageCall,
  bucket: string,
  name: string,
): Promise<StoredObject | null> => {
  const sql = `select (select ${objectJson}::text from only storage.objects o where o.bucket_id = $1 and o.name = $2)`;
  const [row] = await read(deps, call, sql, [bucket, name]);
  return parse(row) as StoredObject | null;
};

/** An object of a public bucket. Undefined: there is no such bucket, or it is not public; null: no such object in it. */
export const findPublicObject = async (
  deps: StorageDeps,
  call: StorageCall,
  bucket: string,
  name: string,
): Promise<StoredObject | null | undefined> => {
  const sql = `select (select b.public::text from only storage.buckets b where b.id = $1),
    (select ${objectJson}::text from only storage.objects o where o.bucket_id = $1 and o.name = $2)`;
  const [isPublic, row] = await read(deps, call, sql, [bucket, name]);
  return isPublic === 'true' ? (parse(row) as StoredObject | null) : undefined;
};

/** The names of those that the caller may see. */
export const visibleNames = async (
  deps: StorageDeps,
  call: StorageCall,
  bucket: string,
  names: readonly string[],
): Promise<ReadonlySet<string>> => {
  const [row] = await read(
    deps,
    call,
    `select coalesce(json_agg(o.name), '[]')::text from only storage.objects o
     where o.bucket_id = $1 and o.name in (select jsonb_array_elements_text($2::jsonb))`,
    [bucket, JSON.stringify(names)],
  );
  return new Set(parse(row) as string[]);
};

export const findBucket = async (deps: StorageDeps, call: StorageCall, id: string): Promise<Bucket | null> => {
  const sql = `select (select ${bucketJson}::text from only storage.buckets b where b.id = $1)`;
  const [row] = await read(deps, call, sql, [id]);
  return parse(row) as Bucket | null;
};

export interface BucketList {
  readonly limit: number;
  readonly offset: number;
  readonly search: string;
  readonly column: 'id' | 'name' | 'created_at' | 'updated_at';
  readonly order: 'asc' | 'desc';
}

export const listBuckets = async (deps: StorageDeps, call: StorageCall, of: BucketList): Promise<readonly Bucket[]> => {
  const [row] = await read(
    deps,
    call,
    `select coalesce(json_agg(${bucketJson} order by b.place), '[]')::text from (
       select b.*, row_number() over (order by b.${of.column} ${of.order}, b.id) as place from only storage.buckets b
       where strpos(lower(b.id), lower($1)) > 0 order by b.${of.column} ${of.order}, b.id limit $2 offset $3) b`,
    [of.search, of.limit, of.offset],
  );
  return parse(row) as Bucket[];
};

/** Whether an object has that content. */
export const hasVersion = async (deps: StorageDeps, call: StorageCall, version: string): Promise<boolean> => {
  const sql = `select exists (select from only storage.objects o where o.version = $1::uuid)::text`;
  return (await read(deps, call, sql, [version]))[0] === 'true';
};

/** Hands the ticket to the triggers, within the statement itself. */
const withTicket = (rest: string): string =>
  `with ticket as materialized (select set_config('plinth.storage_ticket', $1, true) as given), ${rest}`;

// Triggers make the rows be what the ticket says. Nothing is returned, so that no policy for reading is asked.
const insertSql = (table: string, column: string): string =>
  withTicket(`written as (insert into storage.${table} (${column}) select '-' from ticket where ticket.given is not null)
    select 'done'`);

const insertObjectSql = insertSql('objects', 'name');
const insertBucketSql = insertSql('buckets', 'id');

const updateObjectSql = withTicket(`written as (
    update storage.objects o set name = o.name from ticket
    where o.bucket_id = $2 and o.name = $3 and ticket.given is not null returning 1)
  select count(*)::text from written`);

const updateBucketSql = withTicket(`written as (
    update storage.buckets b set name = b.name from ticket where b.id = $2 and ticket.given is not null returning 1)
  select count(*)::text from written`);

const deleteBucketSql = withTicket(`gone as (
    delete from storage.buckets b using ticket where b.id = $2 and ticket.given is not null returning 1)
  select count(*)::text from gone`);

const deleteNamesSql = withTicket(`gone as (
    delete from storage.objects o using ticket where o.bucket_id = $2 and ticket.given is not null
      and o.name in (select jsonb_array_elements_text($3::jsonb)) returning json_build_object(${objectFields}) as row)
  select coalesce(json_agg(row), '[]')::text from gone`);

const deleteSomeSql = withTicket(`gone as (
    delete from storage.objects o using ticket where ticket.given is not null
      and o.id in (select s.id from storage.objects s where s.bucket_id = $2 limit $3) returning 1)
  select count(*)::text from gone`);

type PutTicket = Extract<Ticket, { op: 'put' }>;
type BucketTicket = Extract<Ticket, { op: 'bucket' }>;

const insertObject = (deps: StorageDeps, call: StorageCall, ticket: PutTicket): Sql =>
  sqlOf(insertObjectSql, [ticketFor(deps, call, ticket)]);

const updateObject = (deps: StorageDeps, call: StorageCall, ticket: PutTicket): Sql =>
  sqlOf(updateObjectSql, [ticketFor(deps, call, ticket), ticket.bucket, ticket.name]);

/** @throws {ServiceError} `conflict` when there is an object of that name */
export const putNew = async (deps: StorageDeps, call: StorageCall, ticket: PutTicket): Promise<void> => {
  await write(deps, call, insertObject(deps, call, ticket));
};

/** @returns whether there was one that the caller may replace */
export const replace = async (deps: StorageDeps, call: StorageCall, ticket: PutTicket): Promise<boolean> => {
  const [count] = await write(deps, call, updateObject(deps, call, ticket));
  return count === '1';
};

/** Rolls back what was only tried. */
class OnlyTried extends Refusal {}

/**
 * Asks whether the caller may write an object, by writing it and taking that back.
 * @throws {ServiceError} as the write itself
 */
export const tryPut = async (
  deps: StorageDeps,
  call: StorageCall,
  ticket: PutTicket,
  mode: 'insert' | 'upsert' | 'update',
): Promise<boolean> => {
  let found = true;
  const attempt = async (one: RunOne): Promise<never> => {
    found = mode !== 'insert' && (await one(updateObject(deps, call, ticket)))[0] === '1';
    if (!found && mode !== 'update') await one(insertObject(deps, call, ticket));
    throw new OnlyTried();
  };
  try {
    await deps.data.transaction(call.caller, runOf('write', call), attempt);
  } catch (error) {
    if (!(error instanceof OnlyTried)) throw writeFailure(deps, call, error);
  }
  return found;
};

export type MoveTicket = Extract<Ticket, { op: 'move' }>;

const moveSql = (deps: StorageDeps, call: StorageCall, ticket: MoveTicket): Sql =>
  sqlOf(updateObjectSql, [ticketFor(deps, call, ticket), ticket.from_bucket, ticket.from_name]);

/** @returns whether there was one that the caller may move */
export const moveObject = async (deps: StorageDeps, call: StorageCall, ticket: MoveTicket): Promise<boolean> => {
  const [count] = await write(deps, call, moveSql(deps, call, ticket));
  return count === '1';
};

const deleteNames = (deps: StorageDeps, call: StorageCall, bucket: string, names: readonly string[]): Sql =>
  sqlOf(deleteNamesSql, [ticketFor(deps, call, { op: 'delete', bucket, names }), bucket, JSON.stringify(names)]);

const existsSql = `select exists (select from only storage.objects o where o.bucket_id = $1 and o.name = $2)::text`;

/**
 * Moves several objects in one transaction: all of them that are still there, or none.
 * @param moves.replaces what is at the destination is deleted
 * @returns how many were moved
 * @throws {ServiceError} `forbidden` when no policy allows one of them, `conflict`
 */
export const moveObjects = async (
  deps: StorageDeps,
  call: StorageCall,
  moves: readonly { readonly ticket: MoveTicket; readonly replaces: boolean }[],
): Promise<number> => {
  const moveOne = async (one: RunOne, { ticket, replaces }: (typeof moves)[number]): Promise<number> => {
    if (replaces) await one(deleteNames(deps, call, ticket.bucket, [ticket.name]));
    const [count] = await one(moveSql(deps, call, ticket));
    if (count === '1') return 1;
    const [isThere] = await one(sqlOf(existsSql, [ticket.from_bucket, ticket.from_name]));
    // The file was moved or deleted by another call; a destination that was deleted for it must come back.
    if (isThere === 'true' || replaces) throw notAllowed();
    return 0;
  };
  try {
    return await deps.data.transaction(call.caller, runOf('write', call), async (one) => {
      let moved = 0;
      for (const move of moves) moved += await moveOne(one, move);
      return moved;
    });
  } catch (error) {
    throw toStorageError(error);
  }
};

/** @returns those that were deleted */
export const deleteObjects = async (
  deps: StorageDeps,
  call: StorageCall,
  { bucket, names }: { readonly bucket: string; readonly names: readonly string[] },
): Promise<readonly DeletedObject[]> => {
  const [rows] = await write(deps, call, deleteNames(deps, call, bucket, names));
  return parse(rows) as DeletedObject[];
};

/** @returns how many of those were deleted that the caller may delete */
export const deleteSome = async (
  deps: StorageDeps,
  call: StorageCall,
  bucket: string,
  max: number,
): Promise<number> => {
  const ticket = ticketFor(deps, call, { op: 'delete', bucket, names: null });
  const [count] = await write(deps, call, sqlOf(deleteSomeSql, [ticket, bucket, max]));
  return Number(count);
};

/** @throws {ServiceError} `conflict` when there is one of that name */
export const insertBucket = async (deps: StorageDeps, call: StorageCall, ticket: BucketTicket): Promise<void> => {
  await write(deps, call, sqlOf(insertBucketSql, [ticketFor(deps, call, ticket)]));
};

export const updateBucket = async (deps: StorageDeps, call: StorageCall, ticket: BucketTicket): Promise<boolean> => {
  const [count] = await write(deps, call, sqlOf(updateBucketSql, [ticketFor(deps, call, ticket), ticket.bucket]));
  return count === '1';
};

/** @throws {ServiceError} `conflict` when it is not empty */
export const deleteBucket = async (deps: StorageDeps, call: StorageCall, bucket: string): Promise<boolean> => {
  const ticket = ticketFor(deps, call, { op: 'bucket-delete', bucket });
  const [count] = await write(deps, call, sqlOf(deleteBucketSql, [ticket, bucket]));
  return count === '1';
};
