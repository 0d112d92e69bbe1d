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

/** Nothing is left there and nobody subscribes; not when the subscriptions were set meanwhile. */
export const removeSource = async (db: Queryable, source: EventSource): Promise<void> => {
  await db.query('delete from event_sources where project_id = $1 and changed_at = $2::timestamptz', [
    source.project_id,
    source.changed_at,
  ]);
};

export const findSource = (db: Queryable, projectId: string): Promise<EventSource | undefined> =>
  maybeOne(
    db.query<EventSource>(
      `select ${columns} from event_sources s join projects p on p.id = s.project_id where s.project_id = $1 and ${active}`,
      [projectId],
      'find-event-source',
    ),
  );

/** Those that nobody looked into for a while, the longest first; they count as looked into from now on. */
export const sourcesToLookInto = (
  db: Queryable,
  { most, seconds }: { readonly most: number; readonly seconds: number },
): Promise<EventSource[]> =>
  db.query<EventSource>(
    `update event_sources s set looked_at = now() from projects p
     where p.id = s.project_id and ${active} and s.project_id in (
       select project_id from event_sources where looked_at < now() - make_interval(secs => $2)
       order by looked_at limit $1 for update skip locked)
     returning ${columns}`,
    [most, seconds],
    'event-sources-to-look-into',
  );
