import type { Queryable } from '#lib/control-db.ts';
import { notFound } from '#lib/errors.ts';
import type { Gate, ProjectLoad } from '#queues/gate/types.ts';

/** A project's jobs of one type. */
interface ProjectView {
  readonly project_id: string;
  readonly ref: string | null;
  readonly name: string | null;
  readonly plan: string | null;
  readonly type: string;
  readonly running: number;
  /** How many may run, and wait. Null: the plan's, of a project with nothing at the gate. */
  readonly limit: number | null;
  readonly waiting: number;
  readonly waiting_limit: number | null;
  /** The limits that operators set in place of the plan's; null where they set nothing. */
  readonly own_limit: number | null;
  readonly own_waiting_limit: number | null;
  readonly paused: boolean;
  /** Whether the pause is of all its types. */
  readonly project_paused: boolean;
}

interface Ruled {
  readonly project_id: string;
  readonly type: string | null;
}
interface RuledLimit extends Ruled {
  readonly running: number | null;
  readonly waiting: number | null;
}
interface ProjectName {
  readonly id: string;
  readonly ref: string;
  readonly name: string;
  readonly plan: string;
}

const maxRules = 1000;

const pausesOf = (db: Queryable): Promise<Ruled[]> =>
  db.query<Ruled>(
    `select project_id, type from job_pauses where project_id is not null order by created_at desc limit ${maxRules}`,
  );

const limitsOf = (db: Queryable): Promise<RuledLimit[]> =>
  db.query<RuledLimit>(`select project_id, type, running, waiting from job_limits order by id desc limit ${maxRules}`);

const namesOf = async (db: Queryable, ids: readonly string[]): Promise<ReadonlyMap<string, ProjectName>> => {
  const rows = await db.query<ProjectName>('select id, ref, name, plan from projects where id = any ($1)', [ids]);
  return new Map(rows.map((row) => [row.id, row]));
};

interface Load {
  readonly type: string;
  readonly projectId: string;
  readonly load: ProjectLoad | null;
}

const keyOf = (projectId: string, type: string | null): string => `${projectId} ${type ?? ''}`;

/** Returns the projects that the gate knows, then those that are paused or limited and have no job at the gate. */
const loadsOf = (busy: readonly Load[], ruled: readonly Ruled[], types: readonly string[]): Load[] => {
  const known = new Set(busy.map(({ projectId, type }) => keyOf(projectId, type)));
  const projects = new Set(busy.map(({ projectId }) => projectId));
  const idle: Load[] = [];
  for (const { project_id: projectId, type } of ruled) {
    if (type === null ? projects.has(projectId) : !types.includes(type)) continue;
    const shown = type ?? types[0] ?? '';
    if (known.has(keyOf(projectId, shown))) continue;
    known.add(keyOf(projectId, shown));
    idle.push({ projectId, type: shown, load: null });
  }
  return [...busy, ...idle];
};

/** The projects with the most jobs waiting and running, and those that operators paused or limited. */
export const projectLoads = async (
  db: Queryable,
  gate: Gate,
  { types, limit }: { readonly types: readonly string[]; readonly limit: number },
): Promise<ProjectView[]> => {
  const [statsByType, pauses, limits] = await Promise.all([
    Promise.all(types.map(async (type) => ({ type, loads: await gate.projects(type, limit) }))),
    pausesOf(db),
    limitsOf(db),
  ]);
  const busy = statsByType
    .flatMap(({ type, loads }) => loads.map((load): Load => ({ type, projectId: load.projectId, load })))
    .sort((a, b) => weightOf(b) - weightOf(a) || a.projectId.localeCompare(b.projectId));
  const paused = new Set(pauses.map(({ project_id: id, type }) => keyOf(id, type)));
  const own = new Map(limits.map((row) => [keyOf(row.project_id, row.type), row]));
  const shown = loadsOf(busy.slice(0, limit), [...pauses, ...limits], types).slice(0, limit + maxRules);
  const names = await namesOf(db, [...new Set(shown.map(({ projectId }) => projectId))]);
  return shown.map((one) => viewOf(one, names.get(one.projectId), paused, own.get(keyOf(one.projectId, one.type))));
};

const weightOf = ({ load }: Load): number => (load === null ? 0 : load.queued + load.leased);

const unnamed = { ref: null, name: null, plan: null } as const;
const unloaded = { leased: 0, queued: 0, running: null, waiting: null } as const;
const unset = { running: null, waiting: null } as const;

const viewOf = (
  { projectId, type, load }: Load,
  project: ProjectName | undefined,
  paused: ReadonlySet<string>,
  own: RuledLimit | undefined,
): ProjectView => {
  const projectPaused = paused.has(keyOf(projectId, null));
  const { ref, name, plan } = project ?? unnamed;
  const { leased, queued, running, waiting } = load ?? unloaded;
  const set = own ?? unset;
  return {
    project_id: projectId,
    ref,
    name,
    plan,
    type,
    running: leased,
    limit: running ?? set.running,
    waiting: queued,
    waiting_limit: waiting ?? set.waiting,
    own_limit: set.running,
    own_waiting_limit: set.waiting,
    paused: projectPaused || paused.has(keyOf(projectId, type)),
    project_paused: projectPaused,
  };
};

/** @throws {ServiceError} `not_found` */
export const requireProject = async (db: Queryable, projectId: string): Promise<void> => {
  const found = await db.query('select from projects where id = $1 and deleted_at is null', [projectId]);
  if (found.length === 0) throw notFound('project');
};

/** @throws {ServiceError} `not_found` */
export const requireOrganization = async (db: Queryable, orgId: string): Promise<void> => {
  const found = await db.query('select from organizations where id = $1 and deleted_at is null', [orgId]);
  if (found.length === 0) throw notFound('organization');
};

interface OwnLimits {
  readonly running: number | null;
  readonly waiting: number | null;
}

/** Sets limits in place of the plan's; two nulls give the plan's back. */
export const setLimits = async (db: Queryable, projectId: string, type: string, own: OwnLimits): Promise<void> => {
  if (own.running === null && own.waiting === null) {
    await db.query('delete from job_limits where project_id = $1 and type = $2', [projectId, type]);
    return;
  }
  await db.query(
    `insert into job_limits (project_id, type, running, waiting) values ($1, $2, $3, $4)
     on conflict (project_id, type) do update set running = excluded.running, waiting = excluded.waiting`,
    [projectId, type, own.running, own.waiting],
  );
};

/** The target of a pause: a project, one of its job types, or a job type of all projects. */
interface Pausable {
  readonly projectId: string | null;
  readonly type: string | null;
}

export const pause = async (db: Queryable, { projectId, type }: Pausable): Promise<void> => {
  await db.query('insert into job_pauses (project_id, type) values ($1, $2) on conflict do nothing', [projectId, type]);
};

/** A project that is resumed without a type is resumed in all its types. */
export const resume = async (db: Queryable, { projectId, type }: Pausable): Promise<void> => {
  await db.query(
    `delete from job_pauses where project_id is not distinct from $1
       and ($2::text is null or type = $2)`,
    [projectId, type],
  );
};

/** The pauses of a project: all of it, and single types. */
export const pausesOfProject = async (
  db: Queryable,
  projectId: string,
): Promise<{ paused: boolean; paused_types: string[] }> => {
  const rows = await db.query<{ type: string | null }>(
    'select type from job_pauses where project_id = $1 order by type',
    [projectId],
  );
  const types = rows.map(({ type }) => type);
  return { paused: types.includes(null), paused_types: types.filter((type) => type !== null) };
};
