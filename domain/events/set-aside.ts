import type { Client } from 'pg';

/** An event that is not passed on: it lies in its project's `plinth.outbox_failed`, where a person can look at it. */
export interface SetAside {
  readonly id: string;
  readonly table: string;
  readonly reason: string;
}

/** One event, as JSON text, with the old row when it is an update (migrations/project/0003_events.sql). */
export const maxEventBytes = 8 * 1024 * 1024;

/**
 * Whether a row of the outbox is one that no trigger writes, in SQL: too large, no known operation, an impossible name or
 * time. A row of 90 MB held up the process that fetched it for 4 s, until its watchdog killed it; the next one fetched it
 * again. The lengths are read without the values.
 */
export const isMalformed = `(octet_length(row)::bigint + coalesce(octet_length(old), 0) > ${maxEventBytes}
  or octet_length(table_name) > 63 or octet_length(op) > 8 or op not in ('INSERT', 'UPDATE', 'DELETE', 'TRUNCATE')
  or ts not between '2000-01-01'::timestamptz and '9999-01-01'::timestamptz)`;

/** The start of a malformed row shows where it came from; the rest would fill a space that no plan counts. */
const keptCharacters = 65_536;

/** Events that were set aside count for no plan: the oldest are deleted first. */
const maxKept = 1000;
const maxKeptBytes = 64 * 1024 * 1024;

/** In the caller's transaction. */
export const boundSetAside = async (client: Client): Promise<void> => {
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
export const setAsideMalformed = async (client: Client, ids: readonly string[]): Promise<SetAside[]> => {
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
