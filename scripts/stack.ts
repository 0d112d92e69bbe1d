import type { ChildProcess } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import { PortTaken, type StartError } from './errors.ts';
import { Guard } from './guard.ts';
import { signalGroup } from './leftovers.ts';
import type { Narrator } from './narrator.ts';
import type { PidLock } from './pid-lock.ts';
import { type ProcessRecord, processIdentity } from './process-identity.ts';
import { type Patience, type ProcessSpec, SupervisedProcess } from './processes.ts';
import { type RunProgram, programRunner } from './run-program.ts';

export interface StackSettings {
  readonly lock: PidLock;
  readonly lockFile: string;
  readonly graceMs: number;
  /** Removed by the guard when this process is killed. */
  readonly temporaryFolders?: readonly string[];
  readonly narrator: Narrator;
  readonly patience?: Partial<Patience>;
}

interface Attended {
  readonly child: ChildProcess;
  readonly gone: Promise<void>;
}

const attendedGraceMs = 3000;
const killedGraceMs = 10_000;

/** SIGINT is what test runners and benchmarks know how to end on. */
const endAttended = async ({ child, gone }: Attended): Promise<void> => {
  child.kill('SIGINT');
  const overdue = setTimeout(() => {
    child.kill('SIGKILL');
    if (child.pid !== undefined) signalGroup(child.pid, 'SIGKILL');
  }, attendedGraceMs);
  await gone;
  clearTimeout(overdue);
};

/**
 * All processes of one platform: starts them, knows them (so do the lock file and the guard) and stops them in order.
 */
export class Stack {
  /** Runs a program to its end; stopping the stack ends it. */
  readonly run: RunProgram;
  readonly #settings: StackSettings;
  readonly #guard: Guard;
  readonly #supervised: SupervisedProcess[] = [];
  readonly #attended: Attended[] = [];
  readonly #tasks = new Map<number, ProcessRecord>();
  readonly #runs = new Set<Promise<unknown>>();
  readonly #stopping = new AbortController();
  readonly #failure = Promise.withResolvers<never>();
  readonly #killed = Promise.withResolvers<void>();
  #stopped: Promise<void> | null = null;

  constructor(settings: StackSettings) {
    this.#settings = settings;
    this.#guard = new Guard(settings);
    // Stopped for another reason before anyone waited for it: not an unhandled failure.
    this.#failure.promise.catch(() => undefined);
    const runProgram = programRunner({
      signal: this.#stopping.signal,
      began: (pid, command) => this.#addTask(pid, command, 'SIGTERM'),
      ended: (pid) => this.#removeTask(pid),
    });
    this.run = (...program) => this.#track(runProgram(...program));
  }

  /** Rejects with the reason when a process cannot be kept running. */
  get failure(): Promise<never> {
    return this.#failure.promise;
  }

  get guardPid(): number | undefined {
    return this.#guard.pid;
  }

  /** Aborted when the stack begins to stop. */
  get signal(): AbortSignal {
    return this.#stopping.signal;
  }

  /**
   * Starts a process and keeps it running; resolves when it serves, rejects when the stack fails.
   * @throws {PortTaken} when another program has its port: the stack goes on without it
   */
  async start(spec: ProcessSpec): Promise<void> {
    this.#stopping.signal.throwIfAborted();
    const hooks = {
      onChange: () => this.#announce(),
      onDeath: this.#settings.narrator.print,
      onFatal: (reason: StartError) => this.#failure.reject(reason),
    };
    const supervised = new SupervisedProcess(spec, hooks, this.#settings.patience);
    this.#supervised.push(supervised);
    this.#announce();
    try {
      await Promise.race([supervised.served, this.#failure.promise]);
    } catch (error) {
      if (error instanceof PortTaken) this.#forget(supervised);
      throw error;
    }
  }

  /** Runs a program that talks to the terminal itself to its end; resolves with its exit code. Stopping ends it. */
  async attend(name: string, child: ChildProcess): Promise<number> {
    const end = new Promise<number>((resolve, reject) => {
      child.once('error', reject);
      child.once('exit', (code) => resolve(code ?? 1));
    });
    if (child.pid === undefined) return end;
    const { pid } = child;
    this.#addTask(pid, name, 'SIGINT');
    const gone = end.then(
      () => this.#removeTask(pid),
      () => this.#removeTask(pid),
    );
    this.#attended.push({ child, gone });
    return end;
  }

  /** Stops everything: helpers, then our processes, then Postgres and Redis. Resolves when all are gone. */
  stop(): Promise<void> {
    this.#stopped ??= this.#stopInOrder();
    return this.#stopped;
  }

  /** Does not wait for what is being finished: the second Ctrl-C. */
  kill(): void {
    this.#stopping.abort();
    this.#killed.resolve();
    for (const supervised of this.#supervised) supervised.kill();
  }

  #forget(supervised: SupervisedProcess): void {
    this.#supervised.splice(this.#supervised.indexOf(supervised), 1);
    this.#announce();
  }

  #track<T>(run: Promise<T>): Promise<T> {
    this.#runs.add(run);
    const forget = (): boolean => this.#runs.delete(run);
    run.then(forget, forget);
    return run;
  }

  #addTask(pid: number, name: string, stopSignal: NodeJS.Signals): void {
    const identity = processIdentity(pid) ?? '';
    this.#tasks.set(pid, { name, pid, identity, stage: 'task', stopSignal });
    this.#announce();
  }

  #removeTask(pid: number): void {
    this.#tasks.delete(pid);
    this.#announce();
  }

  async #stopInOrder(): Promise<void> {
    this.#stopping.abort();
    // They are killed; who started one removes what it left half made as soon as its end is known.
    const overdue = delay(killedGraceMs, undefined, { ref: false });
    await Promise.race([Promise.allSettled(this.#runs), this.#killed.promise, overdue]);
    await Promise.all(this.#attended.map(endAttended));
    for (const stage of ['app', 'infra'] as const) {
      const ofStage = this.#supervised.filter((supervised) => supervised.spec.stage === stage);
      await Promise.all(ofStage.map((supervised) => supervised.stop()));
    }
    await this.#guard.dismiss();
    this.#settings.lock.release();
  }

  #announce(): void {
    const running = this.#supervised.map((supervised) => supervised.record).filter((record) => record !== null);
    const processes = [...this.#tasks.values(), ...running];
    this.#guard.notify(processes);
    this.#settings.lock.update({ processes });
  }
}
