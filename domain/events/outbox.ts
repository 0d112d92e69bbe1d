import { createHash } from 'node:crypto';
import type { Client } from 'pg';
import type { Queryable } from '#lib/control-db.ts';

interface OutboxRow {
  readonly id: string;
  /** In ms. */
  readonly at: number;
  readonly table_name: string;
  readonly op: string;
  readonly row: string;
  readonly old: string | null;
}

const mostRows = 500;
/** One row may be larger; it goes alone. */
const mostBytes = 8 * 1024 * 1024;

/**
 * The id of an event in the control database: the same each time that the event is taken, so that it is kept once, and
 * in order of time as UUIDs of version 7 are.
 * @param at in ms
 */
export const eventId = (projectId: string, { id, at }: Pick<OutboxRow, 'id' | 'at'>): string => {
  const bytes = createHash('sha256').update(`${projectId}:${id}:${at}`).digest().subarray(0, 16);
  bytes.writeUIntBE(Math.floor(at), 0, 6);
  bytes[6] = 0x70 | ((bytes[6] ?? 0) & 0x0f);
  bytes[8] = 0x80 | ((bytes[8] ?? 0) & 0x3f);
  const hex = bytes.toString('hex');
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-');
};

/** JSON text: put together as text, since parsing would change numbers. */
const dataOf = ({ row, old }: OutboxRow): string => (old === null ? `{"row":${row}}` : `{"row":${row},"old":${old}}`);

const keep = async (db: Queryable, projectId: string, rows: readonly OutboxRow[]): Promise<void> => {
  await db.query(
    `insert into outbox_events (id, project_id, event, data, created_at)
     select id, $2, event, data, to_timestamp(at / 1000)
     from unnest($1::uuid[], $3::text[], $4::json[], $5::float8[]) as new (id, event, data, at)
     on conflict (id) do nothing`,
    [
      rows.map((row) => eventId(projectId, row)),
      projectId,
      rows.map(({ table_name, op }) => `table.${table_name}.${op}`),
      rows.map(dataOf),
      rows.map(({ at }) => at),
    ],
    'keep-table-events',
  );
};

/** Ids of the rows that go together; others take what this one holds no more than this one takes theirs. */
const lockSome = async (client: Client): Promise<string[]> => {
  const { rows } = await client.query<{ id: string; size: number }>(
    `select id::text as id, octet_length(row) + coalesce(octet_length(old), 0) as size
     from plinth.outbox order by plinth.outbox.id limit $1 for update skip locked`,
    [mostRows],
  );
  const ids: string[] = [];
  let size = 0;
  for (const row of rows) {
    size += row.size;
    if (ids.length > 0 && size > mostBytes) break;
    ids.push(row.id);
  }
  return ids;
};

/**
 * Takes some events out of a project's outbox into the control database. They are kept there before they are gone here:
 * what breaks off in between is taken again, under the same ids.
 * @returns how many there were
 */
export const takeEvents = async (client: Client, db: Queryable, projectId: string): Promise<number> => {
  await client.query('begin');
  try {
    const ids = await lockSome(client);
    if (ids.length > 0) {
      const { rows } = await client.query<OutboxRow>(
        `delete from plinth.outbox where id = any ($1::bigint[])
         returning id::text as id, extract(epoch from ts)::float8 * 1000 as at, table_name, op, row, old`,
        [ids],
      );
      await keep(db, projectId, rows);
    }
    await client.query('commit');
    return ids.length;
  } catch (error) {
    await client.query('rollback').catch(() => undefined);
    throw error;
  }
};

export interface Backlog {
  readonly events: number;
  readonly bytes: number;
  /** Of what is allowed, 0 to 1: at 1 writes are refused. */
  readonly share: number;
  readonly subscribed: boolean;
}

/** What still waits, counted from above; what is being taken counts, too. */
export const backlogOf = async (client: Client): Promise<Backlog> => {
  const { rows } = await client.query<Backlog>(
    `select events::float8 as events, bytes::float8 as bytes,
       greatest(events / nullif(max_rows, 0)::float8, case when events = 0 then 0 else bytes / nullif(max_bytes, 0)::float8 end) as share,
       exists (select from plinth.subscriptions) as subscribed
     from plinth.outbox_limits,
       (select coalesce(max(id) - min(id) + 1, 0) as events, pg_table_size('plinth.outbox') as bytes from plinth.outbox) as held`,
  );
  return rows[0] ?? { events: 0, bytes: 0, share: 0, subscribed: false };
};

/** Gives back the space of what was taken: the size of the outbox bounds what may wait. */
export const shrinkOutbox = async (client: Client): Promise<void> => {
  await client.query('vacuum (truncate) plinth.outbox');
};
