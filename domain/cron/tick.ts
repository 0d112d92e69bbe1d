import { type NewJobRow, insertJobs } from '#domain/jobs/store.ts';
import { type MonthlyCaps, capExceeded } from '#domain/jobs/usage.ts';
import { splitRefused } from '#lib/batch.ts';
import type { ControlDb, Tx } from '#lib/control-db.ts';
import { isDependencyFailure } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { Log } from '#lib/log.ts';
import { type Poller, startPoller } from '#lib/poller.ts';
import type { Gate } from '#queues/gate/types.ts';
import { noteAccepted } from '#queues/metrics.ts';
import { spacingMsOf } from './cron.ts';
import {
  type NewRun,
  type RunChange,
  changeWaiting,
  emitLate,
  emitMissed,
  failRuns,
  insertRuns,
  oldestWaiting,
} from './runs.ts';
import {
  type Contents,
  type DueRow,
  type Facts,
  type Move,
  type Which,
  contentsOf,
  factsOf,
  findDue,
  lockDue,
  lockReleasable,
  moveOn,
  park,
  putOff,
} from './store.ts';
import { type Decision, type Fire, type Room, type Start, createRoom, decideFires, startOf } from './fires.ts';

/** Schedules that one transaction takes. */
const batchSize = 200;

/** The result of a batch, once it is committed. */
interface Pass {
  /** Whether there may be more to do at once. */
  readonly more: boolean;
  /** For the gate. */
  readonly jobs: readonly NewJobRow[];
}

/** The work of a batch, and the handling of a schedule with which it fails. */
interface Kind {
  readonly lock: (tx: Tx, which: Which) => Promise<DueRow[]>;
  readonly work: (tx: Tx, schedules: readonly DueRow[], log: Log) => Promise<Pass>;
  readonly setAside: (tx: Tx, schedule: DueRow) => Promise<void>;
}

const nothing: Pass = { jobs: [], more: false };

/**
 * All in one transaction. When that fails for what is in it, smaller parts: one schedule must not hold up the others.
 */
const runFireBatch = async (db: ControlDb, log: Log, kind: Kind): Promise<Pass> => {
  let due: readonly string[] = [];
  const lockAnd = (which: Which, work: (tx: Tx, locked: readonly DueRow[]) => Promise<Pass>): Promise<Pass> =>
    db.transaction(async (tx) => {
      const locked = await kind.lock(tx, which);
      due = locked.map(({ id }) => id);
      return locked.length > 0 ? work(tx, locked) : nothing;
    });
  const fire = (which: Which): Promise<Pass> => lockAnd(which, (tx, locked) => kind.work(tx, locked, log));
  const setAside = async (id: string, error: unknown): Promise<readonly NewJobRow[]> => {
    log.error({ err: error, schedule_id: id }, 'a schedule could not be fired; it is set aside');
    await lockAnd({ limit: 1, ids: [id] }, async (tx, [locked]) => {
      if (locked) await kind.setAside(tx, locked);
      return nothing;
    });
    return [];
  };
  try {
    return await fire({ limit: batchSize });
  } catch (error) {
    if (isDependencyFailure(error) || due.length === 0) throw error;
    log.warn({ err: error, schedules: due.length }, 'a batch of schedules failed; parts of it are fired');
  }
  const inParts = splitRefused<string, readonly NewJobRow[]>(async (ids) => {
    const { jobs } = await fire({ limit: ids.length, ids });
    return ids.map((_, place) => (place === 0 ? jobs : []));
  }, setAside);
  return { jobs: (await inParts(due)).flat(), more: false };
};

interface PassDeps {
  readonly log: Log;
  /** How many runs of functions each plan has a month; left out: any number. */
  readonly caps?: MonthlyCaps | undefined;
}

const uncapped: MonthlyCaps = { free: null, pro: null, enterprise: null };

interface Locked {
  readonly schedule: DueRow;
  readonly facts: Facts;
}

const withFacts = async (tx: Tx, schedules: readonly DueRow[]): Promise<Locked[]> => {
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

const dueSince = ({ schedule, facts }: Locked): Date => schedule.next_run_at ?? facts.now;

/** One schedule that cannot be read (a removed time zone, say) must not hold up the others. */
const decide = (one: Locked, log: Log): Decision => {
  const { schedule, facts } = one;
  const nextRunAt = dueSince(one).getTime();
  try {
    return decideFires({ ...schedule, ...facts, nextRunAt, spacingMs: spacingMsOf(facts.plan) }, facts.now.getTime());
  } catch (error) {
    log.error({ err: error, schedule_id: schedule.id }, 'a schedule cannot be read; it does not fire again');
    return unreadable(nextRunAt);
  }
};

/** The work of a batch for one schedule. */
interface Planned {
  readonly one: Locked;
  readonly fires: readonly Fire[];
  readonly move: Move;
  /** Some of its fires are left to the next pass. */
  readonly left: boolean;
}

const toDate = (ms: number | null): Date | null => (ms === null ? null : new Date(ms));

// For a project that has had its share of a pass: in the next tick, behind what is due by then.
const nextTickMs = 1000;

const jittered = (nextRunAt: number | null, { jitter_ms: jitterMs }: Pick<DueRow, 'jitter_ms'>): Date | null =>
  toDate(nextRunAt === null ? null : nextRunAt + Math.floor(Math.random() * jitterMs));

/** The fires for which there is room. The others stay due: at once, or from the next tick on. */
const planWithin = (room: Room, one: Locked, log: Log): Planned => {
  const { id, project_id: projectId, bytes } = one.schedule;
  const untilNextTick = new Date(one.facts.now.getTime() + nextTickMs);
  if (room.isClosedTo(projectId)) {
    return { one, left: false, fires: [], move: { id, nextRunAt: dueSince(one), dueAt: untilNextTick } };
  }
  const { fires, nextRunAt } = decide(one, log);
  for (const [made, { fireAt, verdict }] of fires.entries()) {
    const taken = verdict === 'start' ? room.take(projectId, bytes) : 'taken';
    if (taken === 'taken') continue;
    const left = taken === 'pass full';
    const dueAt = left ? toDate(fireAt) : untilNextTick;
    return { one, left, fires: fires.slice(0, made), move: { id, nextRunAt: toDate(fireAt), dueAt } };
  }
  return {
    one,
    left: false,
    fires,
    move: { id, nextRunAt: toDate(nextRunAt), dueAt: jittered(nextRunAt, one.schedule) },
  };
};

/** The requests of locked schedules, and the sizes that their projects may use. */
interface Sending {
  readonly contents: ReadonlyMap<string, Contents>;
  readonly caps: MonthlyCaps;
}

const startWith = ({ contents, caps }: Sending, { schedule, facts }: Locked, runId: string): Start => {
  const content = contents.get(schedule.id);
  if (content === undefined) throw new Error('a locked schedule is gone');
  return startOf(
    content,
    {
      version: facts.function_version,
      retry: facts.function_retry,
      holds: facts.function_holds,
      monthlyLimit: caps[facts.plan],
    },
    runId,
  );
};

/** Writes jobs; runs of those that would go over the cap of their project have failed. */
const insertWithinCaps = async (tx: Tx, jobs: readonly NewJobRow[]): Promise<NewJobRow[]> => {
  if (jobs.length === 0) return [];
  const taken = await insertJobs(tx, jobs);
  const refused = jobs.filter(({ id }) => !taken.has(id)).map(({ id }) => id);
  if (refused.length > 0) await failRuns(tx, refused, capExceeded(null));
  return jobs.filter(({ id }) => taken.has(id));
};

interface MadeRun {
  readonly run: NewRun;
  readonly job: NewJobRow | null;
}

const statusOf = { wait: 'waiting', skip: 'skipped' } as const;

const makeRun = (sending: Sending, one: Locked, fire: Fire): MadeRun => {
  const { fireAt, verdict, reason } = fire;
  const id = newId();
  const { id: scheduleId, deadline_ms: deadlineMs } = one.schedule;
  const deadlineAt = verdict === 'skip' || deadlineMs === null ? null : new Date(fireAt + deadlineMs);
  const common = { id, scheduleId, fireAt: new Date(fireAt), trigger: 'schedule', deadlineAt } as const;
  if (verdict !== 'start') return { run: { ...common, jobId: null, status: statusOf[verdict], reason }, job: null };
  const { job, reason: why } = startWith(sending, one, id);
  return { run: { ...common, jobId: job?.id ?? null, status: job ? 'started' : 'failed', reason: why }, job };
};

/** Writes runs and the jobs of those that are new: a fire that was made before makes no second job. */
const keep = async (tx: Tx, made: readonly MadeRun[]): Promise<NewJobRow[]> => {
  const fresh = await insertRuns(
    tx,
    made.map(({ run }) => run),
  );
  const jobs = made.flatMap(({ run, job }) => (job && fresh.has(run.id) ? [job] : []));
  const inserted = await insertWithinCaps(tx, jobs);
  const taken = new Set(inserted.map(({ id }) => id));
  const missed = made.filter(
    ({ run, job }) => fresh.has(run.id) && run.status !== 'waiting' && !taken.has(job?.id ?? ''),
  );
  if (missed.length > 0)
    await emitMissed(
      tx,
      missed.map(({ run }) => run.id),
    );
  return inserted;
};

const sendingOf = async (tx: Tx, locked: readonly Locked[], { caps = uncapped }: PassDeps): Promise<Sending> => ({
  caps,
  contents: await contentsOf(
    tx,
    locked.map(({ schedule }) => schedule.id),
  ),
});

const fireActive = async (tx: Tx, locked: readonly Locked[], deps: PassDeps): Promise<Pass> => {
  const room = createRoom();
  const planned = locked.map((one) => planWithin(room, one, deps.log));
  const starting = planned.filter(({ fires }) => fires.some(({ verdict }) => verdict === 'start'));
  const sending = await sendingOf(
    tx,
    starting.map(({ one }) => one),
    deps,
  );
  const made = planned.flatMap(({ one, fires }) => fires.map((fire) => makeRun(sending, one, fire)));
  await moveOn(
    tx,
    planned.map(({ move }) => move),
  );
  const jobs = await keep(tx, made);
  return { jobs, more: planned.some(({ left }) => left) };
};

const fireLocked = async (tx: Tx, schedules: readonly DueRow[], deps: PassDeps): Promise<Pass> => {
  const locked = await withFacts(tx, schedules);
  const active = locked.filter(({ facts }) => facts.active);
  const fired = active.length > 0 ? await fireActive(tx, active, deps) : { jobs: [], more: false };
  const inactive = locked.filter(({ facts }) => !facts.active).map(({ schedule }) => schedule.id);
  if (inactive.length > 0) await park(tx, inactive);
  return { jobs: fired.jobs, more: fired.more || schedules.length === batchSize };
};

const releaseLocked = async (tx: Tx, schedules: readonly DueRow[], deps: PassDeps): Promise<Pass> => {
  const room = createRoom();
  const free = (await withFacts(tx, schedules))
    .filter(({ facts }) => facts.active && facts.unfinished === 0)
    .map((one) => ({ one, taken: room.take(one.schedule.project_id, one.schedule.bytes) }));
  const taken = new Map(free.flatMap(({ one, taken: how }) => (how === 'taken' ? [[one.schedule.id, one]] : [])));
  if (taken.size === 0) return { jobs: [], more: false };
  const sending = await sendingOf(tx, [...taken.values()], deps);
  const changes: RunChange[] = [];
  const jobs: NewJobRow[] = [];
  for (const run of await oldestWaiting(tx, [...taken.keys()])) {
    const one = taken.get(run.schedule_id);
    if (one === undefined) continue;
    const { job, reason } = startWith(sending, one, run.id);
    changes.push({ id: run.id, jobId: job?.id ?? null, status: job ? 'started' : 'failed', reason });
    if (job) jobs.push(job);
  }
  await changeWaiting(tx, changes);
  const started = await insertWithinCaps(tx, jobs);
  return { jobs: started, more: schedules.length === batchSize || free.some(({ taken: how }) => how === 'pass full') };
};

const unwritable = 'the run could not be written';

/** The fire that is due is listed as failed; the schedule is tried again in a minute. */
const setDueAside = async (tx: Tx, { id, next_run_at: fireAt }: DueRow): Promise<void> => {
  const run = { id: newId(), scheduleId: id, jobId: null, status: 'failed', reason: unwritable } as const;
  if (fireAt) await insertRuns(tx, [{ ...run, fireAt, trigger: 'schedule' }]);
  await putOff(tx, id);
};

const failOldestWaiting = async (tx: Tx, { id }: DueRow): Promise<void> => {
  const [run] = await oldestWaiting(tx, [id]);
  if (run) await changeWaiting(tx, [{ id: run.id, jobId: null, status: 'failed', reason: unwritable }]);
};

/** Fires a batch of schedules whose time has come: runs, jobs and the next times in one transaction, or none of it. */
const fireDue = (db: ControlDb, deps: PassDeps): Promise<Pass> =>
  runFireBatch(db, deps.log, {
    lock: lockDue,
    work: (tx, schedules) => fireLocked(tx, schedules, deps),
    setAside: setDueAside,
  });

/** Starts the longest-waiting run of schedules whose run before has ended. */
const releaseWaiting = (db: ControlDb, deps: PassDeps): Promise<Pass> =>
  runFireBatch(db, deps.log, {
    lock: lockReleasable,
    work: (tx, schedules) => releaseLocked(tx, schedules, deps),
    setAside: failOldestWaiting,
  });

export interface CronTickDeps {
  readonly db: ControlDb;
  readonly gate: Pick<Gate, 'admit'>;
  readonly log: Log;
  /** How many runs of functions each plan has a month; left out: any number. */
  readonly caps?: MonthlyCaps;
  /** Called after each successful tick: for measurements. */
  readonly onTick?: (took: { readonly ms: number; readonly started: number }) => void;
}

interface Ticked {
  /** The database's clock at the tick, in ms. */
  readonly now: number;
  /** This process's `performance.now()` when it had the answer. */
  readonly checkedAt: number;
  /** Jobs that it started. */
  readonly started: number;
}

const everyMs = 1000;
// Past the second, so that what is due at it is due for certain.
const pastTheSecondMs = 3;

/** Fires are never refused: what the gate does not take now, the reconciler brings to it within seconds. */
const admitAll = async ({ gate, log }: CronTickDeps, jobs: readonly NewJobRow[]): Promise<void> => {
  const admit = async ({ id, type, projectId, options }: NewJobRow): Promise<void> => {
    noteAccepted(type);
    // Its function holds it.
    if (options?.flow_of !== undefined) return;
    await gate.admit({ id, type, projectId }, false);
  };
  const results = await Promise.allSettled(jobs.map(admit));
  const failure = results.find((result) => result.status === 'rejected');
  if (failure) log.warn({ err: failure.reason as unknown }, 'fires of schedules wait for the reconciler');
};

const repeat = async (deps: CronTickDeps, pass: () => Promise<Pass>): Promise<number> => {
  let started = 0;
  let more: boolean;
  do {
    const done = await pass();
    await admitAll(deps, done.jobs);
    started += done.jobs.length;
    more = done.more;
  } while (more);
  return started;
};

/** Fires all that is due, and starts runs that waited for the one before them. Any number of ticks may run at once. */
export const tick = async (deps: CronTickDeps): Promise<Ticked> => {
  const { db } = deps;
  const { now, due, waiting, late } = await findDue(db);
  const checkedAt = performance.now();
  // First those that wait: a fire of the same schedule that is due now comes after them.
  const released = waiting ? await repeat(deps, () => releaseWaiting(db, deps)) : 0;
  const fired = due ? await repeat(deps, () => fireDue(db, deps)) : 0;
  while (late && (await emitLate(db)));
  return { now, checkedAt, started: released + fired };
};

/**
 * Ticks each second, shortly after the database's clock passes it. Every system worker does this; schedules that one
 * holds the others leave to it, and one that dies leaves them as they were.
 */
export const startCronTick = (deps: CronTickDeps): Pick<Poller, 'stop'> => {
  let untilNextMs = everyMs;
  const round = async (): Promise<void> => {
    const began = performance.now();
    untilNextMs = everyMs;
    const { now, checkedAt, started } = await tick(deps);
    deps.onTick?.({ ms: performance.now() - began, started });
    untilNextMs = everyMs - ((now + performance.now() - checkedAt) % everyMs) + pastTheSecondMs;
  };
  return startPoller(round, {
    everyMs: () => untilNextMs,
    onFailure: (error) => deps.log.warn({ err: error }, 'the cron tick failed; the next one does its work'),
  });
};
