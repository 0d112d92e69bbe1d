import { type NewJobRow, insertJobs } from '#domain/jobs/store.ts';
import type { ControlDb, Tx } from '#lib/control-db.ts';
import { newId } from '#lib/ids.ts';
import type { Log } from '#lib/log.ts';
import { type Decision, type Fire, decideFires } from './fires.ts';
import { type NewRun, type RunChange, changeWaiting, insertRuns, oldestWaiting } from './run-store.ts';
import { spacingMsOf } from './plan.ts';
import { startOf } from './start.ts';
import { type Facts, type ScheduleRow, factsOf, lockDue, lockReleasable, moveOn, park } from './store.ts';

/** Schedules that one transaction takes: with the largest payloads some 25 MB. */
export const batchSize = 200;

/** What a pass did, once it is committed. */
export interface Pass {
  /** Schedules that it held; a full batch says that there may be more. */
  readonly taken: number;
  /** For the gate. */
  readonly jobs: readonly NewJobRow[];
}

interface Locked {
  readonly schedule: ScheduleRow;
  readonly facts: Facts;
}

const withFacts = async (tx: Tx, schedules: readonly ScheduleRow[]): Promise<Locked[]> => {
  const facts = await factsOf(
    tx,
    schedules.map(({ id }) => id),
  );
  return schedules.flatMap((schedule) => {
    const known = facts.get(schedule.id);
    return known ? [{ schedule, facts: known }] : [];
  });
};

const unreadable = (fireAt: number): Decision => ({
  fires: [{ fireAt, verdict: 'skip', reason: 'the schedule cannot be read any more' }],
  nextRunAt: null,
});

/** One schedule that cannot be read (a zone that was given up, say) must not hold up the others. */
const decide = ({ schedule, facts }: Locked, log: Log): Decision => {
  const nextRunAt = (schedule.next_run_at ?? facts.now).getTime();
  try {
    return decideFires({ ...schedule, ...facts, nextRunAt, spacingMs: spacingMsOf(facts.plan) }, facts.now.getTime());
  } catch (error) {
    log.error({ err: error, schedule_id: schedule.id }, 'a schedule cannot be read; it does not fire again');
    return unreadable(nextRunAt);
  }
};

interface MadeRun {
  readonly run: NewRun;
  readonly job: NewJobRow | null;
}

const statusOf = { wait: 'waiting', skip: 'skipped' } as const;

const makeRun = ({ schedule, facts }: Locked, { fireAt, verdict, reason }: Fire): MadeRun => {
  const id = newId();
  const common = { id, scheduleId: schedule.id, fireAt: new Date(fireAt), trigger: 'schedule' } as const;
  if (verdict !== 'start') return { run: { ...common, jobId: null, status: statusOf[verdict], reason }, job: null };
  const { job, reason: why } = startOf(schedule, facts.function_version, id);
  return { run: { ...common, jobId: job?.id ?? null, status: job ? 'started' : 'failed', reason: why }, job };
};

/** Writes runs and the jobs of those that are new: a fire that was made before makes no second job. */
const keep = async (tx: Tx, made: readonly MadeRun[]): Promise<NewJobRow[]> => {
  const fresh = await insertRuns(
    tx,
    made.map(({ run }) => run),
  );
  const jobs = made.flatMap(({ run, job }) => (job && fresh.has(run.id) ? [job] : []));
  if (jobs.length > 0) await insertJobs(tx, jobs);
  return jobs;
};

const toDate = (ms: number | null): Date | null => (ms === null ? null : new Date(ms));

const fireLocked = async (tx: Tx, locked: readonly Locked[], log: Log): Promise<NewJobRow[]> => {
  const decided = locked.map((one) => ({ one, decision: decide(one, log) }));
  const made = decided.flatMap(({ one, decision }) => decision.fires.map((fire) => makeRun(one, fire)));
  const jobs = await keep(tx, made);
  await moveOn(
    tx,
    decided.map(({ one, decision }) => ({ id: one.schedule.id, nextRunAt: toDate(decision.nextRunAt) })),
  );
  return jobs;
};

/** Fires a batch of schedules whose time has come: runs, jobs and the next times in one transaction, or none of it. */
export const fireDue = (db: ControlDb, log: Log): Promise<Pass> =>
  db.transaction(async (tx) => {
    const schedules = await lockDue(tx, batchSize);
    if (schedules.length === 0) return { taken: 0, jobs: [] };
    const locked = await withFacts(tx, schedules);
    const active = locked.filter(({ facts }) => facts.active);
    const jobs = active.length > 0 ? await fireLocked(tx, active, log) : [];
    const inactive = locked.filter(({ facts }) => !facts.active).map(({ schedule }) => schedule.id);
    if (inactive.length > 0) await park(tx, inactive);
    return { taken: schedules.length, jobs };
  });

/** Starts the longest-waiting run of schedules whose run before has ended. */
export const releaseWaiting = (db: ControlDb): Promise<Pass> =>
  db.transaction(async (tx) => {
    const locked = await withFacts(tx, await lockReleasable(tx, batchSize));
    const free = new Map(
      locked.filter(({ facts }) => facts.active && !facts.running).map((one) => [one.schedule.id, one]),
    );
    if (free.size === 0) return { taken: 0, jobs: [] };
    const changes: RunChange[] = [];
    const jobs: NewJobRow[] = [];
    for (const run of await oldestWaiting(tx, [...free.keys()])) {
      const one = free.get(run.schedule_id);
      if (one === undefined) continue;
      const { job, reason } = startOf(one.schedule, one.facts.function_version, run.id);
      changes.push({ id: run.id, jobId: job?.id ?? null, status: job ? 'started' : 'failed', reason });
      if (job) jobs.push(job);
    }
    await changeWaiting(tx, changes);
    if (jobs.length > 0) await insertJobs(tx, jobs);
    return { taken: locked.length, jobs };
  });
