import type { Plan } from '#domain/database-servers/limits.ts';
import { type Queryable, maybeOne, one } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';

/** How long one statement of the data API may take, by who asks; in ms. */
interface StatementTimeouts {
  readonly anon: number;
  readonly authenticated: number;
  /** The time-out of secret keys. */
  readonly secret: number;
}

/** A stranger with a publishable key must not keep processors busy for as long as the project's own servers may. */
const usualStatementTimeouts: StatementTimeouts = { anon: 3000, authenticated: 8000, secret: 30_000 };

/** In ms. Above it the watchdog of the servers ends what runs (`statementTimeoutSeconds`). */
export const statementTimeoutBounds = { min: 100, max: 30_000 } as const;

export const statementTimeoutsOf = ({
  statement_timeouts: set,
}: Pick<Project, 'statement_timeouts'>): StatementTimeouts => ({
  ...usualStatementTimeouts,
  ...set,
});

export type { Plan };
type ProjectStatus = 'creating' | 'active' | 'paused' | 'deleting' | 'failed';

export interface Project {
  readonly id: string;
  readonly ref: string;
  readonly org_id: string;
  readonly server_id: string;
  readonly name: string;
  readonly slug: string;
  readonly plan: Plan;
  readonly status: ProjectStatus;
  readonly db_name: string;
  readonly data_key: Buffer;
  /** Schemas beside public that the data API serves. */
  readonly exposed_schemas: readonly string[];
  /** The time-outs that the project has set; the others are the default ones. */
  readonly statement_timeouts: Partial<StatementTimeouts>;
  /** The project whose database this one began as a copy of; null: it is no branch. */
  readonly branch_of: string | null;
  /** The time at which a branch is deleted. */
  readonly expires_at: Date | null;
  readonly branch_rows: boolean;
  readonly created_at: Date;
  readonly updated_at: Date;
  readonly deleted_at: Date | null;
}

const names = [
  'id',
  'ref',
  'org_id',
  'server_id',
  'name',
  'slug',
  'plan',
  'status',
  'db_name',
  'data_key',
  'exposed_schemas',
  'statement_timeouts',
  'branch_of',
  'expires_at',
  'branch_rows',
  'created_at',
  'updated_at',
  'deleted_at',
] as const satisfies readonly (keyof Project)[];

/** The columns of a project, from the table or alias `p`. */
export const projectColumns = names.map((name) => `p.${name}`).join(', ');

export interface NewProject extends Pick<
  Project,
  'id' | 'ref' | 'org_id' | 'name' | 'slug' | 'plan' | 'db_name' | 'data_key'
> {
  readonly created_by: string;
  /** Left out: it is no branch. */
  readonly branch?: Branching | undefined;
}

/** The options of a new branch. */
interface Branching {
  readonly of: string;
  readonly hours: number;
  readonly rows: boolean;
}

/**
 * Placed on a server that accepts projects. Fails on `projects_org_slug_key` when the slug is taken.
 * @throws {ServiceError} `dependency_unavailable` when no server takes projects
 */
export const insertProject = async (db: Queryable, project: NewProject): Promise<void> => {
  const placed = await db.query(
    `insert into projects (id, ref, org_id, server_id, name, slug, plan, status, db_name, data_key, created_by,
       branch_of, expires_at, branch_rows)
     select $1, $2, $3, s.id, $4, $5, $6, 'creating', $7, $8, $9, $10::uuid, now() + make_interval(hours => $11::int),
       coalesce($12::boolean, false)
     from database_servers s where s.accepts_projects order by s.created_at limit 1 returning id`,
    [
      project.id,
      project.ref,
      project.org_id,
      project.name,
      project.slug,
      project.plan,
      project.db_name,
      project.data_key,
      project.created_by,
      project.branch?.of ?? null,
      project.branch?.hours ?? null,
      project.branch?.rows ?? null,
    ],
  );
  if (placed.length === 0) {
    throw new ServiceError('dependency_unavailable', 'No database server takes new projects just now.');
  }
};

/** A project whatever its state, deleted ones too. */
export const findProject = (db: Queryable, id: string): Promise<Project | undefined> =>
  maybeOne(db.query<Project>(`select ${projectColumns} from projects p where p.id = $1`, [id], 'find-project'));

interface FreeProjects {
  /** Projects of the organization. */
  readonly present: number;
  /** Deleted ones that the user made, in whatever organization, whose databases are still kept. */
  readonly kept: number;
}

/** How many projects of the Free plan there are. */
export const countFreeProjects = (db: Queryable, orgId: string, userId: string): Promise<FreeProjects> =>
  one(
    db.query<FreeProjects>(
      `select
         (select count(*) from projects where org_id = $1 and plan = 'free' and deleted_at is null) as present,
         (select count(*) from projects where created_by = $2 and plan = 'free' and deleted_at is not null) as kept`,
      [orgId, userId],
    ),
  );

interface ProjectFilter {
  readonly orgId: string | undefined;
  readonly limit: number;
  readonly offset: number;
}

/** The projects of all organizations that the user is a member of, newest first. */
export const projectsOf = async (
  db: Queryable,
  userId: string,
  { orgId, limit, offset }: ProjectFilter,
): Promise<{ projects: Project[]; total: number }> => {
  const where = `from projects p join members m on m.org_id = p.org_id
    where m.user_id = $1 and p.deleted_at is null and ($2::text is null or p.org_id = $2)`;
  const projects = await db.query<Project>(
    `select ${projectColumns} ${where} order by p.created_at desc, p.id limit $3 offset $4`,
    [userId, orgId ?? null, limit, offset],
  );
  const [count] = await db.query<{ total: number }>(`select count(*) as total ${where}`, [userId, orgId ?? null]);
  return { projects, total: count?.total ?? 0 };
};

interface ProjectChange {
  readonly name?: string | undefined;
  readonly plan?: Plan | undefined;
  readonly exposed_schemas?: readonly string[] | undefined;
  /** Null: the usual one again. What is left out stays. */
  readonly statement_timeouts?:
    | Readonly<Partial<Record<keyof StatementTimeouts, number | null | undefined>>>
    | undefined;
}

export const updateProject = (db: Queryable, id: string, change: ProjectChange): Promise<Project | undefined> =>
  maybeOne(
    db.query<Project>(
      `update projects p set name = coalesce($2, p.name), plan = coalesce($3, p.plan),
         exposed_schemas = coalesce($4, p.exposed_schemas),
         statement_timeouts = jsonb_strip_nulls(p.statement_timeouts || coalesce($5::jsonb, '{}')), updated_at = now()
       where p.id = $1 and p.deleted_at is null returning ${projectColumns}`,
      [
        id,
        change.name ?? null,
        change.plan ?? null,
        change.exposed_schemas ?? null,
        change.statement_timeouts === undefined ? null : JSON.stringify(change.statement_timeouts),
      ],
    ),
  );

/** Moves a project on, when it still is where the caller believes it to be. */
export const setProjectStatus = async (
  db: Queryable,
  id: string,
  from: readonly ProjectStatus[],
  to: ProjectStatus,
): Promise<void> => {
  await db.query('update projects set status = $3, updated_at = now() where id = $1 and status = any ($2)', [
    id,
    from,
    to,
  ]);
};

/** From here on the project is gone for everybody, with its branches; its slug is free. */
export const markProjectDeleted = async (db: Queryable, id: string): Promise<void> => {
  await db.query(
    `update projects set status = 'deleting', deleted_at = now(), updated_at = now() where (id = $1 or branch_of = $1) and deleted_at is null`,
    [id],
  );
};

/** The branches of a project, the newest first. */
export const branchesOf = (db: Queryable, projectId: string): Promise<Project[]> =>
  db.query<Project>(
    `select ${projectColumns} from projects p where p.branch_of = $1 and p.deleted_at is null
     order by p.created_at desc, p.id`,
    [projectId],
  );

/** Deletes branches whose time is over. @returns how many */
export const deleteExpiredBranches = async (db: Queryable, max: number): Promise<number> => {
  const rows = await db.query(
    `update projects set status = 'deleting', deleted_at = now(), updated_at = now()
     where id in (select id from projects where expires_at < now() and deleted_at is null order by expires_at limit $1)
     returning id`,
    [max],
  );
  return rows.length;
};

export const deleteProjectRow = async (db: Queryable, id: string): Promise<void> => {
  await db.query('delete from projects where id = $1', [id]);
};

/** Deleted projects whose database may still be open under its old name. In no order: a failure delays no other. */
export const projectsToRetire = (db: Queryable, limit: number): Promise<Project[]> =>
  db.query<Project>(
    `select ${projectColumns} from projects p where p.deleted_at is not null and p.retired_at is null
     order by random() limit $1`,
    [limit],
  );

export const markProjectRetired = async (db: Queryable, id: string): Promise<void> => {
  await db.query('update projects set retired_at = now() where id = $1 and deleted_at is not null', [id]);
};

/**
 * Deleted projects whose time is over. In no order, as above. Their webhooks and deliveries go before them, in steps, and
 * so do their branches, which are kept no longer than it takes to retire them.
 */
export const projectsToPurge = (db: Queryable, days: number, limit: number): Promise<Project[]> =>
  db.query<Project>(
    `select ${projectColumns} from projects p
     where p.deleted_at < now() - make_interval(days => case when p.branch_of is null then $1 else 0 end)
       and (p.branch_of is null or p.retired_at is not null)
       and not exists (select from projects b where b.branch_of = p.id)
       and not exists (select from webhooks w where w.project_id = p.id) order by random() limit $2`,
    [days, limit],
  );
