import {
  type FinishedRun,
  type ReportedRun,
  invokeAnswer,
  logsTextOf,
  reportOf,
} from '#domain/functions/run-report.ts';
import type { DataCaller } from '#domain/data-api/data-api.ts';
import type { LoadRunnable } from '#domain/functions/runnables.ts';
import type { Language } from '#domain/functions/store.ts';
import { ServiceError } from '#lib/errors.ts';
import type { JobData, JobOutcome } from '#queues/define.ts';
import type { FunctionCaller, SandboxFacts, functionInvoke } from '#queues/function-invoke.ts';
import { type LogAllowance, createLogAllowance } from '../log-allowance.ts';
import type { JobContext, Processor } from '../processor.ts';
import type { LogLine, RunServices, Runtime } from '../runtimes/runtime.ts';
import type { StepRecorder } from '../services/steps/recorder.ts';
import { StepSession } from '../services/steps/session.ts';
import { type AnswerMode, AnswerSink } from '../services/answer/sink.ts';
import { answeredRun } from './response-outcome.ts';
import { afterSteps } from './run-steps.ts';
import { RunTimes } from './run-times.ts';

type InvokeData = JobData<typeof functionInvoke>;

export type Runtimes = Readonly<Partial<Record<Language, Pick<Runtime, 'run' | 'level'>>>>;

export interface FunctionInvokeDeps {
  readonly load: LoadRunnable;
  /** The languages that this worker can run. */
  readonly runtimes: Runtimes;
  readonly services: OpenServices;
  /** Left out: runs have no steps. */
  readonly steps?: StepRecorder;
  /** The worker's usual one when it is left out. */
  readonly logAllowance?: LogAllowance;
}

/** The caller of a run in its project's database. */
export interface RunCaller extends Pick<DataCaller, 'role' | 'claims'> {}

/** The services of one run; opened before it, closed after it. */
export type OpenServices = (run: {
  readonly projectId: string;
  /** From now on; a statement or request may take no longer than what is left. */
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  /** Takes a response that comes in parts. Left out: there is none. */
  readonly answer?: AnswerSink;
  /** As whom `sdk.asCaller` works. Left out: the project itself. */
  readonly caller?: RunCaller;
  readonly functionId?: string;
  readonly requestId?: string;
  /** The steps of the run. Left out: it can have none. */
  readonly steps?: StepSession | undefined;
  /** How many jobs stand behind this run that each enqueued the next; left out: none. */
  readonly depth?: number;
}) => RunServices;

const notHere = (language: Language): ServiceError =>
  new ServiceError('feature_unavailable', `Functions in ${language} are not available on this installation.`);

const isGone = (version: number): ServiceError =>
  version < 0
    ? new ServiceError('not_found', 'The draft was replaced by later ones before it ran.')
    : new ServiceError('not_found', 'The function was deleted before it ran.');

const reasons = {
  error: 'The function threw an error.',
  timeout: 'The function did not end within its time-out.',
  memory_limit: 'The function used more memory than it may.',
  cpu_limit: 'The function used more CPU time than it may.',
  result_too_large: 'The function returned more than 1 MB.',
  crashed: 'The function ended without an answer.',
  cancelled: 'The run was cancelled.',
} as const satisfies Record<Exclude<FinishedRun['status'], 'success'>, string>;

/** The job fails with the status of the run as its code; the whole answer is its result either way. */
const outcomeOf = (jobId: string, run: ReportedRun, logsText: string): JobOutcome => {
  const [result, report] = [invokeAnswer(jobId, run, logsText), reportOf(run, logsText)];
  if (run.status === 'success') return { status: 'succeeded', result, error: null, report };
  const error = { code: run.status, message: run.error?.message ?? reasons[run.status] };
  return { status: 'failed', result, error, report };
};

const crashed: FinishedRun = { status: 'crashed', result: null, durationMs: 0, error: null, logs: [] };

const levelsOf = (runtimes: Runtimes): SandboxFacts =>
  Object.fromEntries(Object.entries(runtimes).map(([language, { level }]) => [language, level]));

/** Resources of a run are released whatever its outcome. */
const withServices = async <T>(services: RunServices, work: (services: RunServices) => Promise<T>): Promise<T> => {
  try {
    return await work(services);
  } finally {
    await services.close();
  }
};

/** How a function sees those who call it without a key. */
const callerKinds = {
  api: 'secret',
  dashboard: 'dashboard',
  cron: 'cron',
  webhook: 'event',
  job: 'job',
  event: 'event',
} as const satisfies Record<InvokeData['trigger'], string>;

/** Schedules, events and members of the project act as the project itself. */
const runCallerOf = (caller: FunctionCaller | undefined): RunCaller => {
  if (caller === undefined || caller.kind === 'secret') return { role: 'service', claims: '{"role":"service_role"}' };
  if (caller.user === null) return { role: 'anon', claims: '{"role":"anon"}' };
  return { role: caller.user['role'] === 'anon' ? 'anon' : 'authenticated', claims: JSON.stringify(caller.user) };
};

const modeOf = ({ streams, request }: Pick<InvokeData, 'streams' | 'request'>): AnswerMode => {
  if (request?.method === 'HEAD') return 'drop';
  return streams === true ? 'send' : 'keep';
};

/** The time that user code has to notice that its client has left, until it is ended. */
const afterAnswerMs = 2000;

const noCaller = (): Promise<null> => Promise.resolve(null);

/** Stops a run with its job, and a moment after the client of its answer has left. */
class StopAfterAnswer {
  readonly #left = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  readonly signal: AbortSignal;

  constructor(signal: AbortSignal) {
    this.signal = AbortSignal.any([signal, this.#left.signal]);
  }

  readonly soon = (): void => {
    this.#timer ??= setTimeout(() => this.#left.abort(), afterAnswerMs);
  };

  clear(): void {
    clearTimeout(this.#timer);
  }
}

/** The caller as the code sees them, as JSON text. */
const callerText = ({ caller, trigger }: Pick<InvokeData, 'caller' | 'trigger'>): string =>
  JSON.stringify(caller ?? { kind: callerKinds[trigger], key_id: null, user: null });

const stepsOf = (
  { steps: recorder }: FunctionInvokeDeps,
  { jobId, projectId, continuation }: JobContext,
  { id: functionId, hasSteps }: { readonly id: string; readonly hasSteps: boolean },
): StepSession | undefined => {
  if (recorder === undefined || continuation === undefined) return undefined;
  const { runId, isPossible } = continuation;
  if (hasSteps || recorder.isStepped(functionId)) isPossible();
  return new StepSession({ jobId, projectId, functionId, recorder, runId, onStarted: isPossible });
};

/** Runs one version of a function in the sandbox. */
export const functionInvokeProcessor = (deps: FunctionInvokeDeps): Processor => {
  const { load, runtimes, services: openServices, logAllowance = createLogAllowance() } = deps;
  return {
    sandbox: levelsOf(runtimes),
    run: async (data, context) => {
      const { jobId, projectId, requestId, attempt, signal, openAnswer, log } = context;
      const { depth = 0, waitedMs = 0, envVersion = 0, isAwaited } = context;
      const { function_id: functionId, version, payload, ...by } = data as InvokeData;
      const times = new RunTimes(waitedMs);
      const fn = await load(functionId, version, envVersion);
      if (fn === undefined) throw isGone(version);
      const { compiled: code, language, hasSteps = false, ...given } = fn;
      const limits = { ...given, timeoutMs: by.timeout_ms ?? given.timeoutMs };
      const runtime = runtimes[language];
      if (runtime === undefined) throw notHere(language);
      const onLog = (line: LogLine): void => log(line.level, line.message, line.ts, line.fields);
      const caller = callerText(by);
      const http = by.request === undefined ? null : JSON.stringify(by.request);
      const request = { projectId, functionId, version, code, payload, caller, request: http, attempt, ...limits };
      const noteLog = await logAllowance.begin(projectId, signal);
      const stop = new StopAfterAnswer(signal);
      const answer = new AnswerSink({ mode: modeOf(by), open: openAnswer ?? noCaller, onStopped: stop.soon });
      const steps = stepsOf(deps, context, { id: functionId, hasSteps });
      const { run, timings } = await withServices(
        openServices({
          projectId,
          timeoutMs: limits.timeoutMs,
          signal: stop.signal,
          answer,
          caller: runCallerOf(by.caller),
          functionId,
          requestId,
          depth,
          steps,
        }),
        async (services) => {
          const options = { signal: stop.signal, isAwaited, onLog, services: times.watch(services) };
          const outcome = await runtime.run(request, options);
          return { run: outcome, timings: times.of(outcome) };
        },
      );
      stop.clear();
      if (run.status === 'crashed' && !run.started) {
        throw new Error('no process for a function could be started');
      }
      const answered = answeredRun(run, answer);
      const logsText = logsTextOf(answered);
      noteLog(logsText.length);
      const durationMs = Math.round(run.durationMs * 100) / 100;
      const reported = { ...answered, durationMs, timings };
      return afterSteps(steps, { run: reported, logsText, signal }, () => outcomeOf(jobId, reported, logsText));
    },
    giveUp: async ({ code }, { jobId }) => (code === 'crashed' ? invokeAnswer(jobId, crashed) : null),
  };
};
