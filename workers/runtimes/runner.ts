import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import type { Duplex } from 'node:stream';
import { FrameReader, writeFrame } from './frames.ts';
import { MemoryBound } from './memory-bound.ts';
import { parseGuestMessage, type GuestMessage, type ResultMessage, type RunMessage } from './messages.ts';
import { outcomeOfEnd, outcomeOfNoStart, outcomeOfResult, type EndCause, type RunFigures } from './outcome.ts';
import { anonymousKib, processTree } from './processes.ts';
import { RunLog } from './run-log.ts';
import type { RunOptions, RunOutcome, RunRequest } from './runtime.ts';
import type { SpawnCommand } from './sandbox.ts';
import type { Watch, Watchdog } from './watchdog.ts';

/** Code, buffers and engine work that a function's own limit does not count. */
const OVERHEAD_MIB = 32;
const STDERR_KEPT = 4096;
const CLOSE_WITHIN_MS = 2000;
const round = (value: number): number => Math.round(value * 100) / 100;

/** How the engine's last words read when it had no memory left. */
const OUT_OF_MEMORY = /out of memory|out-of-memory|allocation failed|bad_alloc|MemoryError/i;

export interface RunnerTools {
  readonly watchdog: Watchdog;
  /** Program that bounds the memory of a running process; null where there is none. */
  readonly prlimit: string | null;
  /** CPU time allowed beyond the wall-clock time-out. */
  readonly cpuGraceMs: number;
}

interface ActiveRun {
  readonly id: number;
  readonly request: RunRequest;
  readonly log: RunLog;
  readonly startedAt: number;
  readonly watch: Watch;
  readonly release: () => void;
  readonly resolve: (outcome: RunOutcome) => void;
}

/**
 * One sandboxed process. It runs one function at a time and, by its pool's doing, functions of one project only.
 * After anything abnormal it is killed, never used again.
 */
export class Runner {
  readonly #child: ChildProcess;
  readonly #socket: Duplex;
  readonly #tools: RunnerTools;
  readonly #bound: MemoryBound;
  readonly #known = new Set<string>();
  #active: ActiveRun | null = null;
  #endCause: EndCause | null = null;
  #stderr = '';
  #pids: readonly number[] = [];
  #idleKib = 0;
  #ready = Promise.withResolvers<void>();
  runs = 0;
  /** No longer usable; its process may still be on its way out. */
  dead = false;
  /** Resolves when the process and everything it started are gone. */
  readonly gone: Promise<void>;

  constructor(command: SpawnCommand, tools: RunnerTools) {
    this.#tools = tools;
    this.#child = spawn(command.file, command.args, {
      env: { ...command.env },
      stdio: ['ignore', 'ignore', 'pipe', 'pipe'],
      // The terminal's Ctrl-C is for the platform, which then ends its guests in order.
      detached: true,
    });
    this.#socket = this.#child.stdio[3] as Duplex;
    this.#bound = new MemoryBound(tools.prlimit);
    this.#ready.promise.catch(() => undefined);
    this.gone = this.#untilGone();
    this.#listen();
  }

  /** Resolves when the guest waits for work; rejects when it ends before that. */
  get ready(): Promise<void> {
    return this.#ready.promise;
  }

  /** What the guest wrote on standard error, its end. */
  get lastWords(): string {
    return this.#stderr.trim();
  }

  async run(request: RunRequest, { signal, onLog }: RunOptions = {}): Promise<RunOutcome> {
    await this.#bound.allow(request.memoryMib);
    if (signal?.aborted === true) return outcomeOfNoStart('cancelled', 'The run was cancelled.');
    if (this.dead) return outcomeOfNoStart('crashed', 'The process for the function ended before it could start.');
    this.runs += 1;
    return new Promise((resolve) => {
      const cancel = (): void => this.#end('cancelled');
      const wall = setTimeout(() => this.#end('timeout'), request.timeoutMs);
      signal?.addEventListener('abort', cancel, { once: true });
      const watch = this.#watch(request);
      const release = (): void => {
        clearTimeout(wall);
        watch.stop();
        signal?.removeEventListener('abort', cancel);
      };
      const startedAt = performance.now();
      this.#active = { id: this.runs, request, log: new RunLog(onLog), startedAt, watch, release, resolve };
      this.#send(request);
    });
  }

  /** Ends the process at once, and with it everything inside the sandbox. */
  kill(cause: EndCause = 'cancelled'): void {
    this.dead = true;
    this.#endCause ??= cause;
    const { pid, exitCode, signalCode } = this.#child;
    if (pid === undefined || exitCode !== null || signalCode !== null) return;
    killTree(pid, this.#pids);
  }

  /** Memory beyond what the process held before its first run, in MiB. */
  heldMib(): number {
    return Math.max(0, this.#anonymousKib() - this.#idleKib) / 1024;
  }

  #watch({ memoryMib, timeoutMs }: RunRequest): Watch {
    const limits = {
      memoryKib: (memoryMib + OVERHEAD_MIB) * 1024,
      cpuMs: timeoutMs + this.#tools.cpuGraceMs,
    };
    const guest = { pid: this.#child.pid ?? 0, idleKib: this.#idleKib };
    return this.#tools.watchdog.watch(guest, limits, (breach) => this.#end(breach));
  }

  #send(request: RunRequest): void {
    const { functionId, version, code, timeoutMs: _, ...rest } = request;
    const name = `${functionId}@${version}/${request.memoryMib}`;
    const isKnown = this.#known.has(name);
    this.#known.add(name);
    const message: RunMessage = { type: 'run', run: this.runs, function: name, code: isKnown ? null : code, ...rest };
    writeFrame(this.#socket, message);
  }

  #listen(): void {
    const reader = new FrameReader();
    this.#socket.on('error', () => this.#end('crashed'));
    this.#socket.on('data', (chunk: Buffer) => {
      try {
        for (const message of reader.push(chunk)) this.#receive(parseGuestMessage(message));
      } catch {
        this.#end('crashed');
      }
    });
    this.#child.stderr?.on('data', (chunk: Buffer) => {
      this.#stderr = (this.#stderr + chunk.toString('latin1')).slice(-STDERR_KEPT);
    });
  }

  #receive(message: GuestMessage): void {
    switch (message.type) {
      case 'ready':
        this.#becomeReady();
        break;
      case 'dropped':
        this.#known.delete(message.function);
        break;
      case 'logs':
        if (message.run === this.#active?.id) this.#active.log.add(message);
        break;
      case 'result':
        if (message.run === this.#active?.id) this.#succeed(this.#active, message);
        break;
    }
  }

  #becomeReady(): void {
    this.#pids = processTree(this.#child.pid ?? 0);
    this.#idleKib = this.#anonymousKib();
    void this.#bound.measure(this.#pids.at(-1) ?? 0).then(() => this.#ready.resolve());
  }

  #succeed(active: ActiveRun, message: ResultMessage): void {
    if (message.status === 'memory_limit') return this.#end('memory_limit');
    this.#active = null;
    active.release();
    active.resolve(outcomeOfResult(message, active.log, this.#figures(active, message)));
  }

  /** Ends the run by ending the process; the outcome follows when it is gone and all it said has been read. */
  #end(cause: EndCause): void {
    this.#endCause ??= cause;
    this.kill(cause);
  }

  async #untilGone(): Promise<void> {
    const closed = new Promise((resolve) => this.#socket.once('close', resolve));
    await once(this.#child, 'exit').catch(() => undefined);
    this.dead = true;
    // Every process inside holds the socket: it closes with the last of them.
    const impatience = setTimeout(() => this.#socket.destroy(), CLOSE_WITHIN_MS);
    await closed;
    clearTimeout(impatience);
    this.#ready.reject(new Error(`The sandboxed process did not start. ${this.lastWords}`.trim()));
    const active = this.#active;
    if (active === null) return;
    this.#active = null;
    active.release();
    active.resolve(outcomeOfEnd(this.#cause(), active.request, active.log, this.#figures(active)));
  }

  #cause(): EndCause {
    return this.#endCause ?? (OUT_OF_MEMORY.test(this.#stderr) ? 'memory_limit' : 'crashed');
  }

  #figures({ startedAt, watch }: ActiveRun, message?: ResultMessage): RunFigures {
    return {
      durationMs: round(performance.now() - startedAt),
      cpuMs: round(message?.cpuMs ?? watch.cpuMs),
      memoryPeakMib: round(Math.max(message?.memoryMib ?? 0, watch.peakKib / 1024)),
    };
  }

  #anonymousKib(): number {
    return this.#pids.reduce((sum, pid) => sum + anonymousKib(pid), 0);
  }
}

/**
 * Kills a sandbox. With namespaces it is enough to kill the first process inside: all others there end with it, and
 * bubblewrap, its parent, still lives to take note and ends too. Killing bubblewrap itself would have the same end, but
 * leave a zombie to whatever is process 1, which in many containers never collects one.
 */
function killTree(outermost: number, pids: readonly number[]): void {
  const [init, parent] = [pids.at(-2), pids.at(-3)];
  const inside = init !== undefined && parent !== undefined && parentOf(init) === parent;
  kill(inside ? init : -outermost);
  if (inside) setTimeout(() => kill(-outermost), KILL_AGAIN_MS).unref();
}

/** @param pid negative for a process group, which is all that holds a guest without namespaces together */
function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It is gone already.
  }
}
