import type { Client } from 'pg';
import { inDatabase } from '#domain/database/limits/limits.ts';
import type { DatabaseServers } from '#domain/database/servers/servers.ts';
import { findProject } from '#domain/projects/store.ts';
import type { ControlDb } from '#lib/control-db.ts';
import { notFound } from '#lib/errors.ts';
import { addSource, noteUnsubscribed } from './sources.ts';

export const tableOperations = ['INSERT', 'UPDATE', 'DELETE'] as const;
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

/** Only what differs is written: each change of the table writes a function anew. */
const write = async (client: Client, subscriptions: readonly TableSubscription[]): Promise<void> => {
  const values = [subscriptions.map(({ table }) => table), subscriptions.map(({ op }) => op)];
  await client.query('begin');
  // Two at once would each leave what the other one wrote.
  await client.query('lock table plinth.subscriptions in share row exclusive mode');
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
  await client.query('commit');
};

/**
 * Sets which writes to a project's tables leave events; whatever was set before is replaced. Statements that begin after
 * this has answered leave theirs. Events that wait already are still taken.
 * @throws {ServiceError} `not_found`
 */
export const setTableSubscriptions = async (
  { db, servers }: SubscriptionsDeps,
  projectId: string,
  subscriptions: readonly TableSubscription[],
): Promise<void> => {
  const project = await findProject(db, projectId);
  if (project === undefined || project.deleted_at !== null) throw notFound('project');
  // Before, so that nothing is left where nobody looks.
  if (subscriptions.length > 0) await addSource(db, projectId);
  await inDatabase(servers, project, (client) => write(client, subscriptions));
  if (subscriptions.length === 0) await noteUnsubscribed(db, projectId);
};
