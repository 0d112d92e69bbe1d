import { availableParallelism } from 'node:os';
import type { Runner } from './runner.ts';

export interface PoolOptions {
  /** Runners that belong to a project, busy ones included. */
  readonly maxRunners: number;
  /** Runners kept warm for projects that have none. */
  readonly spares: number;
  /** A runner is replaced after so many runs. */
  readonly maxRuns: number;
  /** Runners that start at a time, at most half of them for background runs; left out: one for every processor. */
  readonly maxStarting?: number;
  /** A runner that is not ready by then is ended; left out: 30 s. */
  readonly startWithinMs?: number;
  /** Starts a process, for a project or to be a spare. The slot is free among all that are alive. */
  readonly start: (slot: number, projectId?: string) => Runner;
}

const usualMaxStarting = availableParallelism();
const usualStartWithinMs = 30_000;
/** Projects whose last start is remembered; those that were forgotten come first. */
const maxRemembered = 1000;
const refillAfterMs = 30;
const sweepEveryMs = 2000;
/** An idle runner with more memory than this is ended: collecting its garbage helps nobody any more. */
const idleMib = 64;

export interface AcquireOptions {
  readonly signal?: AbortSignal | undefined;
  /** Whether a caller waits for the result of the run; left out: false. */
  readonly isAwaited?: boolean | undefined;
}

interface Waiter {
  readonly projectId: string;
  readonly isAwaited: boolean;
  readonly resolve: (runner: Runner) => void;
  readonly reject: (error: unknown) => void;
}

/** The pool is closed, or the caller gave up waiting. */
export class NoRunner extends Error {
  override readonly name = 'NoRunner';
}

/**
 * Hands out runners. A runner serves the project that had it first and no other, one run at a time. A run gets the first
 * one that is free: one that its project has, or one that starts for it. Runners of other projects that have been idle
 * longest make room when there are too many.
 *
 * A start takes 0.2 s of a processor, and a run some milliseconds: with twenty starts at once on two processors all runs
 * waited for up to two seconds, with one at a time for less than one. Runs whose
 * callers wait may use all of the starts, background runs only half of them. The project whose last start is longest ago comes first:
 * one whose runs end their runners takes its turn with the others.
 */
export class RunnerPool {
  readonly #options: PoolOptions;
  readonly #slots = new Map<number, Runner>();
  readonly #owner = new Map<Runner, string>();
  /** The runners that are not ready yet, each with whether it was started for a run whose caller waits. */
  readonly #starting = new Map<Runner, boolean>();
  /** The number of each project's last start, the oldest first. */
  readonly #lastStarts = new Map<string, number>();
  #starts = 0;
  readonly #spares: Runner[] = [];
  /** In the order in which they became idle. */
  readonly #idle = new Set<Runner>();
  readonly #waiters = new Set<Waiter>();
  readonly #sweeper: NodeJS.Timeout;
  #refillAt: NodeJS.Timeout | null = null;
  #closed = false;

  constructor(options: PoolOptions) {
    this.#options = options;
    this.#sweeper = setInterval(() => this.#sweep(), sweepEveryMs).unref();
    this.#refill();
  }

  /** Resolves when the spares wait for work; rejects when they cannot be started. */
  async warm(): Promise<void> {
    await Promise.all(this.#spares.map((runner) => runner.ready));
  }

  /**
   * A ready runner of the project, when one is free or has started. Give it back with `release`.
   * @throws NoRunner when aborted or closed while waiting; the runner's own error when none can be started
   */
  async acquire(projectId: string, options: AcquireOptions = {}): Promise<Runner> {
    try {
      return await this.#wait(projectId, options);
    } catch (error) {
      if (error instanceof NoRunner) throw error;
      // A spare may have died unseen while it waited; a fresh start shows whether any can run.
      return this.#wait(projectId, options);
    }
  }

  release(runner: Runner): void {
    if (runner.dead || this.#closed || runner.runs >= this.#options.maxRuns) {
      this.#retire(runner);
    } else {
      this.#idle.add(runner);
    }
    this.#serve();
    this.#refillSoon();
  }

  /** Kills every runner and resolves when none is left. */
  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#sweeper);
    if (this.#refillAt !== null) clearTimeout(this.#refillAt);
    for (const waiter of this.#waiters) this.#refuse(waiter, new NoRunner());
    const all = [...this.#slots.values()];
    for (const runner of all) runner.kill();
    await Promise.all(all.map((runner) => runner.gone));
  }

  async #wait(projectId: string, { signal, isAwaited = false }: AcquireOptions): Promise<Runner> {
    if (this.#closed || signal?.aborted === true) throw new NoRunner();
    const { promise, resolve, reject } = Promise.withResolvers<Runner>();
    const waiter = { projectId, isAwaited, resolve, reject };
    const giveUp = (): void => this.#refuse(waiter, new NoRunner());
    this.#waiters.add(waiter);
    signal?.addEventListener('abort', giveUp, { once: true });
    try {
      this.#serve();
      this.#refillSoon();
      return await promise;
    } finally {
      signal?.removeEventListener('abort', giveUp);
    }
  }

  /** Hands out what is free, and starts runners for those who still wait, as many as may start. */
  #serve(): void {
    const waiting = new Map<string, number>();
    for (const waiter of this.#inOrder()) {
      const { projectId } = waiter;
      const own = this.#takeIdle(projectId);
      if (own !== undefined) {
        this.#hand(waiter, own);
        continue;
      }
      const before = waiting.get(projectId) ?? 0;
      waiting.set(projectId, before + 1);
      const isStarting = before < this.#startingFor(projectId);
      if (isStarting || !(this.#hasSpare() || this.#mayStart(waiter.isAwaited))) continue;
      if (this.#owner.size >= this.#options.maxRunners && !this.#evict()) return;
      this.#startFor(waiter);
    }
  }

  /** Gives the waiter's project a spare or a new runner. */
  #startFor(waiter: Waiter): void {
    try {
      const runner = this.#takeSpare() ?? this.#start(waiter);
      this.#owner.set(runner, waiter.projectId);
      this.#noteStart(waiter.projectId);
      if (!this.#starting.has(runner)) this.#hand(waiter, runner);
    } catch (error) {
      this.#refuse(waiter, error);
    }
  }

  /** Sorted by the last start of the project, then runs whose callers wait before others, then by arrival. */
  #inOrder(): Waiter[] {
    const lastStart = ({ projectId }: Waiter): number => this.#lastStarts.get(projectId) ?? 0;
    return [...this.#waiters].toSorted(
      (a, b) => lastStart(a) - lastStart(b) || Number(b.isAwaited) - Number(a.isAwaited),
    );
  }

  #noteStart(projectId: string): void {
    this.#starts += 1;
    this.#lastStarts.delete(projectId);
    this.#lastStarts.set(projectId, this.#starts);
    const [oldest] = this.#lastStarts.keys();
    if (this.#lastStarts.size > maxRemembered && oldest !== undefined) this.#lastStarts.delete(oldest);
  }

  #hand(waiter: Waiter, runner: Runner): void {
    this.#waiters.delete(waiter);
    waiter.resolve(runner);
  }

  #refuse(waiter: Waiter, error: unknown): void {
    this.#waiters.delete(waiter);
    waiter.reject(error);
  }

  #takeIdle(projectId: string): Runner | undefined {
    const own = [...this.#idle].findLast((runner) => this.#owner.get(runner) === projectId && !runner.dead);
    if (own !== undefined) this.#idle.delete(own);
    return own;
  }

  #startingFor(projectId: string): number {
    return [...this.#starting.keys()].filter((runner) => this.#owner.get(runner) === projectId).length;
  }

  #hasSpare(): boolean {
    return this.#spares.some((runner) => !runner.dead);
  }

  #takeSpare(): Runner | undefined {
    const spare = this.#spares.find((runner) => !runner.dead);
    if (spare !== undefined) this.#spares.splice(this.#spares.indexOf(spare), 1);
    return spare;
  }

  #mayStart(isAwaited: boolean): boolean {
    const max = this.#options.maxStarting ?? usualMaxStarting;
    if (this.#starting.size >= max) return false;
    return isAwaited || [...this.#starting.values()].filter((forAwaited) => !forAwaited).length < Math.ceil(max / 2);
  }

  #evict(): boolean {
    const [oldest] = this.#idle;
    if (oldest === undefined) return false;
    this.#retire(oldest);
    return true;
  }

  #retire(runner: Runner): void {
    this.#idle.delete(runner);
    this.#owner.delete(runner);
    runner.kill();
  }

  #sweep(): void {
    for (const runner of this.#idle) if (runner.heldMib() > idleMib || runner.isRestless()) this.#retire(runner);
  }

  /** Not at once: starting a process would slow down the run that has just taken the spare. */
  #refillSoon(): void {
    if (this.#closed || this.#spares.length >= this.#options.spares || this.#refillAt !== null) return;
    this.#refillAt = setTimeout(() => {
      this.#refillAt = null;
      try {
        if (!this.#closed && this.#mayStart(false)) this.#refill();
      } catch {
        // The next request for a runner fails with the reason why there is none.
      }
    }, refillAfterMs);
    this.#refillAt.unref();
  }

  #refill(): void {
    while (this.#spares.length < this.#options.spares) this.#spares.push(this.#start());
  }

  #start(waiter?: Waiter): Runner {
    let slot = 0;
    while (this.#slots.has(slot)) slot += 1;
    const runner = this.#options.start(slot, waiter?.projectId);
    this.#slots.set(slot, runner);
    this.#starting.set(runner, waiter?.isAwaited === true);
    void this.#follow(runner, slot);
    return runner;
  }

  async #follow(runner: Runner, slot: number): Promise<void> {
    const late = setTimeout(() => runner.kill(), this.#options.startWithinMs ?? usualStartWithinMs).unref();
    const error: unknown = await runner.ready.then(
      () => null,
      (reason: unknown) => reason,
    );
    clearTimeout(late);
    if (error === null) this.#started(runner);
    else this.#notStarted(runner, error);
    await runner.gone;
    this.#forget(runner, slot);
  }

  /** It is for a run of its project: another project would make it start in vain. */
  #started(runner: Runner): void {
    this.#starting.delete(runner);
    const waiter = this.#firstWaiterFor(runner);
    if (waiter !== undefined) this.#hand(waiter, runner);
    else if (this.#owner.has(runner)) this.#idle.add(runner);
    this.#serve();
    this.#refillSoon();
  }

  #notStarted(runner: Runner, error: unknown): void {
    this.#starting.delete(runner);
    const waiter = this.#firstWaiterFor(runner);
    this.#retire(runner);
    if (waiter !== undefined) this.#refuse(waiter, error);
    this.#serve();
  }

  #firstWaiterFor(runner: Runner): Waiter | undefined {
    const projectId = this.#owner.get(runner);
    return this.#inOrder().find((waiter) => waiter.projectId === projectId);
  }

  #forget(runner: Runner, slot: number): void {
    this.#slots.delete(slot);
    this.#idle.delete(runner);
    this.#owner.delete(runner);
    const spare = this.#spares.indexOf(runner);
    if (spare !== -1) this.#spares.splice(spare, 1);
    this.#serve();
  }
}
