import type { Runner } from './runner.ts';

export interface PoolOptions {
  /** Runners that belong to a project, busy ones included. */
  readonly maxRunners: number;
  /** Runners kept warm for projects that have none. */
  readonly spares: number;
  /** A runner is replaced after so many runs. */
  readonly maxRuns: number;
  /** Starts a process. The slot is free among all that are alive. */
  readonly start: (slot: number) => Runner;
}

const refillAfterMs = 30;
const sweepEveryMs = 2000;
/** An idle runner with more memory than this is ended: collecting its garbage helps nobody any more. */
const idleMib = 64;

interface Waiter {
  readonly projectId: string;
  readonly resolve: (runner: Runner) => void;
  readonly giveUp: () => void;
}

/** The pool is closed, or the caller gave up waiting. */
export class NoRunner extends Error {
  override readonly name = 'NoRunner';
}

/**
 * Hands out runners. A runner serves the project that had it first and no other, one run at a time. Runners of other
 * projects that have been idle longest make room when there are too many.
 */
export class RunnerPool {
  readonly #options: PoolOptions;
  readonly #slots = new Map<number, Runner>();
  readonly #owner = new Map<Runner, string>();
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
   * A ready runner of the project; waits for one when as many as allowed are busy. Give it back with `release`.
   * @throws NoRunner when aborted or closed while waiting; the runner's own error when none can be started
   */
  async acquire(projectId: string, signal?: AbortSignal): Promise<Runner> {
    try {
      return await this.#acquireOnce(projectId, signal);
    } catch (error) {
      if (error instanceof NoRunner) throw error;
      // A spare may have died unseen while it waited; a fresh start shows whether any can run.
      return this.#acquireOnce(projectId, signal);
    }
  }

  async #acquireOnce(projectId: string, signal?: AbortSignal): Promise<Runner> {
    if (this.#closed || signal?.aborted === true) throw new NoRunner();
    const runner = this.#take(projectId) ?? (await this.#wait(projectId, signal));
    this.#refillSoon();
    try {
      await runner.ready;
      return runner;
    } catch (error) {
      this.release(runner);
      throw error;
    }
  }

  release(runner: Runner): void {
    if (runner.dead || this.#closed || runner.runs >= this.#options.maxRuns) {
      this.#retire(runner);
    } else {
      this.#idle.add(runner);
    }
    this.#serveWaiters();
    this.#refillSoon();
  }

  /** Kills every runner and resolves when none is left. */
  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#sweeper);
    if (this.#refillAt !== null) clearTimeout(this.#refillAt);
    for (const waiter of this.#waiters) waiter.giveUp();
    const all = [...this.#slots.values()];
    for (const runner of all) runner.kill();
    await Promise.all(all.map((runner) => runner.gone));
  }

  /** An idle runner of the project, else a spare or a new one if there is room or room can be made. */
  #take(projectId: string): Runner | null {
    const own = [...this.#idle].findLast((runner) => this.#owner.get(runner) === projectId && !runner.dead);
    if (own !== undefined) {
      this.#idle.delete(own);
      return own;
    }
    if (this.#owner.size >= this.#options.maxRunners && !this.#evict()) return null;
    const runner = this.#takeSpare() ?? this.#start();
    this.#owner.set(runner, projectId);
    return runner;
  }

  #takeSpare(): Runner | undefined {
    const spare = this.#spares.find((runner) => !runner.dead);
    if (spare !== undefined) this.#spares.splice(this.#spares.indexOf(spare), 1);
    return spare;
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

  async #wait(projectId: string, signal?: AbortSignal): Promise<Runner> {
    const { promise, resolve, reject } = Promise.withResolvers<Runner>();
    const giveUp = (): void => {
      this.#waiters.delete(waiter);
      reject(new NoRunner());
    };
    const waiter = { projectId, resolve, giveUp };
    this.#waiters.add(waiter);
    signal?.addEventListener('abort', giveUp, { once: true });
    try {
      return await promise;
    } finally {
      signal?.removeEventListener('abort', giveUp);
    }
  }

  #serveWaiters(): void {
    for (const waiter of this.#waiters) {
      const runner = this.#take(waiter.projectId);
      if (runner === null) return;
      this.#waiters.delete(waiter);
      waiter.resolve(runner);
    }
  }

  #sweep(): void {
    for (const runner of this.#idle) if (runner.heldMib() > idleMib || runner.isRestless()) this.#retire(runner);
  }

  /** Not at once: starting a process would slow down the run that has just taken the spare. */
  #refillSoon(): void {
    if (this.#spares.length >= this.#options.spares || this.#refillAt !== null) return;
    this.#refillAt = setTimeout(() => {
      this.#refillAt = null;
      try {
        if (!this.#closed) this.#refill();
      } catch {
        // The next request for a runner fails with the reason why there is none.
      }
    }, refillAfterMs);
    this.#refillAt.unref();
  }

  #refill(): void {
    while (this.#spares.length < this.#options.spares) this.#spares.push(this.#start());
  }

  #start(): Runner {
    let slot = 0;
    while (this.#slots.has(slot)) slot += 1;
    const runner = this.#options.start(slot);
    this.#slots.set(slot, runner);
    void runner.gone.then(() => this.#forget(runner, slot));
    return runner;
  }

  #forget(runner: Runner, slot: number): void {
    this.#slots.delete(slot);
    this.#idle.delete(runner);
    this.#owner.delete(runner);
    const spare = this.#spares.indexOf(runner);
    if (spare !== -1) this.#spares.splice(spare, 1);
    this.#serveWaiters();
  }
}
