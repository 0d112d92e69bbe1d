import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import type { Duplex } from 'node:stream';
import { RunCalls } from './calls.ts';
import { FrameReader, writeFrame } from './frames.ts';
import { parseGuestMessage, type GuestMessage, type ResultMessage, type RunMessage } from './messages.ts';
import { outcomeOfEnd, outcomeOfNoStart, outcomeOfResult, type EndCause, type RunFigures } from './outcome.ts';
import { killGroup, killInside } from './kill.ts';
import { anonymousKib, processTree } from './processes.ts';
import { RunLog } from './run-log.ts';
import type { RunOptions, RunOutcome, RunRequest } from './runtime.ts';
import type { SpawnCommand } from './guest.ts';
import type { Watch, Watchdog } from './watchdog.ts';

/** Code, buffers and engine work that a function's own limit does not count. */
const overheadMib = 32;
const stderrKept = 4096;
const closeWithinMs = 2000;
const killAgainMs = 500;
/** How the engine's last words read when it had no memory left. */
const outOfMemory = /out of memory|out-of-memory|allocation failed|bad_alloc|MemoryError/i;

const functionName = (id: string, version: number, memoryMib: number): string => `${id}@${version}/${memoryMib}`;
const round = (value: number): number => Math.round(value * 100) / 100;

export interface RunnerTools {
  readonly watchdog: Watchdog;
  /** CPU time allowed beyond the wall-clock time-out. */
  readonly cpuGraceMs: number;
}

interface ActiveRun {
  readonly id: number;
  readonly request: RunRequest;
  readonly log: RunLog;
  readonly calls: RunCalls;
  readonly startedAt: number;
  readonly watch: Watch;
  readonly release: () => void;
  readonly resolve: (outcome: RunOutcome) => void;
}

/** @throws when there are no file descriptors left to start a process with */
function socketOf(child: ChildProcess): Duplex {
  const socket = (child.stdio as ChildProcess['stdio'] | undefined)?.[3];
  if (socket === undefined || socket === null) throw new Error('No process can be started: too many open files.');
  return socket as Duplex;
}

/**
 * One sandboxed process. It runs one function at a time and, by its pool's doing, functions of one project only.
 * After anything abnormal it is killed, never used again.
 */
export class Runner {
  readonly #child: ChildProcess;
  readonly #socket: Duplex;
  readonly #tools: RunnerTools;
  readonly #known = new Set<string>();
  #last = '';
  #active: ActiveRun | null = null;
  #endCause: EndCause | null = null;
  #stderr = '';
  #pids: readonly number[] = [];
  #idleKib = 0;
  #killAgain: NodeJS.Timeout | undefined;
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
    // A failed start is told by the promises; without any listener it would end the worker.
    this.#child.on('error', () => undefined);
    this.#socket = socketOf(this.#child);
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

  async run(request: RunRequest, { signal, onLog, services }: RunOptions = {}): Promise<RunOutcome> {
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
      const id = this.runs;
      const calls = new RunCalls(services, (answer) => {
        if (this.#active?.id === id && !this.dead) writeFrame(this.#socket, answer);
      });
      const startedAt = performance.now();
      this.#active = { id, request, log: new RunLog(onLog), calls, startedAt, watch, release, resolve };
      this.#send(request);
    });
  }

  /** Ends the process at once, and with it everything inside the sandbox. */
  kill(cause: EndCause = 'cancelled'): void {
    this.dead = true;
    this.#endCause ??= cause;
    const { pid, exitCode, signalCode } = this.#child;
    if (pid === undefined || exitCode !== null || signalCode !== null) return;
    killInside(pid, this.#pids);
    this.#killAgain ??= setTimeout(() => killGroup(pid), killAgainMs);
  }

  /**
   * Whether the request can have the memory that it was promised. Garbage of the same function is collected when it
   * needs room; what other functions left behind is not, and would count as its own.
   */
  suits({ functionId, version, memoryMib }: RunRequest): boolean {
    return this.#last === functionName(functionId, version, memoryMib) || this.heldMib() <= memoryMib / 2;
  }

  /** Memory beyond what the process held before its first run, in MiB. */
  heldMib(): number {
    return Math.max(0, this.#anonymousKib() - this.#idleKib) / 1024;
  }

  #watch({ memoryMib, timeoutMs }: RunRequest): Watch {
    const limits = {
      memoryKib: (memoryMib + overheadMib) * 1024,
      cpuMs: timeoutMs + this.#tools.cpuGraceMs,
    };
    const guest = { pid: this.#child.pid ?? 0, idleKib: this.#idleKib };
    return this.#tools.watchdog.watch(guest, limits, (breach) => this.#end(breach));
  }

  #send(request: RunRequest): void {
    const { functionId, version, code, timeoutMs: _, ...rest } = request;
    const name = functionName(functionId, version, request.memoryMib);
    const isKnown = this.#known.has(name);
    this.#known.add(name);
    this.#last = name;
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
      this.#stderr = (this.#stderr + chunk.toString('latin1')).slice(-stderrKept);
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
      case 'call':
        if (message.run === this.#active?.id) void this.#active.calls.answer(message);
        break;
      case 'result':
        if (message.run === this.#active?.id) this.#succeed(this.#active, message);
        break;
    }
  }

  #becomeReady(): void {
    this.#pids = processTree(this.#child.pid ?? 0);
    this.#idleKib = this.#anonymousKib();
    this.#ready.resolve();
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
    clearTimeout(this.#killAgain);
    // Every process inside holds the socket: it closes with the last of them.
    const impatience = setTimeout(() => this.#socket.destroy(), closeWithinMs);
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
    return this.#endCause ?? (outOfMemory.test(this.#stderr) ? 'memory_limit' : 'crashed');
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
