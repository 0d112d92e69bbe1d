import type { Jobs } from '#domain/jobs/jobs.ts';
import type { Queryable } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';

/** Dead letters that have a type and an error in common. */
interface DeadGroup {
  readonly type: string;
  readonly error_code: string | null;
  readonly count: number;
}

const maxGroups = 50;

/** The largest groups first. */
export const deadGroups = (db: Queryable): Promise<DeadGroup[]> =>
  db.query<DeadGroup>(
    `select type, error_code, count(*)::int as count from jobs where status = 'dead'
     group by type, error_code order by count desc, type, error_code limit ${maxGroups}`,
  );

export interface DeadFilter {
  readonly ids?: readonly string[] | undefined;
  readonly projectIds?: readonly string[] | undefined;
  readonly type?: string | undefined;
  readonly errorCode?: string | undefined;
}

// One call answers within some seconds; who wants more calls again.
const maxAtOnce = 200;
const redrivenTogether = 4;

const conditions = `status = 'dead' and ($1::uuid[] is null or id = any ($1))
  and ($2::uuid[] is null or project_id = any ($2))
  and ($3::text is null or type = $3) and ($4::text is null or error_code = $4)`;

const valuesOf = ({ ids, projectIds, type, errorCode }: DeadFilter): unknown[] => [
  ids ?? null,
  projectIds ?? null,
  type ?? null,
  errorCode ?? null,
];

interface Named {
  readonly id: string;
  readonly project_id: string;
}

/** Null when someone else was faster. */
const redriveOne = async (jobs: Pick<Jobs, 'retry'>, { id, project_id: projectId }: Named): Promise<string | null> => {
  try {
    await jobs.retry(projectId, id);
    return id;
  } catch (error) {
    if (error instanceof ServiceError && (error.code === 'conflict' || error.code === 'not_found')) return null;
    throw error;
  }
};

export interface Redriven {
  readonly redriven: number;
  /** Dead letters of this filter that are left. */
  readonly remaining: number;
}

/** Runs dead letters again, the oldest first, at most 200 of them. */
export const redrive = async (db: Queryable, jobs: Pick<Jobs, 'retry'>, filter: DeadFilter): Promise<Redriven> => {
  const found = await db.query<Named>(
    `select id, project_id from jobs where ${conditions} order by id limit ${maxAtOnce}`,
    valuesOf(filter),
  );
  let redriven = 0;
  for (let i = 0; i < found.length; i += redrivenTogether) {
    const done = await Promise.all(found.slice(i, i + redrivenTogether).map((job) => redriveOne(jobs, job)));
    redriven += done.filter((id) => id !== null).length;
  }
  const [left] = await db.query<{ count: number }>(
    `select count(*)::int as count from jobs where ${conditions}`,
    valuesOf(filter),
  );
  return { redriven, remaining: left?.count ?? 0 };
};
