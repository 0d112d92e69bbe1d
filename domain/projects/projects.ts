/*
 * Projects: a row, a database of its own, and a data key under which its secrets are sealed. This file has a project's
 * life and the ways into its database. store.ts has the rows, api-keys.ts the keys of its clients, plans.ts what a plan
 * allows, project-db.ts the roles in its database, rotate-keys.ts the change of the platform's key ring.
 */
import { LRUCache } from 'lru-cache';
import { openPassword, provisionDatabase } from '#domain/database-servers/provision.ts';
import { type ShadowLimits, withShadow } from '#domain/database-servers/shadow.ts';
import { dropDatabase, reopenDatabase, retireDatabase } from '#domain/database-servers/retire.ts';
import type { DatabaseServers } from '#domain/database-servers/database-servers.ts';
import { databaseName } from '#domain/database-servers/names.ts';
import { type Actor, actingAs } from '#domain/audit/actor.ts';
import { type ControlDb, type Queryable, maybeOne } from '#lib/control-db.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import { newId, newProjectRef } from '#lib/ids.ts';
import type { Log } from '#lib/log.ts';
import type { KeyRing, Sealer } from '#lib/secrets.ts';
import type { TenantDb, TenantRole } from '#lib/tenant-db.ts';
import type { TenantLogin } from '#lib/tenant-connections.ts';
import type { EndStatus } from '#queues/define.ts';
import { type ProjectDb, createProjectDb } from './project-db.ts';
import {
  type NewProject,
  type Plan,
  type Project,
  deleteProjectRow,
  findProject,
  markProjectRetired,
  projectColumns,
  projectsToPurge,
  projectsToRetire,
  setProjectStatus,
} from './store.ts';

/** A job that ended with its project, and the reply stream of whoever waits for it. */
interface EndedJob {
  readonly id: string;
  readonly status: 'queued' | 'running' | 'waiting' | EndStatus;
  readonly result: string | null;
  readonly error_code: string | null;
  readonly error_message: string | null;
  readonly reply_to: string | null;
}

/** How long the caller of a deletion stays with the project's jobs, and whom else their end concerns. */
export interface Abandonment {
  readonly maxMs: number;
  /** Has the gate forget what waits, so that nothing of it is handed over meanwhile. */
  readonly dropBacklog: (projectId: string) => Promise<void>;
  /** Receives the ends of jobs that have a waiting caller. */
  readonly onEnded: (ended: readonly EndedJob[]) => Promise<void>;
}

/** The jobs of deleted projects. Jobs build on projects, so what starts the platform passes this in. */
export interface DeletedProjectJobs {
  /** @returns whether nothing waits any more; false when the time was over or another process is at it */
  readonly abandon: (projectId: string, how: Pick<Abandonment, 'maxMs' | 'onEnded'>) => Promise<boolean>;
  /** @returns whether none is left */
  readonly remove: (projectId: string, maxMs: number) => Promise<boolean>;
}

interface ProjectsOptions {
  readonly db: ControlDb;
  readonly servers: DatabaseServers;
  readonly keyRing: KeyRing;
  readonly jobs: DeletedProjectJobs;
  /** Connections of this process to project databases. */
  readonly tenantConnections: number;
  readonly log: Log;
}

/** A project's life and the ways into its database and secrets. */
export interface Projects {
  /** A new project's row, ready to insert. */
  readonly draft: (of: { orgId: string; name: string; slug: string; plan: Plan; createdBy: string }) => NewProject;
  /**
   * Makes what is missing of a project's database; its status becomes active, unless it was deleted meanwhile.
   * @param fill what a new branch begins with; it may be called again after a run that died
   */
  readonly provision: (projectId: string, fill?: (branch: Project) => Promise<void>) => Promise<{ dbName: string }>;
  readonly provisionFailed: (projectId: string) => Promise<void>;
  /**
   * After a project was marked as deleted: locks everyone out, frees the database's name and cancels its jobs in
   * batches, as far as the time goes; a sweep does the rest. The gate is to read its rules again afterwards.
   */
  readonly retire: (projectId: string, abandonment?: Abandonment) => Promise<void>;
  /** Continues deletions that broke off, or left many jobs to cancel. Answers which. */
  readonly retireLeftOvers: (abandonment?: Abandonment) => Promise<readonly string[]>;
  /** Drops the databases of projects that were deleted more than `days` ago. Answers how many. */
  readonly purge: (days: number) => Promise<number>;
  /** See `restoreProject`. The other processes are to be notified afterwards. */
  readonly restore: (order: RestoreOrder) => Promise<void>;
  readonly sealer: (project: Pick<Project, 'id' | 'data_key'>) => Sealer;
  readonly tenantDb: ProjectDb;
  /** Makes a throw-away database and drops it after `work`, which gets the ways of the project's roles into it. */
  readonly withShadow: <T>(
    projectId: string,
    work: (shadow: ProjectDb) => Promise<T>,
    limits?: ShadowLimits,
  ) => Promise<T>;
  readonly close: () => Promise<void>;
}

const sweepBatch = 50;

const loginOf = async (
  { db, servers, keyRing }: ProjectsOptions,
  projectId: string,
  role: TenantRole,
): Promise<TenantLogin> => {
  const row = await maybeOne(
    db.query<Project & { role_name: string; password_sealed: Buffer }>(
      `select p.id, p.data_key, p.server_id, p.db_name, r.role_name, r.password_sealed
       from projects p join project_roles r on r.project_id = p.id and r.kind = $2
       where p.id = $1 and p.deleted_at is null`,
      [projectId, role],
      'tenant-login',
    ),
  );
  if (row === undefined) throw notFound('project');
  const password = openPassword(keyRing.sealerFor(row.id, row.data_key), role, row.password_sealed);
  return { ...(await servers.address(row.server_id)), database: row.db_name, user: row.role_name, password };
};

/** Unwrapping a data key costs 20 µs; the wrapped form names what comes out. */
const createSealers = (keyRing: KeyRing): Projects['sealer'] => {
  const sealers = new LRUCache<string, Sealer>({ max: 5000 });
  return ({ id, data_key }) => {
    const key = `${id}:${data_key.toString('base64')}`;
    const present = sealers.get(key);
    if (present) return present;
    const made = keyRing.sealerFor(id, data_key);
    sealers.set(key, made);
    return made;
  };
};

const draftWith =
  (keyRing: KeyRing): Projects['draft'] =>
  ({ orgId, name, slug, plan, createdBy }) => {
    const id = newId();
    return {
      id,
      ref: newProjectRef(),
      org_id: orgId,
      name,
      slug,
      plan,
      db_name: databaseName(orgId, slug),
      data_key: keyRing.newDataKey(id),
      created_by: createdBy,
    };
  };

/** More than a shadow takes. */
const shadowConnections = 6;

const shadowsWith =
  (options: ProjectsOptions, sealer: Projects['sealer']): Projects['withShadow'] =>
  async (projectId, work, limits) => {
    const { db, servers, log } = options;
    const project = await findProject(db, projectId);
    if (project === undefined || project.deleted_at !== null) throw notFound('project');
    const of = { deps: { db, servers, sealer: sealer(project) }, project, ...(limits && { limits }) };
    return withShadow(of, async (database) => {
      const login = async (id: string, role: TenantRole) => ({ ...(await loginOf(options, id, role)), database });
      const shadow = createProjectDb({ db, servers, budget: shadowConnections, login, log });
      try {
        return await work(shadow);
      } finally {
        await shadow.close();
      }
    });
  };

type Deletion = Pick<Projects, 'retire' | 'retireLeftOvers' | 'purge'>;

/** 100,000 jobs take half a minute; what is left then is done by the next sweep. */
const maxMs = 45_000;
const alone: Abandonment = {
  maxMs,
  dropBacklog: () => Promise.resolve(),
  onEnded: () => Promise.resolve(),
};

const deletionWith = ({ db, servers, jobs, log }: ProjectsOptions, tenantDb: TenantDb): Deletion => {
  const retire = async (projectId: string, abandonment = alone): Promise<void> => {
    // Jobs that stay at the gate are refused when they would start: an unavailable Redis holds up no deletion.
    await abandonment.dropBacklog(projectId).catch((error: unknown) => {
      log.warn(
        { err: error, project_id: projectId },
        'the jobs of a deleted project could not be removed from the gate now; the sweep removes them',
      );
    });
    const [isEmpty] = await Promise.all([
      jobs.abandon(projectId, abandonment),
      tenantDb.release(projectId),
      retireDatabase({ db, servers }, projectId),
    ]);
    if (isEmpty) await markProjectRetired(db, projectId);
  };

  const drop = async (project: Project): Promise<void> => {
    await dropDatabase({ db, servers }, project);
    if (!(await jobs.remove(project.id, maxMs))) return;
    await db.transaction((tx) => deleteProjectRow(tx, project.id), actingAs({ type: 'system' }, 'project.purge'));
  };

  /** A failure must not hold up the others. */
  const each = async (projects: readonly Project[], work: (project: Project) => Promise<void>): Promise<number> => {
    let done = 0;
    for (const project of projects) {
      await work(project).then(
        () => (done += 1),
        (error: unknown) =>
          log.warn(
            { err: error, project_id: project.id },
            'a deleted project could not be retired; trying again later',
          ),
      );
    }
    return done;
  };

  return {
    retire,
    retireLeftOvers: async (abandonment) => {
      const projects = await projectsToRetire(db, sweepBatch);
      await each(projects, (project) => retire(project.id, abandonment));
      return projects.map(({ id }) => id);
    },
    purge: async (days) => each(await projectsToPurge(db, days, sweepBatch), drop),
  };
};

export const createProjects = (options: ProjectsOptions): Projects => {
  const { db, servers, keyRing, log } = options;
  const sealer = createSealers(keyRing);
  const tenantDb = createProjectDb({
    db,
    servers,
    budget: options.tenantConnections,
    login: (projectId, role) => loginOf(options, projectId, role),
    log,
  });
  return {
    sealer,
    tenantDb,
    draft: draftWith(keyRing),
    withShadow: shadowsWith(options, sealer),
    ...deletionWith(options, tenantDb),
    restore: (order) => restoreProject({ db, servers }, order),
    provision: async (projectId, fill) => {
      const project = await findProject(db, projectId);
      if (project === undefined) throw new Error(`there is no project ${projectId}`);
      if (project.deleted_at === null) await provisionDatabase({ db, servers, sealer: sealer(project) }, project);
      if (project.deleted_at === null && project.branch_of !== null && project.status !== 'active')
        await fill?.(project);
      await setProjectStatus(db, projectId, ['creating', 'failed'], 'active');
      // Deleted before or meanwhile: what was made, by a run that died too, is put away again.
      await retireDatabase({ db, servers }, projectId);
      return { dbName: project.db_name };
    },
    provisionFailed: (projectId) => setProjectStatus(db, projectId, ['creating'], 'failed'),
    close: async () => {
      await tenantDb.close();
      await servers.close();
    },
  };
};

/** A deleted project whose database is still kept. */
interface DeletedProject {
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

interface RestoreOrder {
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
 * @throws {ServiceError} `not_found`; `conflict` when it is not deleted, or its organization is; `slug_taken`;
 * `expired`
 */
const restoreProject = async (
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
