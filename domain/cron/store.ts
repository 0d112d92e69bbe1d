import { type Queryable, maybeOne } from '#lib/control-db.ts';
import type { MisfireRule, OverlapRule } from './fires.ts';

export type Target =
  | { readonly type: 'function'; readonly function_id: string }
  | { readonly type: 'http'; readonly url: string }
  | { readonly type: 'sql'; readonly sql: string };

export interface ScheduleFields {
  readonly name: string;
  readonly schedule: string;
  readonly timezone: string;
  readonly target: Target;
  /** Exact JSON text. */
  readonly payload: string;
  readonly enabled: boolean;
  readonly overlap: OverlapRule;
  readonly misfire: MisfireRule;
}

export interface ScheduleRow extends ScheduleFields {
  readonly id: string;
  readonly project_id: string;
  readonly next_run_at: Date | null;
  readonly created_at: Date;
  readonly updated_at: Date;
}

const columns =
  'id, project_id, name, schedule, timezone, target, payload, enabled, overlap, misfire, next_run_at, created_at, updated_at';

const valuesOf = (fields: ScheduleFields, nextRunAt: Date | null): unknown[] => [
  fields.name,
  fields.schedule,
  fields.timezone,
  JSON.stringify(fields.target),
  fields.payload,
  fields.enabled,
  fields.overlap,
  fields.misfire,
  nextRunAt,
];

/** The database's clock, by which everything here is due. Within a transaction: when it began. */
export const databaseTime = async (db: Queryable): Promise<number> => {
  const [row] = await db.query<{ now: Date }>('select now() as now', [], 'now');
  return row?.now.getTime() ?? Date.now();
};

/** Counts a project's schedules; until the transaction ends no other one adds one. */
export const countForInsert = async (db: Queryable, projectId: string): Promise<number> => {
  await db.query('select from projects where id = $1 for no key update', [projectId]);
  const [row] = await db.query<{ total: number }>('select count(*) as total from schedules where project_id = $1', [
    projectId,
  ]);
  return row?.total ?? 0;
};

export interface NewSchedule {
  readonly id: string;
  readonly projectId: string;
  readonly fields: ScheduleFields;
  readonly nextRunAt: Date | null;
}

export const insertSchedule = async (
  db: Queryable,
  { id, projectId, fields, nextRunAt }: NewSchedule,
): Promise<void> => {
  await db.query(
    `insert into schedules
       (id, project_id, name, schedule, timezone, target, payload, enabled, overlap, misfire, next_run_at, due_at)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $11)`,
    [id, projectId, ...valuesOf(fields, nextRunAt)],
  );
};

export const replaceSchedule = async (
  db: Queryable,
  id: string,
  fields: ScheduleFields,
  nextRunAt: Date | null,
): Promise<void> => {
  await db.query(
    `update schedules set name = $2, schedule = $3, timezone = $4, target = $5, payload = $6, enabled = $7, overlap = $8,
       misfire = $9, next_run_at = $10, due_at = $10, updated_at = now()
     where id = $1`,
    [id, ...valuesOf(fields, nextRunAt)],
  );
};

export const findSchedule = (db: Queryable, projectId: string, id: string): Promise<ScheduleRow | undefined> =>
  maybeOne(
    db.query<ScheduleRow>(`select ${columns} from schedules where project_id = $1 and id = $2`, [projectId, id]),
  );

/** Holds back the tick and other changes until this transaction ends. */
export const lockSchedule = (db: Queryable, projectId: string, id: string): Promise<ScheduleRow | undefined> =>
  maybeOne(
    db.query<ScheduleRow>(`select ${columns} from schedules where project_id = $1 and id = $2 for update`, [
      projectId,
      id,
    ]),
  );

export const listSchedules = async (
  db: Queryable,
  projectId: string,
  { limit, offset }: { readonly limit: number; readonly offset: number },
): Promise<{ schedules: ScheduleRow[]; total: number }> => {
  const schedules = await db.query<ScheduleRow>(
    `select ${columns} from schedules where project_id = $1 order by created_at, id limit $2 offset $3`,
    [projectId, limit, offset],
  );
  const [count] = await db.query<{ total: number }>('select count(*) as total from schedules where project_id = $1', [
    projectId,
  ]);
  return { schedules, total: count?.total ?? 0 };
};

export const deleteSchedule = async (db: Queryable, projectId: string, id: string): Promise<boolean> =>
  (await db.query('delete from schedules where project_id = $1 and id = $2 returning id', [projectId, id])).length > 0;
