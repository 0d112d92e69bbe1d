import { type Actor, actingAs } from '#domain/audit/actor.ts';
import { reopenDatabase } from '#domain/database/servers/reopen.ts';
import type { DatabaseServers } from '#domain/database/servers/servers.ts';
import { databaseName } from '#domain/database/tables/names.ts';
import { type ControlDb, type Queryable, maybeOne } from '#lib/control-db.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import { type Project, projectColumns } from './store.ts';

/** A deleted project whose database is still kept. */
export interface DeletedProject {
  readonly project_id: string;
  readonly ref: string;
  readonly name: string;
  readonly slug: string;
  readonly plan: string;
  readonly org_id: string;
  readonly org_name: string;
  readonly deleted_at: Date;
  readonly restorable_until: Date;
  /** Another project of the organization has its slug by now. */
  readonly slug_taken: boolean;
  readonly org_deleted: boolean;
}

const maxListed = 200;

/** The latest first. */
export const deletedProjects = (db: Queryable, days: number): Promise<DeletedProject[]> =>
  db.query<DeletedProject>(
    `select p.id as project_id, p.ref, p.name, p.slug, p.plan, p.org_id, o.name as org_name, p.deleted_at,
       p.deleted_at + make_interval(days => $1) as restorable_until, o.deleted_at is not null as org_deleted,
       exists (select from projects other
         where other.org_id = p.org_id and other.slug = p.slug and other.deleted_at is null) as slug_taken
     from projects p join organizations o on o.id = p.org_id
     where p.deleted_at > now() - make_interval(days => $1) order by p.deleted_at desc limit ${maxListed}`,
    [days],
  );

export interface RestoreOrder {
  readonly projectId: string;
  /** In place of the one that it had. */
  readonly slug?: string | undefined;
  /** For so long deleted projects are kept. */
  readonly days: number;
  readonly actor: Actor;
}

type LockedProject = Project & {
  readonly isExpired: boolean;
  readonly org_deleted: boolean;
  readonly slug_taken: boolean;
};

const requireRestorable = (project: LockedProject | undefined, slug: string | undefined): LockedProject => {
  if (project === undefined) throw notFound('project');
  if (project.deleted_at === null) throw new ServiceError('conflict', 'The project is not deleted.');
  if (project.isExpired) throw new ServiceError('expired', 'The time in which this project could be restored is over.');
  if (project.org_deleted) throw new ServiceError('conflict', 'The organization of the project is deleted.');
  if (!project.slug_taken) return project;
  throw new ServiceError(
    'slug_taken',
    `Another project of the organization has the slug ${slug ?? project.slug} by now.`,
    {
      hint: 'Give another `slug`.',
    },
  );
};

const lockProject = (tx: Queryable, { projectId, slug, days }: RestoreOrder): Promise<LockedProject | undefined> =>
  maybeOne(
    tx.query<LockedProject>(
      `select ${projectColumns}, p.deleted_at <= now() - make_interval(days => $2) as "isExpired",
         (select o.deleted_at is not null from organizations o where o.id = p.org_id) as org_deleted,
         exists (select from projects other where other.org_id = p.org_id and other.slug = coalesce($3, p.slug)
           and other.deleted_at is null and other.id <> p.id) as slug_taken
       from projects p where p.id = $1 for no key update of p`,
      [projectId, days, slug ?? null],
    ),
  );

/**
 * Gives a deleted project back: its database is opened again, and with its row come its keys, functions, schedules,
 * webhooks and settings. Jobs that the deletion cancelled stay cancelled; fires that were missed follow each schedule's
 * own rule.
 * @throws {ServiceError} `not_found`; `conflict` when it is not deleted, or its organization is; `slug_taken`; `expired`
 */
export const restoreProject = async (
  { db, servers }: { readonly db: ControlDb; readonly servers: DatabaseServers },
  order: RestoreOrder,
): Promise<void> => {
  const settings = actingAs(order.actor, 'project.restore');
  const project = await db.transaction(async (tx) => {
    const locked = requireRestorable(await lockProject(tx, order), order.slug);
    // Should this break off, the sweep closes again what was opened.
    await tx.query('update projects set retired_at = null where id = $1', [locked.id]);
    return locked;
  }, settings);
  const slug = order.slug ?? project.slug;
  const newName = databaseName(project.org_id, slug);
  const record = async (tx: Queryable): Promise<void> => {
    requireRestorable(await lockProject(tx, order), order.slug);
    await tx.query(
      `update projects set deleted_at = null, retired_at = null, status = 'active', slug = $2, db_name = $3,
         updated_at = now() where id = $1`,
      [project.id, slug, newName],
    );
  };
  await reopenDatabase(servers, project, { newName, record: () => db.transaction(record, settings) });
};
