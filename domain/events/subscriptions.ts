import type { Client } from 'pg';
import { inDatabase } from '#domain/database/limits/limits.ts';
import type { DatabaseServers } from '#domain/database/servers/servers.ts';
import { findProject } from '#domain/projects/store.ts';
import type { ControlDb } from '#lib/control-db.ts';
import { notFound } from '#lib/errors.ts';
import { addSource, noteUnsubscribed } from './sources.ts';

export const tableOperations = ['INSERT', 'UPDATE', 'DELETE', 'TRUNCATE'] as const;
export type TableOperation = (typeof tableOperations)[number];

/** Writes that somebody wants to hear of; null: of every table of `public`, of every operation. */
export interface TableSubscription {
  readonly table: string | null;
  readonly op: TableOperation | null;
}

export interface SubscriptionsDeps {
  readonly db: ControlDb;
  readonly servers: Pick<DatabaseServers, 'connectTo'>;
}

const columns = `unnest($1::text[], $2::text[]) as wanted (table_name, op)`;

/** A server that hangs, or a lock that somebody holds, is not waited for any longer. */
const maxMs = 10_000;

/** Only what differs is written: each change of the table writes a function anew. */
const write = async (client: Client, subscriptions: readonly TableSubscription[]): Promise<void> => {
  const values = [subscriptions.map(({ table }) => table), subscriptions.map(({ op }) => op)];
  const { rows } = await client.query<{ differs: boolean }>(
    `select exists (
       (select table_name, op from plinth.subscriptions except select * from ${columns})
       union all (select * from ${columns} except select table_name, op from plinth.subscriptions)) as differs`,
    values,
  );
  if (rows[0]?.differs === true) {
    await client.query('delete from plinth.subscriptions');
    await client.query(`insert into plinth.subscriptions select distinct * from ${columns}`, values);
  }
};

/**
 * Sets which writes to a project's tables leave events; whatever was set before is replaced. Statements that begin after
 * this has answered leave theirs. Events that wait already are still taken.
 * @param wanted asked while nobody else sets them: of two at once, who comes second asks second, and what is older is never
 *   written over what is newer
 * @throws {ServiceError} `not_found`
 */
export const setTableSubscriptions = async (
  { db, servers }: SubscriptionsDeps,
  projectId: string,
  wanted: readonly TableSubscription[] | (() => Promise<readonly TableSubscription[]>),
): Promise<void> => {
  const project = await findProject(db, projectId);
  if (project === undefined || project.deleted_at !== null) throw notFound('project');
  const subscribed = await inDatabase(servers, project, async (client) => {
    await client.query(`begin; set local statement_timeout = ${maxMs}`);
    await client.query('lock table plinth.subscriptions in share row exclusive mode');
    const subscriptions = typeof wanted === 'function' ? await wanted() : wanted;
    // Before, so that nothing is left where nobody looks.
    if (subscriptions.length > 0) await addSource(db, projectId);
    await write(client, subscriptions);
    await client.query('commit');
    return subscriptions.length > 0;
  });
  if (!subscribed) await noteUnsubscribed(db, projectId);
};
