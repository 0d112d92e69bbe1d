import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { PortTaken, StartError, explainOutput } from './errors.ts';
import { isFree } from './infra/ports.ts';
import { signalGroup, signalProcess } from './leftovers.ts';
import { type ProcessRecord, processIdentity } from './process-identity.ts';

/** One process that has to be there for as long as the platform runs. */
export interface ProcessSpec {
  readonly name: string;
  readonly stage: 'app' | 'infra';
  readonly command: string;
  readonly args: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  readonly cwd: string;
  readonly uid?: number;
  readonly gid?: number;
  /** A file that its output is added to; without one the output goes where ours goes. */
  readonly logFile?: string;
  /** Where it listens: should the port be taken when it starts, it is not started again there. */
  readonly port?: number;
  readonly stopSignal: NodeJS.Signals;
  /** For a second Ctrl-C: the request to stop without finishing anything. */
  readonly killSignal?: NodeJS.Signals;
  readonly stopWithinMs: number;
  /** Resolves when the process serves. Need not watch its end. */
  readonly ready: (child: ChildProcess, signal: AbortSignal) => Promise<void>;
  /** Clears what a process that died leaves in the way of the next one. */
  readonly afterDeath?: () => void;
}

export interface ProcessHooks {
  /** A process began or ended. */
  readonly onChange: () => void;
  readonly onDeath: (line: string) => void;
  /** It cannot be kept running: everything has to stop. */
  readonly onFatal: (reason: StartError) => void;
}

/** How patient the supervision is; tests use shorter times. */
export interface Patience {
  readonly readyWithinMs: number;
  /** A process that served this long has recovered: its next death counts as the first. */
  readonly steadyMs: number;
  readonly maxDeaths: number;
  readonly firstPauseMs: number;
  readonly maxPauseMs: number;
}

const defaultPatience: Patience = {
  readyWithinMs: 60_000,
  steadyMs: 10_000,
  maxDeaths: 6,
  firstPauseMs: 100,
  maxPauseMs: 5000,
};

/** A child exits with this code when its settings are wrong (EX_CONFIG): starting it again would not help. */
const wrongSettings = 78;

interface Life {
  readonly servedMs: number;
  readonly code: number | null;
  readonly how: string;
}

/** Resolves with the words for it when the process has ended, also when it could not be started at all. */
const endOf = (child: ChildProcess): Promise<string> =>
  new Promise((resolve) => {
    child.once('error', (error) => resolve(`could not be started (${error.message})`));
    child.once('exit', (code, signal) =>
      resolve(signal === null ? `ended with code ${code}` : `was ended by ${signal}`),
    );
  });

const lastLine = (file: string): string => readFileSync(file, 'utf8').trim().split('\n').at(-1) ?? '';

/** Starts a process, starts it again when it dies, and gives up with a reason when it keeps dying. */
export class SupervisedProcess {
  readonly spec: ProcessSpec;
  readonly #hooks: ProcessHooks;
  readonly #patience: Patience;
  readonly #stopping = new AbortController();
  readonly #served = Promise.withResolvers<void>();
  readonly #ended: Promise<void>;
  #record: ProcessRecord | null = null;
  #hasServed = false;

  constructor(spec: ProcessSpec, hooks: ProcessHooks, patience: Partial<Patience> = {}) {
    this.spec = spec;
    this.#hooks = hooks;
    this.#patience = { ...defaultPatience, ...patience };
    // Reaches its waiting callers; there may be none.
    this.#served.promise.catch(() => undefined);
    this.#ended = this.#keepRunning();
  }

  /** The process that runs now; `null` between two lives and after the end. */
  get record(): ProcessRecord | null {
    return this.#record;
  }

  /**
   * Resolves when it serves for the first time. Rejects with `PortTaken` when another program has its port; that it
   * never will for another reason is said by `onFatal`.
   */
  get served(): Promise<void> {
    return this.#served.promise;
  }

  /** Asks it to end and kills it when it takes longer than it may; resolves when it is gone. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    const record = this.#record;
    if (record !== null) signalProcess(record.pid, this.spec.stopSignal);
    const overdue = setTimeout(() => this.#signalGroup('SIGKILL'), this.spec.stopWithinMs);
    await this.#ended;
    clearTimeout(overdue);
  }

  /** Ends it now. */
  kill(): void {
    this.#stopping.abort();
    this.#signalGroup(this.spec.killSignal ?? 'SIGKILL');
  }

  #signalGroup(signal: NodeJS.Signals): void {
    if (this.#record !== null) signalGroup(this.#record.pid, signal);
  }

  async #keepRunning(): Promise<void> {
    const { steadyMs, maxDeaths } = this.#patience;
    for (let deaths = 0; !this.#stopping.signal.aborted;) {
      const life = await this.#live();
      this.#hasServed ||= life.servedMs > 0;
      if (this.#stopping.signal.aborted) return;
      deaths = life.servedMs >= steadyMs ? 1 : deaths + 1;
      if (await this.#lostItsPort()) return this.#served.reject(new PortTaken(this.spec.port ?? 0));
      if (life.code === wrongSettings) return this.#hooks.onFatal(this.#refusal());
      if (deaths >= maxDeaths) return this.#hooks.onFatal(this.#despair(life, deaths));
      this.#hooks.onDeath(`${this.spec.name} ${life.how}; starting it again`);
      await this.#pause(deaths);
    }
  }

  /** Once it has served, others know it by its port: then it has to come back there. */
  async #lostItsPort(): Promise<boolean> {
    const { port } = this.spec;
    return port !== undefined && !this.#hasServed && !(await isFree(port));
  }

  #refusal(): StartError {
    return new StartError(`${this.spec.name} cannot run with these settings; its message is above.`, wrongSettings);
  }

  #despair(life: Life, deaths: number): StartError {
    const { name, logFile } = this.spec;
    const end = `${name} keeps ending (${deaths} times in a row, the last one ${life.how.replace(/^was /, '')})`;
    if (logFile === undefined) return new StartError(`${end}; its messages are above.`);
    const lastLog = lastLine(logFile);
    return (
      explainOutput(lastLog, logFile) ?? new StartError(`${end}. It last wrote: ${lastLog}\nThe whole log: ${logFile}`)
    );
  }

  async #pause(deaths: number): Promise<void> {
    const { firstPauseMs, maxPauseMs } = this.#patience;
    const ms = Math.min(firstPauseMs * 2 ** (deaths - 1), maxPauseMs);
    await delay(ms, undefined, { signal: this.#stopping.signal }).catch(() => undefined);
  }

  async #live(): Promise<Life> {
    const child = this.#spawn();
    const over = new AbortController();
    const end = endOf(child);
    void end.then(() => over.abort());
    this.#setRecord(child);
    const servedAt = this.#watchReadiness(child, over.signal);
    const how = await end;
    if (child.pid !== undefined) signalGroup(child.pid, 'SIGKILL');
    this.spec.afterDeath?.();
    this.#setRecord(null);
    const since = await servedAt;
    return { servedMs: since === null ? 0 : performance.now() - since, code: child.exitCode, how };
  }

  #setRecord(child: ChildProcess | null): void {
    const { name, stage, stopSignal } = this.spec;
    const pid = child?.pid;
    this.#record = pid === undefined ? null : { name, pid, identity: processIdentity(pid) ?? '', stage, stopSignal };
    this.#hooks.onChange();
  }

  /** Resolves with the moment it began to serve, or `null` if it ended before. */
  async #watchReadiness(child: ChildProcess, over: AbortSignal): Promise<number | null> {
    const late = AbortSignal.timeout(this.#patience.readyWithinMs);
    const signal = AbortSignal.any([late, over, this.#stopping.signal]);
    try {
      await Promise.race([this.spec.ready(child, signal), whenAborted(signal)]);
      this.#served.resolve();
      return performance.now();
    } catch {
      if (late.aborted && !over.aborted) this.#signalGroup('SIGKILL');
      return null;
    }
  }

  #spawn(): ChildProcess {
    const { command, args, env, cwd, uid, gid, logFile, stage } = this.spec;
    const output = logFile === undefined ? 'inherit' : openSync(logFile, 'a', 0o600);
    const stdio: StdioOptions = ['ignore', output, output, ...(stage === 'app' ? (['ipc'] as const) : [])];
    // A group of its own: the Ctrl-C of the terminal must reach the supervisor only, which knows the order.
    const account = { ...(uid !== undefined && { uid }), ...(gid !== undefined && { gid }) };
    const child = spawn(command, args, { env, cwd, stdio, detached: true, ...account });
    if (typeof output === 'number') closeSync(output);
    return child;
  }
}

const whenAborted = (signal: AbortSignal): Promise<never> =>
  new Promise((_resolve, reject) => {
    const abort = (): void => reject(signal.reason as Error);
    if (signal.aborted) abort();
    else signal.addEventListener('abort', abort, { once: true });
  });

/** How our own processes say that they serve: `{ type: 'ready' }` over the channel. */
export const readyMessage = (child: ChildProcess): Promise<void> =>
  new Promise((resolve) => {
    child.on('message', (message) => {
      if (typeof message === 'object' && message !== null && 'type' in message && message.type === 'ready') resolve();
    });
  });

/** Calls `probe` until it succeeds; for programs that have no other way to report. */
export const readyWhen = async (probe: () => boolean | Promise<boolean>, signal: AbortSignal): Promise<void> => {
  const pollMs = 15;
  while (!(await probe())) await delay(pollMs, undefined, { signal });
};
