import { type Actor, actingAs } from '#domain/audit/actor.ts';
import { quotasFrom } from '#domain/projects/plans.ts';
import type { Plan } from '#domain/projects/store.ts';
import type { Config } from '#lib/config.ts';
import { type ControlDb, type Queryable, maybeOne, one } from '#lib/control-db.ts';
import { ServiceError, isDependencyFailure, notFound } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { JsonParser } from '#lib/json-parser.ts';
import type { Log } from '#lib/log.ts';
import { type Poller, startPoller } from '#lib/poller.ts';
import { type Author, publicActor } from './author.ts';
import type { FlagPatch } from './definition.ts';
import { type Flag, checkPatch, patchFlag } from './flags.ts';

/** Changes of flags at a time. Each is carried out once: late, when everything was down at its time. */

const maxPending = 100;
const maxPendingOfProject = 1000;
const maxPatchBytes = 64 * 1024;
/** Changes of the past that are kept of one flag, and the length up to which the change itself is. */
const keptOfFlag = 100;
const keptPatchLength = 1000;

type ScheduleStatus = 'pending' | 'done' | 'failed';

export interface ScheduleRow {
  readonly id: string;
  readonly at: Date;
  readonly patch: FlagPatch;
  readonly status: ScheduleStatus;
  /** Why it could not be carried out. */
  readonly error: string | null;
  readonly created_at: Date;
  readonly done_at: Date | null;
}

const columns = 'id, at, patch, status, error, created_at, done_at';

const forgetOld = async (db: Queryable, flagId: string): Promise<void> => {
  await db.query(
    `delete from flag_schedules where id in (
       select id from flag_schedules where flag_id = $1 and status <> 'pending' order by done_at desc offset ${keptOfFlag})`,
    [flagId],
  );
};

/** @throws {ServiceError} `validation_failed` for a change that would be refused now, `plan_limit_exceeded` */
export const scheduleChange = async (
  db: Queryable,
  author: Author,
  flag: Flag,
  { at, patch }: { readonly at: Date; readonly patch: FlagPatch },
): Promise<ScheduleRow> => {
  const text = JSON.stringify(patch);
  if (Buffer.byteLength(text) > maxPatchBytes)
    throw new ServiceError('payload_too_large', `A scheduled change has at most ${maxPatchBytes} bytes.`);
  await checkPatch(db, author, flag, patch);
  await forgetOld(db, flag.id);
  const { own, all } = await one(
    db.query<{ own: number; all: number }>(
      `select count(*) filter (where flag_id = $2) as own, count(*) as all from flag_schedules
       where project_id = $1 and status = 'pending'`,
      [author.projectId, flag.id],
    ),
  );
  if (own >= maxPending || all >= maxPendingOfProject) {
    const message = `A flag has at most ${maxPending} scheduled changes, and a project ${maxPendingOfProject}.`;
    throw new ServiceError('plan_limit_exceeded', message);
  }
  return one(
    db.query<ScheduleRow>(
      `insert into flag_schedules (id, project_id, flag_id, at, patch, actor) values ($1, $2, $3, $4, $5, $6)
       returning ${columns}`,
      [newId(), author.projectId, flag.id, at, text, JSON.stringify(publicActor(author.actor))],
    ),
  );
};

/** Pending ones come first; of those of the past the latest. */
export const listSchedules = async (
  db: Queryable,
  flagId: string,
  { limit, offset }: { readonly limit: number; readonly offset: number },
): Promise<{ schedules: ScheduleRow[]; total: number }> => {
  const schedules = await db.query<ScheduleRow>(
    `select ${columns} from flag_schedules where flag_id = $1
     order by status <> 'pending', case when status = 'pending' then at end, at desc, id limit $2 offset $3`,
    [flagId, limit, offset],
  );
  const { total } = await one(
    db.query<{ total: number }>('select count(*) as total from flag_schedules where flag_id = $1', [flagId]),
  );
  return { schedules, total };
};

/** How many changes of a flag are to come. */
export const countPending = async (db: Queryable, flagId: string): Promise<number> => {
  const { pending } = await one(
    db.query<{ pending: number }>(
      `select count(*) as pending from flag_schedules where flag_id = $1 and status = 'pending'`,
      [flagId],
    ),
  );
  return pending;
};

/** @throws {ServiceError} `not_found`, also when it was carried out */
export const cancelSchedule = async (db: Queryable, flagId: string, id: string): Promise<void> => {
  const gone = await maybeOne(
    db.query(`delete from flag_schedules where flag_id = $1 and id = $2 and status = 'pending' returning id`, [
      flagId,
      id,
    ]),
  );
  if (gone === undefined) throw notFound('scheduled change');
};

interface DueRow {
  readonly id: string;
  readonly project_id: string;
  readonly patch: FlagPatch;
  readonly actor: Actor;
  readonly plan: Plan;
  readonly environment: string;
  readonly key: string;
}

/**
 * The next one that is due by the database's clock, so that those of servers do not count; nobody else takes it, and
 * nobody takes a later one of the same flag before it is done. A project that is not active keeps its own until it is.
 */
const takeDue = (db: Queryable): Promise<DueRow | undefined> =>
  maybeOne(
    db.query<DueRow>(
      `select s.id, s.project_id, s.patch, s.actor, p.plan, e.name as environment, f.key
       from flag_schedules s join projects p on p.id = s.project_id and p.status = 'active' and p.deleted_at is null
         join flags f on f.id = s.flag_id join flag_environments e on e.id = f.environment_id
       where s.status = 'pending' and s.at <= now()
         and not exists (select from flag_schedules earlier where earlier.flag_id = s.flag_id
           and earlier.status = 'pending' and (earlier.at, earlier.id) < (s.at, s.id))
       order by s.at, s.id limit 1 for update of s skip locked`,
      [],
      'flag-schedule-due',
    ),
  );

export interface FlagTickDeps {
  readonly config: Config;
  readonly db: ControlDb;
  readonly json: Pick<JsonParser, 'read'>;
  readonly log: Log;
  /** Has processes load the flags of a project anew. */
  readonly changed: (projectId: string) => Promise<void>;
  /** Says that events wait for webhooks. */
  readonly onEvents: () => void;
}

const finish = async (db: Queryable, id: string, error: string | null): Promise<void> => {
  await db.query(
    `update flag_schedules set status = $2, error = $3, done_at = now(),
       patch = case when octet_length(patch::text) > ${keptPatchLength} then '{}' else patch end
     where id = $1 and status = 'pending'`,
    [id, error === null ? 'done' : 'failed', error],
  );
};

const carryOut = async (tx: Queryable, { config, json }: FlagTickDeps, due: DueRow): Promise<void> => {
  const { flags, flagBytes } = quotasFrom(config)[due.plan];
  const author: Author = {
    projectId: due.project_id,
    actor: due.actor,
    quota: { flags, bytes: flagBytes },
    json,
  };
  await tx.query(`select set_config('plinth.actor', $1, true), set_config('plinth.action', 'flag.scheduled', true)`, [
    JSON.stringify(due.actor),
  ]);
  await patchFlag(tx, author, due, { expected: null, patch: due.patch });
  await finish(tx, due.id, null);
};

/** Notes why a change could not be carried out. @throws what is no fault of the change */
const setAside = async ({ db, log }: FlagTickDeps, due: DueRow, error: unknown): Promise<void> => {
  if (isDependencyFailure(error)) throw error;
  const isRefused = error instanceof ServiceError;
  if (!isRefused) log.error({ err: error, schedule_id: due.id }, 'a scheduled change of a flag failed');
  await finish(db, due.id, isRefused ? error.message : 'It failed by a fault of ours.');
};

/** The change and the note that it was carried out are one transaction. Answers whether there was any. */
const carryOutNext = async (deps: FlagTickDeps): Promise<boolean> => {
  const taken: DueRow[] = [];
  try {
    await deps.db.transaction(
      async (tx) => {
        const due = await takeDue(tx);
        if (due === undefined) return;
        taken.push(due);
        await carryOut(tx, deps, due);
      },
      actingAs({ type: 'system' }),
    );
  } catch (error) {
    const [failed] = taken;
    if (failed === undefined) throw error;
    await setAside(deps, failed, error);
    return true;
  }
  const [done] = taken;
  if (done === undefined) return false;
  await deps.changed(done.project_id);
  deps.onEvents();
  return true;
};

const everyMs = 1000;
const maxInRound = 500;

/** Every system worker does this each second, as it does the cron tick; what one has taken the others leave alone. */
export const startFlagTick = (deps: FlagTickDeps): Pick<Poller, 'stop'> =>
  startPoller(
    async (stopping) => {
      for (let n = 0; n < maxInRound && !stopping.aborted; n += 1) if (!(await carryOutNext(deps))) return;
    },
    { everyMs, onFailure: (error) => deps.log.warn({ err: error }, 'scheduled changes of flags failed; trying again') },
  );

const keptDays = 30;

/** Deletes scheduled changes of long ago. */
export const sweepFlagSchedules = async (db: Queryable): Promise<void> => {
  await db.query(
    `delete from flag_schedules where status <> 'pending' and done_at < now() - interval '${keptDays} days'`,
  );
};
