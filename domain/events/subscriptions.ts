import type { Client } from 'pg';
import { type DatabaseServers, inDatabase } from '#domain/database-servers/database-servers.ts';
import { type Project, findProject } from '#domain/projects/store.ts';
import { type ControlDb, type Queryable, maybeOne } from '#lib/control-db.ts';
import { notFound } from '#lib/errors.ts';

/** A project whose database is polled for events. */
export interface EventSource extends Pick<Project, 'server_id' | 'db_name'> {
  readonly project_id: string;
  /** Changes whenever the subscriptions are set, as text: more exact than a `Date`. */
  readonly changed_at: string;
}

const sourceColumns = 's.project_id, s.changed_at::text as changed_at, p.server_id, p.db_name';
const active = `p.deleted_at is null and p.status = 'active'`;

/** From now on the project's database is polled. */
export const addSource = async (db: Queryable, projectId: string): Promise<void> => {
  await db.query(
    `insert into event_sources (project_id) values ($1)
     on conflict (project_id) do update set changed_at = clock_timestamp()`,
    [projectId],
  );
};

/** From now on a source may go, but not before statements that began while somebody subscribed have ended. */
const noteUnsubscribed = async (db: Queryable, projectId: string): Promise<void> => {
  await db.query('update event_sources set changed_at = clock_timestamp() where project_id = $1', [projectId]);
};

/**
 * Notes that a project's database was looked into. That is a write whose commit waits for the disk: what sessions of
 * the control database committed before, without such a wait, lasts from then on, too.
 * @throws {Error} when the project's database is not looked into any more: nothing was written
 */
export const notePolled = async (db: Queryable, projectId: string): Promise<void> => {
  const rows = await db.query(
    'update event_sources set looked_at = now() where project_id = $1 returning project_id',
    [projectId],
    'note-polled',
  );
  if (rows.length === 0) throw new Error('the events of this project are not taken any more');
};

/** Longer than a statement may take (300 s), and what ends it, together. */
const keptMinutes = 10;

/**
 * The outbox is empty and nothing subscribes; not when the subscriptions were set meanwhile, or in the last 10 minutes:
 * a long statement decides late whether it emits events.
 */
export const removeSource = async (db: Queryable, source: EventSource): Promise<void> => {
  await db.query(
    `delete from event_sources where project_id = $1 and changed_at = $2::timestamptz
       and changed_at < now() - make_interval(mins => $3)`,
    [source.project_id, source.changed_at, keptMinutes],
  );
};

export const findSource = (db: Queryable, projectId: string): Promise<EventSource | undefined> =>
  maybeOne(
    db.query<EventSource>(
      `select ${sourceColumns} from event_sources s join projects p on p.id = s.project_id
       where s.project_id = $1 and ${active}`,
      [projectId],
      'find-event-source',
    ),
  );

/** Returns the sources that nobody has polled for a while, the longest first; they count as polled from now on. */
export const sourcesToPoll = (
  db: Queryable,
  { max, seconds }: { readonly max: number; readonly seconds: number },
): Promise<EventSource[]> =>
  db.query<EventSource>(
    `update event_sources s set looked_at = now() from projects p
     where p.id = s.project_id and ${active} and s.project_id in (
       select project_id from event_sources where looked_at < now() - make_interval(secs => $2)
       order by looked_at limit $1 for update skip locked)
     returning ${sourceColumns}`,
    [max, seconds],
    'event-sources-to-look-into',
  );

export const tableOperations = ['INSERT', 'UPDATE', 'DELETE', 'TRUNCATE'] as const;
export type TableOperation = (typeof tableOperations)[number];

/** The operation under which the outbox has events of users and files, with their name in the table's place. */
export const userEventOperation = 'EVENT';

/** Events that a change of the project's own users or files leaves with it (migrations/project, 0022 and 0030). */
export const userEventNames = [
  'auth.signup',
  'auth.login',
  'auth.password_reset',
  'user.created',
  'user.updated',
  'user.deleted',
  'storage.upload',
  'storage.delete',
] as const;

/** Subscribed writes; null: every operation on every table of `public`. Or an event of users or files. */
export interface TableSubscription {
  readonly table: string | null;
  readonly op: TableOperation | typeof userEventOperation | null;
}

export interface SubscriptionsDeps {
  readonly db: ControlDb;
  readonly servers: Pick<DatabaseServers, 'connectTo'>;
}

const wantedRows = `unnest($1::text[], $2::text[]) as wanted (table_name, op)`;

/** A server that hangs, or a lock that somebody holds, is not waited for any longer. */
const maxMs = 10_000;

/** Only differences are written: each change of the table rewrites a function. */
const write = async (client: Client, subscriptions: readonly TableSubscription[]): Promise<void> => {
  const values = [subscriptions.map(({ table }) => table), subscriptions.map(({ op }) => op)];
  const { rows } = await client.query<{ differs: boolean }>(
    `select exists (
       (select table_name, op from plinth.subscriptions except select * from ${wantedRows})
       union all (select * from ${wantedRows} except select table_name, op from plinth.subscriptions)) as differs`,
    values,
  );
  if (rows[0]?.differs === true) {
    await client.query('delete from plinth.subscriptions');
    await client.query(`insert into plinth.subscriptions select distinct * from ${wantedRows}`, values);
  }
};

/**
 * Sets which writes to a project's tables emit events; the former set is replaced. Statements that start after this has
 * returned emit theirs. Events that wait already are still taken.
 * @param wanted asked while nobody else sets them: of two at once, who comes second asks second, and what is older is
 * never written over what is newer
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
    // Before it, so that no event stays where nothing polls.
    if (subscriptions.length > 0) await addSource(db, projectId);
    await write(client, subscriptions);
    await client.query('commit');
    return subscriptions.length > 0;
  });
  if (!subscribed) await noteUnsubscribed(db, projectId);
};
