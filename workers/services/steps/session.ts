import { performance } from 'node:perf_hooks';
import { tableSubscriptionsOf } from '#domain/events/events.ts';
import { type CompiledFilter, compileFilter } from '#domain/events/filter.ts';
import {
  type KnownSteps,
  type RecordedStep,
  type StepRecord,
  type StepRun,
  bytesOfStep,
  maxStepBytes,
  maxSteps,
} from '#domain/jobs/steps.ts';
import { ServiceError } from '#lib/errors.ts';
import { JsonText } from '#lib/json-text.ts';
import { scanJson } from '#lib/json-scan.ts';
import type { JobError } from '#queues/define.ts';
import { isRetried, pauseAfter } from '#queues/retry-policy.ts';
import { CallFault, type RunOutcome } from '../../runtimes/runtime.ts';
import type { EndedStep, NewWait } from './calls.ts';
import type { StepRecorder } from './recorder.ts';

export interface SessionOptions extends StepRun {
  readonly projectId: string;
  readonly functionId: string;
  readonly recorder: StepRecorder;
  /** The run has asked for a step: it is to be continued when it breaks off. */
  readonly onStarted: () => void;
}

interface RunningStep {
  readonly attempt: number;
  readonly at: number;
}

const reasons = {
  steps_changed: (name: string) =>
    `The code does not ask any more for the step "${name}", which is recorded: it is not what it was when the run began.`,
  too_many_steps: () => `A run has at most ${maxSteps} steps.`,
  step_results_too_large: () =>
    `The results of a run's steps, and what they wait for, take at most ${maxStepBytes / 1024 / 1024} MB.`,
} as const;
type Failure = keyof typeof reasons;

/** From then on a record that waits for Postgres has held up its run. */
const heldUpAfterMs = 500;

const anySize = { maxParts: Infinity, maxDepth: Infinity };

const stepFault = (code: string, message: string): CallFault => new CallFault('StepError', message, { code });

const lost = (): CallFault => stepFault('conflict', 'The run is not this process’s any more.');

const rawOf = ({ name, kind, status, result, error, due }: RecordedStep): string =>
  `{"name":${JSON.stringify(name)},"kind":"${kind}","status":"${status}","due":${due},` +
  `"result":${result ?? 'null'},"error":${error ?? 'null'}}`;

/** The steps of one run while it runs: user code asks, Postgres keeps, and nothing here outlasts the run. */
export class StepSession {
  readonly #options: SessionOptions;
  #known: KnownSteps | null = null;
  readonly #names = new Map<string, { readonly attempt: number; readonly isRetrying: boolean }>();
  readonly #running = new Map<string, RunningStep>();
  readonly #failed: string[] = [];
  readonly #underWay = new Set<{ readonly at: number }>();
  #bytes = 0;
  #isBroken = false;
  /** All that is left waits: the run ends here, and goes on later. */
  isSuspended = false;
  /** Why the job fails, whatever user code makes of the error. */
  failure: JobError | null = null;

  constructor(options: SessionOptions) {
    this.#options = options;
  }

  /** Whether the run has steps. */
  get hasStarted(): boolean {
    return this.#known !== null;
  }

  get wakes(): number {
    return this.#known?.wakes ?? 0;
  }

  async begin(): Promise<JsonText> {
    const known = await this.#options.recorder.begin(this.#options);
    if (known === undefined) throw lost();
    this.#known = known;
    this.#bytes = known.bytes;
    for (const { name, attempt, status } of known.steps) {
      this.#names.set(name, { attempt, isRetrying: status === 'retrying' });
    }
    this.#failed.push(...known.steps.flatMap(({ status, error }) => (status === 'failed' ? textOf(error) : [])));
    this.#options.onStarted();
    return new JsonText(`{"steps":[${known.steps.map(rawOf).join(',')}]}`);
  }

  start(name: string): null {
    this.#require(name);
    const before = this.#names.get(name);
    this.#running.set(name, { attempt: before?.isRetrying ? before.attempt + 1 : 1, at: performance.now() });
    this.#names.set(name, { attempt: before?.attempt ?? 1, isRetrying: before?.isRetrying ?? false });
    return null;
  }

  async end({ name, result, error }: EndedStep): Promise<{ readonly retry: boolean }> {
    const running = this.#running.get(name);
    if (running === undefined) throw new CallFault('TypeError', `The step "${name}" does not run.`);
    if (error !== undefined) return this.#endBadly(name, running, { code: 'error', text: JSON.stringify(error) });
    if (result === undefined || scanJson(Buffer.from(result), anySize).verdict !== 'valid') {
      throw new CallFault('TypeError', 'The result of a step is JSON.');
    }
    await this.#record({ ...this.#stepOf(name, running), status: 'succeeded', result });
    this.#running.delete(name);
    return { retry: false };
  }

  async wait({ name, kind, event, filter, ...when }: NewWait): Promise<null> {
    this.#require(name);
    this.#names.set(name, { attempt: 1, isRetrying: false });
    const wait = when.until === undefined ? { ms: when.ms } : { at: new Date(when.until) };
    const given = event === undefined ? {} : { event, filter: filterOf(filter) };
    await this.#record({
      ...this.#stepOf(name, { attempt: 1, at: performance.now() }),
      ...given,
      kind,
      status: 'waiting',
      wait,
    });
    if (event !== undefined && tableSubscriptionsOf([event]).length > 0) {
      await this.#held(this.#options.recorder.subscribe(this.#options.projectId));
    }
    return null;
  }

  async suspend(): Promise<null> {
    const { recorder, projectId } = this.#options;
    const hasRoom = await this.#held(recorder.hasRoom(projectId));
    if (!hasRoom) throw stepFault('queue_full', 'Too many runs of this project sleep already.');
    this.isSuspended = true;
    return null;
  }

  changed(name: string): never {
    throw this.#fail('steps_changed', name);
  }

  /**
   * Notes what became of the steps that ran when the run broke off, such as by its time-out.
   * @returns whether the run goes to sleep until they are tried again
   */
  async breakOff({ code, message }: JobError): Promise<boolean> {
    const text = JSON.stringify({ name: code, message, stack: '' });
    const ended = [...this.#running].map(([name, running]) => this.#endBadly(name, running, { code, text }));
    const retries = (await Promise.all(ended)).filter(({ retry }) => retry);
    this.#isBroken = retries.length < ended.length;
    return !this.#isBroken;
  }

  /** Whether a step ran when the run broke off. */
  get isInStep(): boolean {
    return this.#running.size > 0;
  }

  /** Whether the run waited for Postgres and not for user code. */
  get isHeldUp(): boolean {
    return [...this.#underWay].some(({ at }) => performance.now() - at > heldUpAfterMs);
  }

  /** Whether an error is that of a step which had its attempts, or ended the run within one. */
  hasFailedBy(error: RunOutcome['error']): boolean {
    return this.#isBroken || (error !== null && this.#failed.includes(`${error.name}: ${error.message}`));
  }

  async #endBadly(
    name: string,
    running: RunningStep,
    { code, text }: { readonly code: string; readonly text: string },
  ): Promise<{ readonly retry: boolean }> {
    const policy = this.#known?.retry ?? null;
    const step = { ...this.#stepOf(name, running), error: text };
    const retry = policy !== null && isRetried(policy, running.attempt, code);
    if (policy !== null && retry) {
      await this.#record({ ...step, status: 'retrying', wait: { ms: pauseAfter(policy, running.attempt) } });
    } else {
      await this.#record({ ...step, status: 'failed' });
      this.#failed.push(textOf(text));
    }
    this.#running.delete(name);
    return { retry };
  }

  #stepOf(name: string, { attempt, at }: RunningStep): Omit<StepRecord, 'status'> {
    const { jobId, runId } = this.#options;
    return { jobId, runId, name, kind: 'run', attempt, tookMs: performance.now() - at, result: null, error: null };
  }

  async #record(step: StepRecord): Promise<void> {
    const bytes = bytesOfStep(step);
    if (this.#bytes + bytes > maxStepBytes) throw this.#fail('step_results_too_large');
    this.#bytes += bytes;
    if (!(await this.#held(this.#options.recorder.record(step)))) throw lost();
  }

  /** Counts as waiting for Postgres until it is settled. */
  async #held<T>(work: Promise<T>): Promise<T> {
    const waiting = { at: performance.now() };
    this.#underWay.add(waiting);
    try {
      return await work;
    } finally {
      this.#underWay.delete(waiting);
    }
  }

  /** @throws {CallFault} when the run has not begun its steps, has too many, or one of that name has a result */
  #require(name: string): void {
    if (!this.hasStarted) throw new CallFault('TypeError', 'The run has not begun its steps.');
    const before = this.#names.get(name);
    if (before?.isRetrying === true && !this.#running.has(name)) return;
    if (before !== undefined) throw new CallFault('TypeError', `There is a step "${name}" already.`);
    if (this.#names.size >= maxSteps) throw this.#fail('too_many_steps');
  }

  #fail(code: Failure, name = ''): CallFault {
    const message = reasons[code](name);
    this.failure ??= { code, message };
    return stepFault(code, message);
  }
}

/** An error as it is compared: the text of a recorded one. */
const textOf = (error: string | null): string => {
  const { name, message } = JSON.parse(error ?? '{}') as { readonly name?: string; readonly message?: string };
  return `${name}: ${message}`;
};

const filterOf = (text: string | undefined): CompiledFilter | null => {
  if (text === undefined) return null;
  try {
    return compileFilter(text);
  } catch (error) {
    throw error instanceof ServiceError ? stepFault(error.code, error.message) : error;
  }
};
