import type { NewJobRow } from '#domain/jobs/store.ts';
import { newId } from '#lib/ids.ts';
import { cronFire } from '#queues/cron-fire.ts';
import type { JobData, JobDefinition } from '#queues/define.ts';
import { functionInvoke } from '#queues/function-invoke.ts';
import type { RetryPolicy } from '#queues/retry-policy.ts';
import type { Contents } from './store.ts';
import { fireAfter, fireUpTo, parseExpression } from './expression.ts';

/** When the run before has not ended: skip this one, queue it, or run both. */
export const overlapRules = ['skip', 'queue', 'allow'] as const;
export type OverlapRule = (typeof overlapRules)[number];

/** The policy for missed fires: one run for all of them, none, or one for each (the last 100). */
export const misfireRules = ['once', 'skip', 'all'] as const;
export type MisfireRule = (typeof misfireRules)[number];

/** Later than this a fire counts as missed: a rolling restart of the workers does not lose a nightly run. */
const graceMs = 60_000;

const maxCaughtUp = 100;
const maxWaiting = 100;
/** The bound for one schedule with the overlap rule `allow`: runs that do not end must not pile up. */
export const maxUnfinished = 100;

/** The inputs of the decision. Times are in ms. */
export interface DueSchedule {
  readonly schedule: string;
  readonly timezone: string;
  readonly overlap: OverlapRule;
  readonly misfire: MisfireRule;
  readonly nextRunAt: number;
  readonly jitter_ms?: number;
  /** The least interval of the project's plan: it binds also after a change to a smaller plan. */
  readonly spacingMs: number;
  /** How many runs have been started and not ended; counted up to `maxUnfinished`. */
  readonly unfinished: number;
  /** The number of queued runs. */
  readonly waiting: number;
}

type Verdict = 'start' | 'wait' | 'skip';

export interface Fire {
  readonly fireAt: number;
  readonly verdict: Verdict;
  /** Why it is skipped. */
  readonly reason: string | null;
}

export interface Decision {
  readonly fires: readonly Fire[];
  /** Null: never again. */
  readonly nextRunAt: number | null;
}

const missed = 'it was due while no fire could be made, and the schedule’s misfire rule is skip';
const overlapping = 'the run before had not ended, and the schedule’s overlap rule is skip';
const tooMany = `${maxWaiting} runs of the schedule wait already`;
const tooManyUnfinished = `${maxUnfinished} runs of the schedule have not ended`;

/** The fires that are due, the oldest first: the last one, or the last 100 when each is to be caught up with. */
const dueInstants = (due: DueSchedule, now: number): number[] => {
  const expression = parseExpression(due.schedule);
  const max = due.misfire === 'all' ? maxCaughtUp : 1;
  const instants: number[] = [];
  let upTo = now;
  while (instants.length < max) {
    const fireAt = fireUpTo(expression, due.timezone, upTo);
    if (fireAt === null || fireAt < due.nextRunAt) break;
    instants.unshift(fireAt);
    upTo = fireAt - due.spacingMs;
  }
  // The rules of the zone may have changed since the instant was calculated: what was promised is kept.
  return instants.length > 0 ? instants : [due.nextRunAt];
};

const judge = ({ overlap }: DueSchedule, unfinished: number, waiting: number): Omit<Fire, 'fireAt'> => {
  if (overlap === 'allow' && unfinished >= maxUnfinished) return { verdict: 'skip', reason: tooManyUnfinished };
  if (overlap === 'allow' || (unfinished === 0 && waiting === 0)) return { verdict: 'start', reason: null };
  if (overlap === 'skip') return { verdict: 'skip', reason: overlapping };
  return waiting < maxWaiting ? { verdict: 'wait', reason: null } : { verdict: 'skip', reason: tooMany };
};

/** Decides what a schedule whose time has come does now, and when it is due again. */
export const decideFires = (due: DueSchedule, now: number): Decision => {
  const instants = dueInstants(due, now);
  const fires: Fire[] = [];
  let { unfinished, waiting } = due;
  for (const fireAt of instants) {
    const late = due.misfire === 'skip' && now - fireAt > graceMs + (due.jitter_ms ?? 0);
    const judged = late ? { verdict: 'skip' as const, reason: missed } : judge(due, unfinished, waiting);
    unfinished += judged.verdict === 'start' ? 1 : 0;
    waiting += judged.verdict === 'wait' ? 1 : 0;
    fires.push({ fireAt, ...judged });
  }
  const last = instants.at(-1) ?? now;
  const after = Math.max(now, last + due.spacingMs - 1);
  return { fires, nextRunAt: fireAfter(parseExpression(due.schedule), due.timezone, after) };
};

/** Starts a run of a schedule: creates its job, or returns the reason why there is none. */
export type Start =
  | { readonly job: NewJobRow; readonly reason: null }
  | { readonly job: null; readonly reason: string };

const functionIsGone = 'the function was deleted';

const jobOf = (
  definition: JobDefinition,
  { id, project_id: projectId }: Pick<Contents, 'id' | 'project_id'>,
  runId: string,
  { retry, ...data }: { readonly retry: RetryPolicy | null },
): NewJobRow => ({
  id: newId(),
  projectId,
  startedBy: { kind: 'cron', id },
  type: definition.type,
  data: JSON.stringify(data),
  maxAttempts: Math.max(definition.maxAttempts, retry?.max_attempts ?? 0),
  options: retry === null ? undefined : { retry },
  requestId: `cron-${runId}`,
});

/**
 * The job of one run.
 * @param called the function that the schedule calls: its present version and retry policy, null when there is none, and how many runs
 * of functions the project may have this month
 */
export const startOf = (
  schedule: Contents,
  called: {
    readonly version: number | null;
    readonly retry?: RetryPolicy | null;
    /** Whether it says when its jobs start. */
    readonly holds?: boolean;
    readonly monthlyLimit: number | null;
  },
  runId: string,
): Start => {
  const { id, target, payload, timeout_ms: ownTimeoutMs, retry } = schedule;
  const timeout = ownTimeoutMs === null ? {} : { timeout_ms: ownTimeoutMs };
  if (target.type !== 'function') {
    const data: JobData<typeof cronFire> = { schedule_id: id, run_id: runId, target, payload, ...timeout };
    return { job: jobOf(cronFire, schedule, runId, { ...data, retry }), reason: null };
  }
  if (called.version === null) return { job: null, reason: functionIsGone };
  const data: JobData<typeof functionInvoke> = {
    function_id: target.function_id,
    version: called.version,
    trigger: 'cron',
    payload,
    ...timeout,
  };
  const job = jobOf(functionInvoke, schedule, runId, { ...data, retry: retry ?? called.retry ?? null });
  const options = called.holds === true ? { ...job.options, flow_of: target.function_id } : job.options;
  return { job: { ...job, options, monthlyLimit: called.monthlyLimit }, reason: null };
};

/** The bytes of targets and payloads that one batch may write. */
const passBytes = 8 * 1024 * 1024;
/** The share of one project. */
const projectBytes = 2 * 1024 * 1024;

type Taken = 'taken' | 'project full' | 'pass full';

/** The room of one pass. The first fire of a project, and of a pass, always finds room, so that each gets on. */
export const createRoom = () => {
  let used = 0;
  const byProject = new Map<string, number>();
  const refused = new Set<string>();
  return {
    take: (projectId: string, bytes: number): Taken => {
      const own = byProject.get(projectId) ?? 0;
      if (own > 0 && own + bytes > projectBytes) refused.add(projectId);
      if (refused.has(projectId)) return 'project full';
      if (used > 0 && used + bytes > passBytes) return 'pass full';
      used += bytes;
      byProject.set(projectId, own + bytes);
      return 'taken';
    },
    /** A project that was refused once gets no more in this pass. */
    isClosedTo: (projectId: string): boolean => refused.has(projectId),
  };
};

export type Room = ReturnType<typeof createRoom>;
