/*
 * Schedules. This file has what members do with them: create, change, delete, run now. store.ts has the rows of
 * schedules, runs.ts those of their runs. expression.ts parses cron expressions and computes the next fire in any time zone.
 * tick.ts runs once a second in each system worker: it locks what is due, and fires.ts decides which fires start,
 * wait or are skipped.
 */
import { presentVersion } from '#domain/functions/store.ts';
import { isHolding } from '#queues/flow-control.ts';
import { requireRoomAt } from '#domain/jobs/accept.ts';
import { type NewJobRow, insertJobs } from '#domain/jobs/store.ts';
import { type MonthlyCaps, capExceeded } from '#domain/jobs/usage.ts';
import type { Plan, Project } from '#domain/projects/store.ts';
import type { Queryable } from '#lib/control-db.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { JobRef } from '#queues/define.ts';
import type { Gate } from '#queues/gate/types.ts';
import {
  type CronExpression,
  fireAfter,
  invalidField,
  minIntervalSeconds,
  parseExpression,
  timeZoneNamed,
} from './expression.ts';
import { type RunRow, findRun, insertRuns, lastRuns, skipWaiting } from './runs.ts';
import {
  type ScheduleFields,
  type ScheduleRow,
  type Target,
  countForInsert,
  databaseTime,
  deleteSchedule,
  findSchedule,
  insertSchedule,
  listSchedules,
  lockSchedule,
  replaceSchedule,
} from './store.ts';
import { startOf } from './fires.ts';

const minSeconds = { free: 60, pro: 10, enterprise: 10 } as const satisfies Record<Plan, number>;

const maxSchedules = 1000;

/** The shortest time between two fires that a plan has, in ms. */
export const spacingMsOf = (plan: Plan): number => minSeconds[plan] * 1000;

/** @throws {ServiceError} `plan_limit_exceeded` */
const requireInterval = (expression: CronExpression, plan: Plan): void => {
  const wanted = minIntervalSeconds(expression);
  if (wanted >= minSeconds[plan]) return;
  throw new ServiceError(
    'plan_limit_exceeded',
    `The least interval on the ${plan} plan is ${minSeconds[plan]} seconds; ` +
      `this schedule fires ${wanted} seconds apart.`,
    { details: { limit: minSeconds[plan], value: wanted } },
  );
};

/** @throws {ServiceError} `plan_limit_exceeded` */
const requireRoomFor = (present: number): void => {
  if (present < maxSchedules) return;
  throw new ServiceError('plan_limit_exceeded', `A project has at most ${maxSchedules} schedules.`, {
    details: { limit: maxSchedules, value: present },
  });
};

/** @throws {ServiceError} `validation_failed` */
const requireFitting = ({ expression, timezone, next }: Times, { jitter_ms: jitterMs }: ScheduleFields): void => {
  const after = fireAfter(expression, timezone, next.getTime());
  if (jitterMs > 0 && after !== null && jitterMs >= after - next.getTime())
    throw invalidField('jitter_ms', 'must be less than the time between the next two fires');
};

export interface Schedule extends ScheduleRow {
  readonly last_run: RunRow | null;
}

type OfProject = Pick<Project, 'id' | 'plan' | 'status'>;

const checkTarget = async (db: Queryable, projectId: string, target: Target): Promise<void> => {
  if (target.type !== 'function') return;
  const present = await presentVersion(db, projectId, { id: target.function_id });
  if (present === undefined) throw invalidField('target.function_id', 'is no function of this project');
};

interface Times {
  readonly expression: CronExpression;
  readonly timezone: string;
  /** The first fire after now. */
  readonly next: Date;
}

/** @throws {ServiceError} `validation_failed` */
const timesOf = async (db: Queryable, fields: Pick<ScheduleFields, 'schedule' | 'timezone'>): Promise<Times> => {
  const expression = parseExpression(fields.schedule);
  const timezone = timeZoneNamed(fields.timezone);
  const next = fireAfter(expression, timezone, await databaseTime(db));
  if (next === null) throw invalidField('schedule', 'day of month, month: no such day ever comes');
  return { expression, timezone, next: new Date(next) };
};

const withLastRun = async (db: Queryable, rows: readonly ScheduleRow[]): Promise<Schedule[]> => {
  const last = await lastRuns(
    db,
    rows.map(({ id }) => id),
  );
  return rows.map((row) => ({ ...row, last_run: last.get(row.id) ?? null }));
};

/** @throws {ServiceError} `not_found` */
export const getSchedule = async (db: Queryable, projectId: string, id: string): Promise<Schedule> => {
  const row = await findSchedule(db, projectId, id);
  const [schedule] = row ? await withLastRun(db, [row]) : [];
  if (schedule === undefined) throw notFound('schedule');
  return schedule;
};

export const schedulesOf = async (
  db: Queryable,
  projectId: string,
  page: { readonly limit: number; readonly offset: number },
): Promise<{ schedules: Schedule[]; total: number }> => {
  const { schedules, total } = await listSchedules(db, projectId, page);
  return { schedules: await withLastRun(db, schedules), total };
};

/** @throws {ServiceError} `validation_failed`, `plan_limit_exceeded` */
export const createSchedule = async (db: Queryable, project: OfProject, wanted: ScheduleFields): Promise<Schedule> => {
  const times = await timesOf(db, wanted);
  const { expression, timezone, next } = times;
  requireInterval(expression, project.plan);
  requireFitting(times, wanted);
  await checkTarget(db, project.id, wanted.target);
  requireRoomFor(await countForInsert(db, project.id));
  const [id, fields] = [newId(), { ...wanted, timezone }];
  await insertSchedule(db, { id, projectId: project.id, fields, nextRunAt: wanted.enabled ? next : null });
  return getSchedule(db, project.id, id);
};

type ScheduleChange = { readonly [Field in keyof ScheduleFields]?: ScheduleFields[Field] | undefined };

/** Null is a value of these. */
const changedOptions = (row: ScheduleRow, change: ScheduleChange) => ({
  timeout_ms: change.timeout_ms === undefined ? row.timeout_ms : change.timeout_ms,
  retry: change.retry === undefined ? row.retry : change.retry,
  jitter_ms: change.jitter_ms ?? row.jitter_ms,
  deadline_ms: change.deadline_ms === undefined ? row.deadline_ms : change.deadline_ms,
});

const changed = (row: ScheduleRow, change: ScheduleChange): ScheduleFields => ({
  name: change.name ?? row.name,
  schedule: change.schedule ?? row.schedule,
  timezone: change.timezone ?? row.timezone,
  target: change.target ?? row.target,
  payload: change.payload ?? row.payload,
  enabled: change.enabled ?? row.enabled,
  overlap: change.overlap ?? row.overlap,
  misfire: change.misfire ?? row.misfire,
  ...changedOptions(row, change),
});

const sameTimes = (row: ScheduleRow, fields: ScheduleFields): boolean =>
  row.enabled === fields.enabled && row.schedule === fields.schedule && row.timezone === fields.timezone;

/**
 * Changes a schedule. New times count from now on; with the old ones, a fire that is due stays due.
 * @throws {ServiceError} `not_found`, `validation_failed`, `plan_limit_exceeded`
 */
export const updateSchedule = async (
  db: Queryable,
  { project, id }: { readonly project: OfProject; readonly id: string },
  change: ScheduleChange,
): Promise<Schedule> => {
  const row = await lockSchedule(db, project.id, id);
  if (row === undefined) throw notFound('schedule');
  const wanted = changed(row, change);
  const times = await timesOf(db, wanted);
  const { expression, timezone, next } = times;
  requireFitting(times, wanted);
  const fields = { ...wanted, timezone };
  const keepsTimes = sameTimes(row, fields);
  if (!keepsTimes && fields.enabled) requireInterval(expression, project.plan);
  if (change.target) await checkTarget(db, project.id, change.target);
  const nextRunAt = keepsTimes ? row.next_run_at : next;
  await replaceSchedule(db, id, fields, fields.enabled ? nextRunAt : null);
  if (!fields.enabled) await skipWaiting(db, id, 'the schedule was disabled');
  return getSchedule(db, project.id, id);
};

/** Its jobs go on. @throws {ServiceError} `not_found` */
export const removeSchedule = async (db: Queryable, projectId: string, id: string): Promise<void> => {
  if (!(await deleteSchedule(db, projectId, id))) throw notFound('schedule');
};

const refOf = ({ id, type, projectId }: NewJobRow): JobRef => ({ id, type, projectId });

/** The function that a schedule calls, as it is now. */
const calledBy = async (db: Queryable, projectId: string, target: ScheduleRow['target']) => {
  const present =
    target.type === 'function' ? await presentVersion(db, projectId, { id: target.function_id }) : undefined;
  if (present === undefined) return { version: null };
  return { version: present.version, retry: present.retry, holds: isHolding(present) };
};

/**
 * Runs a schedule now, whatever its overlap rule and whether it is enabled. The caller hands the job to the gate when
 * this is committed; it is null when its function lets the job start later.
 * @throws {ServiceError} `not_found`, `conflict` when its function was deleted, `project_not_ready`, `queue_full`,
 * `monthly_cap_exceeded`
 */
export const runNow = async (
  db: Queryable,
  { gate, caps }: { readonly gate: Pick<Gate, 'projects'>; readonly caps: MonthlyCaps },
  project: OfProject,
  scheduleId: string,
): Promise<{ readonly run: RunRow; readonly jobId: string; readonly job: JobRef | null }> => {
  const row = await lockSchedule(db, project.id, scheduleId);
  if (row === undefined) throw notFound('schedule');
  if (project.status !== 'active') {
    throw new ServiceError('project_not_ready', `The project is ${project.status}; schedules run when it is active.`);
  }
  const { target } = row;
  const id = newId();
  const called = await calledBy(db, project.id, target);
  const { job } = startOf(row, { ...called, monthlyLimit: caps[project.plan] }, id);
  if (job === null) throw new ServiceError('conflict', 'The function of this schedule was deleted.');
  await requireRoomAt(gate, job);
  const fireAt = new Date(await databaseTime(db));
  const run = { id, scheduleId, fireAt, trigger: 'manual', jobId: job.id, status: 'started', reason: null } as const;
  await insertRuns(db, [run]);
  if (!(await insertJobs(db, [job])).has(job.id)) throw capExceeded(caps[project.plan]);
  return { run: await findRun(db, id), jobId: job.id, job: job.options?.flow_of === undefined ? refOf(job) : null };
};
