import type { Project } from '#domain/projects/store.ts';
import { type Queryable, maybeOne } from '#lib/control-db.ts';

/** A project whose database is looked into for events. */
export interface EventSource extends Pick<Project, 'server_id' | 'db_name'> {
  readonly project_id: string;
  /** Changes whenever the subscriptions are set, as text: more exact than a `Date`. */
  readonly changed_at: string;
}

const columns = 's.project_id, s.changed_at::text as changed_at, p.server_id, p.db_name';
const active = `p.deleted_at is null and p.status = 'active'`;

/** From now on the project's database is looked into. */
export const addSource = async (db: Queryable, projectId: string): Promise<void> => {
  await db.query(
    `insert into event_sources (project_id) values ($1)
     on conflict (project_id) do update set changed_at = clock_timestamp()`,
    [projectId],
  );
};

/** From now on a source may go, but not before statements that began while somebody subscribed have ended. */
export const noteUnsubscribed = async (db: Queryable, projectId: string): Promise<void> => {
  await db.query('update event_sources set changed_at = clock_timestamp() where project_id = $1', [projectId]);
};

/** Longer than a statement may take (300 s), and what ends it, together. */
const keptMinutes = 10;

/**
 * Nothing is left there and nobody subscribes; not when the subscriptions were set meanwhile, or in the last 10 minutes:
 * a statement that runs for long decides late whether it leaves events.
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
      `select ${columns} from event_sources s join projects p on p.id = s.project_id where s.project_id = $1 and ${active}`,
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
     returning ${columns}`,
    [max, seconds],
    'event-sources-to-look-into',
  );
