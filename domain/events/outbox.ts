import { type Client, DatabaseError } from 'pg';
import type { Queryable } from '#lib/control-db.ts';
import { ServiceError, isTooSlow } from '#lib/errors.ts';
import { derivedId } from '#lib/ids.ts';
import { textArray } from '#lib/text-array.ts';
import { userEventNames, userEventOperation } from './subscriptions.ts';

/** An event that is not passed on: it stays in its project's `plinth.outbox_failed`, where a person can read it. */
export interface SetAside {
  readonly id: string;
  readonly table: string;
  readonly reason: string;
}

/** One event, as JSON text, with the old row when it is an update (migrations/project/0003_events.sql). */
const maxEventBytes = 8 * 1024 * 1024;

/** The operation under which jobs wait that a transaction of a function enqueued (migrations/project/0037_job_outbox.sql). */
const jobOperation = 'JOB';

/**
 * Whether a row of the outbox is one that no trigger writes, in SQL: too large, no known operation, an impossible name
 * or time. A row of 90 MB blocked the process that fetched it for 4 s, until its watchdog killed it; the next one
 * fetched it again. The lengths are read without the values.
 */
const isMalformed = `(octet_length(row)::bigint + coalesce(octet_length(old), 0) > ${maxEventBytes}
  or octet_length(table_name) > 63 or octet_length(op) > 8
  or not (op in ('INSERT', 'UPDATE', 'DELETE', 'TRUNCATE')
    or (op = '${jobOperation}' and table_name = 'jobs')
    or (op = '${userEventOperation}' and table_name = any ('{${userEventNames.join(',')}}')))
  or ts not between '2000-01-01'::timestamptz and '9999-01-01'::timestamptz)`;

/** The start of a malformed row shows where it came from; the rest would fill a space that no plan counts. */
const keptCharacters = 65_536;

/** Events that were set aside count for no plan: the oldest are deleted first. */
const maxKept = 1000;
const maxKeptBytes = 64 * 1024 * 1024;

/** In the caller's transaction. */
const boundSetAside = async (client: Client): Promise<void> => {
  await client.query(
    `delete from plinth.outbox_failed where id in (
       select id from (
         select id, row_number() over newest as place,
           sum(octet_length(row)::bigint + coalesce(octet_length(old), 0)) over newest as bytes
         from plinth.outbox_failed window newest as (order by failed_at desc, id desc)) as kept
       where place > $1 or (bytes > $2 and place > 1))`,
    [maxKept, maxKeptBytes],
  );
};

/**
 * Moves malformed rows of the outbox to those that failed, within the database and without fetching them.
 * @param ids of rows that the caller's transaction has locked
 */
const setAsideMalformed = async (client: Client, ids: readonly string[]): Promise<SetAside[]> => {
  const { rows } = await client.query<SetAside>(
    `with gone as (delete from plinth.outbox where id = any ($1::bigint[])
       returning id, ts, table_name, op, left(row, $2) as row, left(old, $2) as old,
         octet_length(row)::bigint + coalesce(octet_length(old), 0) as bytes)
     insert into plinth.outbox_failed (id, ts, table_name, op, row, old, reason)
     select id, ts, left(table_name, 63), left(op, 8), row, old,
       format('not written by a trigger, or larger than an event may be (%s bytes)', bytes)
     from gone
     on conflict (id) do nothing
     returning id::text as id, table_name as "table", reason`,
    [ids, keptCharacters],
  );
  await boundSetAside(client);
  return rows;
};

interface OutboxRow {
  readonly id: string;
  /** In ms. */
  readonly at: number;
  readonly table_name: string;
  readonly op: string;
  readonly row: string;
  readonly old: string | null;
  readonly depth: number;
}

/**
 * Bounds what one batch keeps of the event loop: ids, buffers and parameters of all its events are made at a stretch.
 */
const maxRows = 250;
/** One event may be larger, up to 8 MB (migrations/project/0003_events.sql); it goes alone. */
const maxBytes = 4 * 1024 * 1024;

/**
 * The id of an event in the control database: the same each time that the event is taken, so that it is kept once, and
 * in order of time as UUIDs of version 7 are.
 * @param at in ms
 */
export const eventId = (projectId: string, { id, at }: Pick<OutboxRow, 'id' | 'at'>): string =>
  derivedId(at, `${projectId}:${id}:${at}`);

const nameOf = ({ table_name, op }: OutboxRow): string =>
  op === userEventOperation ? table_name : `table.${table_name}.${op}`;

/** JSON text: put together as text, since parsing would change numbers. */
const dataOf = ({ op, row, old }: OutboxRow): string => {
  if (op === userEventOperation) return row;
  return old === null ? `{"row":${row}}` : `{"row":${row},"old":${old}}`;
};

const keep = async (db: Queryable, projectId: string, rows: readonly OutboxRow[]): Promise<void> => {
  await db.query(
    `insert into outbox_events (id, project_id, event, data, created_at, depth)
     select id, $2, event, data::json, to_timestamp(at / 1000), depth
     from unnest($1::uuid[], $3::text[], $4::text[], $5::float8[], $6::smallint[]) as new (id, event, data, at, depth)
     on conflict (id) do nothing`,
    [
      rows.map((row) => eventId(projectId, row)),
      projectId,
      rows.map(nameOf),
      textArray(rows.map(dataOf)),
      rows.map(({ at }) => at),
      rows.map(({ depth }) => depth),
    ],
    'keep-table-events',
  );
};

/** Which rows go together. */
interface Batch {
  max: number;
  /** They come behind that one. */
  behind: string;
  /** The rows that were tried last. */
  ids: readonly string[];
}

interface Locked {
  /** The rows that are taken together, each with its depth. */
  readonly depths: ReadonlyMap<string, number>;
  /** The bytes of rows that are not fetched at all. */
  readonly malformed: readonly string[];
}

/** Locks some rows; others take what this one holds no more than this one takes theirs. */
const lockSome = async (client: Client, { max, behind }: Batch): Promise<Locked> => {
  const { rows } = await client.query<{ id: string; size: number; depth: number; malformed: boolean }>(
    // A database that is yet to be upgraded has no column depth: then the name means the one outside.
    `select id, size, malformed, waiting.depth from (select 0::smallint as depth) as none cross join lateral (
       select id::text as id, (octet_length(row)::bigint + coalesce(octet_length(old), 0))::float8 as size,
         ${isMalformed} as malformed, greatest(0, depth) as depth
       from plinth.outbox where plinth.outbox.id > $2 order by plinth.outbox.id limit $1 for update skip locked
     ) as waiting`,
    [max, behind],
  );
  const depths = new Map<string, number>();
  let size = 0;
  for (const row of rows.filter(({ malformed }) => !malformed)) {
    size += row.size;
    if (depths.size > 0 && size > maxBytes) break;
    depths.set(row.id, row.depth);
  }
  return { depths, malformed: rows.filter(({ malformed }) => malformed).map(({ id }) => id) };
};

export interface Taking {
  readonly client: Client;
  readonly db: Queryable;
  readonly projectId: string;
  readonly onSetAside: (event: SetAside) => void;
  /** Makes jobs of the text with which a function enqueued them. */
  readonly keepJobs?: (text: string) => Promise<void>;
  /** Where commits of `db` do not wait for the disk: resolves when what was kept lasts. */
  readonly untilLasting?: () => Promise<void>;
}

/** Errors that the values cause, and will cause again. */
const isOfValues = (error: unknown): error is DatabaseError =>
  error instanceof DatabaseError && error.severity === 'ERROR' && /^(22|23|54)/.test(error.code ?? '');

/** Stores a single event among those that failed, where a person can read it. */
const setAside = async ({ client, onSetAside }: Taking, row: OutboxRow, { message }: Error): Promise<void> => {
  await client.query(
    `insert into plinth.outbox_failed (id, ts, table_name, op, row, old, reason)
     values ($1, to_timestamp($2::float8 / 1000), $3, $4, $5, $6, $7)`,
    [row.id, row.at, row.table_name, row.op, row.row, row.old, message],
  );
  await boundSetAside(client);
  onSetAside({ id: row.id, table: row.table_name, reason: message });
};

/** Jobs that are refused for good are set aside; what else fails keeps them where they are. */
const keepJobsOf = async (taking: Taking, row: OutboxRow): Promise<void> => {
  try {
    await taking.keepJobs?.(row.row);
  } catch (error) {
    if (!(error instanceof ServiceError) || error.status >= 500) throw error;
    await setAside(taking, row, error);
  }
};

const moveSome = async (taking: Taking, batch: Batch): Promise<number> => {
  const { client, db, projectId } = taking;
  const { depths, malformed } = await lockSome(client, batch);
  const ids = [...depths.keys()];
  batch.ids = ids;
  if (malformed.length > 0) (await setAsideMalformed(client, malformed)).forEach(taking.onSetAside);
  if (ids.length === 0) return malformed.length;
  const deleted = await client.query<Omit<OutboxRow, 'depth'>>(
    `delete from plinth.outbox where id = any ($1::bigint[])
     returning id::text as id, extract(epoch from ts)::float8 * 1000 as at, table_name, op, row, old`,
    [ids],
  );
  const rows = deleted.rows.map((row) => ({ ...row, depth: depths.get(row.id) ?? 0 }));
  try {
    const events = rows.filter(({ op }) => op !== jobOperation);
    if (events.length > 0) await keep(db, projectId, events);
    for (const row of rows) if (row.op === jobOperation) await keepJobsOf(taking, row);
    await taking.untilLasting?.();
  } catch (error) {
    const [only] = rows;
    // Several are tried one by one first.
    if (batch.max > 1 || only === undefined || !isOfValues(error)) throw error;
    await setAside(taking, only, error);
  }
  return ids.length + malformed.length;
};

const inTransaction = async <T>(client: Client, work: () => Promise<T>): Promise<T> => {
  await client.query('begin');
  try {
    const result = await work();
    await client.query('commit');
    return result;
  } catch (error) {
    await client.query('rollback').catch(() => undefined);
    throw error;
  }
};

const firstBatch = (): Batch => ({ max: maxRows, behind: '0', ids: [] });

/** How the next ones are taken after these failed. @throws what they failed with when that would be no better */
const nextBatch = ({ max, ids, behind }: Batch, error: unknown): Batch => {
  if (isOfValues(error) && max > 1) return { max: 1, behind, ids: [] };
  const [first] = ids;
  if (!isTooSlow(error) || first === undefined) throw error;
  if (ids.length > 1) return { max: Math.ceil(ids.length / 2), behind, ids: [] };
  // It waits here until it can be kept: the fault may be the database's.
  return { ...firstBatch(), behind: first };
};

/** When more than so many take too long one by one, it is the control database that is slow. */
const maxLeft = 2;

/**
 * Moves some events of a project's outbox into the control database. They are stored there before they are deleted
 * here: an interrupted move is repeated, under the same ids. An event that cannot be stored is set aside, one that
 * takes too long stays where it is: neither delays others.
 * @returns how many there were
 * @throws what they failed with when none could be taken
 */
export const takeEvents = async (taking: Taking): Promise<number> => {
  const { client } = taking;
  let batch = firstBatch();
  let taken = 0;
  const left: unknown[] = [];
  while (taken < maxRows && left.length <= maxLeft) {
    try {
      const moved = await inTransaction(client, () => moveSome(taking, batch));
      taken += moved;
      if (moved === 0 || batch.max === maxRows) break;
    } catch (error) {
      const { behind } = batch;
      batch = nextBatch(batch, error);
      if (batch.behind !== behind) left.push(error);
    }
  }
  if (taken === 0 && left.length > 0) throw left[0];
  return taken;
};

/**
 * Whether a transaction that wrote events is not over yet: they cannot be seen before. To be asked before what waits is
 * counted, since it may end in between.
 */
export const isOutboxInUse = async (client: Client): Promise<boolean> => {
  const { rows } = await client.query<{ used: boolean }>(
    `select exists (
       select from pg_locks l join pg_database d on d.oid = l.database and d.datname = current_database()
       where l.relation = 'plinth.outbox'::regclass and l.mode = 'RowExclusiveLock'
         and l.pid is distinct from pg_backend_pid()) as used`,
  );
  return rows[0]?.used !== false;
};

export interface Backlog {
  readonly events: number;
  readonly bytes: number;
  /** The used share of the limit, 0 to 1: at 1 writes are refused. */
  readonly share: number;
  readonly subscribed: boolean;
}

/** The events that still wait, estimated from above; those that are being taken count, too. */
export const backlogOf = async (client: Client): Promise<Backlog> => {
  const { rows } = await client.query<Backlog>(
    `select events::float8 as events, bytes::float8 as bytes,
       greatest(events / nullif(max_rows, 0)::float8,
         case when events = 0 then 0 else bytes / nullif(max_bytes, 0)::float8 end) as share,
       exists (select from plinth.subscriptions) as subscribed
     from plinth.outbox_limits,
       (select coalesce(max(id) - min(id) + 1, 0) as events, pg_table_size('plinth.outbox') as bytes
        from plinth.outbox) as held`,
  );
  return rows[0] ?? { events: 0, bytes: 0, share: 0, subscribed: false };
};

/** Gives back the space of what was taken: the size of the outbox bounds what may wait. */
export const shrinkOutbox = async (client: Client): Promise<void> => {
  await client.query('vacuum (truncate) plinth.outbox');
};
