import { LRUCache } from 'lru-cache';
import { openPassword, provisionDatabase } from '#domain/database/servers/provision.ts';
import { dropDatabase, retireDatabase } from '#domain/database/servers/retire.ts';
import type { DatabaseServers } from '#domain/database/servers/servers.ts';
import { databaseName } from '#domain/database/tables/names.ts';
import { actingAs } from '#domain/audit/actor.ts';
import { type Abandonment, abandonJobsOf, deleteJobsOf } from '#domain/jobs/abandon.ts';
import { type ControlDb, maybeOne } from '#lib/control-db.ts';
import { notFound } from '#lib/errors.ts';
import { newId, newProjectRef } from '#lib/ids.ts';
import type { Log } from '#lib/log.ts';
import type { KeyRing, Sealer } from '#lib/secrets.ts';
import type { TenantDb, TenantRole } from '#lib/tenant-db.ts';
import type { TenantLogin } from '#lib/tenant-connections.ts';
import { type ProjectDb, createProjectDb } from './project-db.ts';
import {
  type NewProject,
  type Plan,
  type Project,
  deleteProjectRow,
  findProject,
  markProjectRetired,
  projectsToPurge,
  projectsToRetire,
  setProjectStatus,
} from './store.ts';
import { type RestoreOrder, restoreProject } from './restore.ts';

export interface ProjectsOptions {
  readonly db: ControlDb;
  readonly servers: DatabaseServers;
  readonly keyRing: KeyRing;
  /** Connections of this process to project databases. */
  readonly tenantConnections: number;
  readonly log: Log;
}

/** A project's life and the ways into its database and secrets. */
export interface Projects {
  /** A new project's row, ready to insert. */
  readonly draft: (of: { orgId: string; name: string; slug: string; plan: Plan; createdBy: string }) => NewProject;
  /** Makes what is missing of a project's database; its status becomes active, unless it was deleted meanwhile. */
  readonly provision: (projectId: string) => Promise<{ dbName: string }>;
  readonly provisionFailed: (projectId: string) => Promise<void>;
  /**
   * After a project was marked as deleted: locks everyone out, frees the database's name and cancels its jobs in batches,
   * as far as the time goes; a sweep does the rest. The gate is to read its rules again afterwards.
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

type Deletion = Pick<Projects, 'retire' | 'retireLeftOvers' | 'purge'>;

/** 100,000 jobs take half a minute; what is left then is done by the next sweep. */
const maxMs = 45_000;
const alone: Abandonment = {
  maxMs,
  dropBacklog: () => Promise.resolve(),
  onEnded: () => Promise.resolve(),
};

const deletionWith = ({ db, servers, log }: ProjectsOptions, tenantDb: TenantDb): Deletion => {
  const retire = async (projectId: string, abandonment = alone): Promise<void> => {
    // Jobs that stay at the gate are refused when they would start: an unavailable Redis holds up no deletion.
    await abandonment.dropBacklog(projectId).catch((error: unknown) => {
      log.warn(
        { err: error, project_id: projectId },
        'the jobs of a deleted project could not be removed from the gate now; the sweep removes them',
      );
    });
    const [isEmpty] = await Promise.all([
      abandonJobsOf(db, projectId, abandonment),
      tenantDb.release(projectId),
      retireDatabase({ db, servers }, projectId),
    ]);
    if (isEmpty) await markProjectRetired(db, projectId);
  };

  const drop = async (project: Project): Promise<void> => {
    await dropDatabase({ db, servers }, project);
    if (!(await deleteJobsOf(db, project.id, maxMs))) return;
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
    ...deletionWith(options, tenantDb),
    restore: (order) => restoreProject({ db, servers }, order),
    provision: async (projectId) => {
      const project = await findProject(db, projectId);
      if (project === undefined) throw new Error(`there is no project ${projectId}`);
      if (project.deleted_at === null) await provisionDatabase({ db, servers, sealer: sealer(project) }, project);
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
