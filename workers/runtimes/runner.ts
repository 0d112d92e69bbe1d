import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import type { Server } from 'node:net';
import type { Duplex } from 'node:stream';
import { baseNice, setNice } from '#lib/cpu-priority.ts';
import { Allowance, inTurns, readWithin } from './allowance.ts';
import { RunCalls } from './calls.ts';
import type { CpuShare } from './cpu-shares.ts';
import type { GuestNetwork } from './egress-proxy.ts';
import { FrameReader, writeFrame } from './frames.ts';
import { parseGuestMessage } from './messages.ts';
import type { CodeMessage, FunctionMessage, GuestMessage, ResultMessage, RunMessage } from './messages.ts';
import {
  type EndCause,
  type RunFigures,
  figuresOf,
  outcomeOfEnd,
  outcomeOfNoStart,
  outcomeOfResult,
  outcomeOfTrial,
} from './outcome.ts';
import { killGroup, killInside } from './kill.ts';
import { anonymousKib, cpuTimeMs, dieFirst, processTree } from './processes.ts';
import { RunLog } from './run-log.ts';
import type { RunnerTools } from './runner-tools.ts';
import type { RunOptions, RunOutcome, RunRequest } from './runtime.ts';
import { channelOf, spawnCommand } from './spawn.ts';
import type { SpawnCommand } from './guest.ts';
import type { Watch } from './watchdog.ts';

/** Code, buffers and engine work that a function's own limit does not count. */
const overheadMib = 32;
const stderrKept = 4096;
const closeWithinMs = 2000;
const killRetryMs = 500;
/** Answers that a guest has asked for and does not read are the run's memory, although the worker holds them. */
const maxUnreadBytes = 64 * 1024 * 1024;
/** Evaluating a module ahead takes some 0.1 s. */
const storingCpuMs = 1000;
/** Why a module is not evaluated ahead that took a process with it. */
const endsProcess = 'the engine cannot store what it makes, or evaluating it takes too much time or memory';
/** How often the nice values of a starting guest are set; a start takes 0.2 s when nothing else is busy. */
const weighStartEveryMs = 25;
/** A guest that waits for work needs next to no CPU time between two checks. */
const restlessMs = 500;
/** How the engine's last words read when it had no memory left. */
const outOfMemory = /out of memory|out-of-memory|allocation failed|bad_alloc|MemoryError/i;

const cpuOf = (pids: readonly number[]): number => pids.reduce((sum, pid) => sum + cpuTimeMs(pid), 0);

const functionName = (id: string, version: number, memoryMib: number): string => `${id}@${version}/${memoryMib}`;

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
  #startCpuMs = 0;
  readonly #starting: NodeJS.Timeout | undefined;
  #network: GuestNetwork | null = null;
  #lastCheck = { runs: -1, cpuMs: 0 };
  #isReady = false;
  /** The function whose module the guest is evaluating ahead. */
  #storing: string | null = null;
  #guard: Watch | null = null;
  #lastMemoryMib = 0;
  #received: number | Promise<number> = 0;
  #killAgain: NodeJS.Timeout | undefined;
  #ready = Promise.withResolvers<void>();
  runs = 0;
  /** No longer usable; its process may still be on its way out. */
  dead = false;
  /** Resolves when the process and everything it started are gone. */
  readonly gone: Promise<void>;

  /** @param projectId the project that the runner starts for; left out for a spare */
  constructor(command: SpawnCommand, tools: RunnerTools, projectId?: string) {
    this.#tools = tools;
    const ipc = tools.network ? (['ipc'] as const) : [];
    this.#child = spawnCommand(command, ['ignore', 'ignore', 'pipe', 'pipe', ...ipc]);
    this.#socket = channelOf(this.#child);
    this.#starting = this.#weighStart(projectId);
    this.#ready.promise.catch(() => undefined);
    this.gone = this.#untilGone();
    this.#listen();
    this.#serveNetwork();
  }

  /** Resolves when the guest waits for work; rejects when it ends before that. */
  get ready(): Promise<void> {
    return this.#ready.promise;
  }

  /** The last bytes that the guest wrote on standard error. */
  get lastWords(): string {
    return this.#stderr.trim();
  }

  async run(request: RunRequest, { signal, onLog, services }: RunOptions = {}): Promise<RunOutcome> {
    if (signal?.aborted === true) return outcomeOfNoStart('cancelled', 'The run was cancelled.');
    if (this.dead) return outcomeOfNoStart('crashed', 'The process for the function ended before it could start.');
    if (request.isTrial === true && this.#endsBy(request)) return outcomeOfTrial(endsProcess);
    this.runs += 1;
    if (this.runs === 1) this.#tools.cpuShares.noteStart(request.projectId, this.#startCpuMs);
    return new Promise((resolve) => {
      const cancel = (): void => this.#end('cancelled');
      const wall = setTimeout(() => this.#end('timeout'), request.timeoutMs);
      signal?.addEventListener('abort', cancel, { once: true });
      const share = this.#tools.cpuShares.enter(request.projectId, this.#guestPid);
      const watch = this.#watch(request, share);
      this.#network?.open();
      const release = (): void => {
        this.#network?.shut();
        clearTimeout(wall);
        watch.stop();
        share.leave();
        signal?.removeEventListener('abort', cancel);
      };
      const id = this.runs;
      const calls = new RunCalls(services, (answer) => {
        if (this.#active?.id !== id || this.dead) return;
        if (this.#socket.writableLength > maxUnreadBytes) this.#end('memory_limit');
        else writeFrame(this.#socket, answer);
      });
      const startedAt = performance.now();
      this.#active = { id, request, log: new RunLog(onLog), calls, startedAt, watch, release, resolve };
      this.#send(request);
    });
  }

  /** Whether a process ended when it evaluated this module ahead of its runs. */
  #endsBy({ functionId, version, memoryMib }: RunRequest): boolean {
    return this.#tools.notAhead?.has(functionName(functionId, version, memoryMib)) === true;
  }

  /** Ends the process at once, and with it everything inside the sandbox. */
  kill(cause: EndCause = 'cancelled'): void {
    this.dead = true;
    this.#endCause ??= cause;
    const { pid, exitCode, signalCode } = this.#child;
    if (pid === undefined || exitCode !== null || signalCode !== null) return;
    killInside(pid, this.#pids);
    this.#killAgain ??= setTimeout(() => killGroup(pid), killRetryMs);
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

  /** Whether it has worked since the last time this was asked, although nothing was asked of it in between. */
  isRestless(): boolean {
    const cpuMs = cpuOf(processTree(this.#child.pid ?? 0));
    const { runs, cpuMs: before } = this.#lastCheck;
    this.#lastCheck = { runs: this.runs, cpuMs };
    return runs === this.runs && cpuMs - before > restlessMs;
  }

  get #guestPid(): number {
    return this.#pids.at(-1) ?? this.#child.pid ?? 0;
  }

  #watch({ memoryMib, timeoutMs }: Pick<RunRequest, 'memoryMib' | 'timeoutMs'>, share?: CpuShare): Watch {
    const limits = {
      memoryKib: (memoryMib + overheadMib) * 1024,
      cpuMs: timeoutMs + this.#tools.cpuGraceMs,
    };
    const idle = { idleKib: this.#idleKib, idlePids: this.#pids };
    const onProcesses = (pids: readonly number[], cpuMs: number): void => {
      const started = pids.filter((pid) => !this.#pids.includes(pid));
      share?.follow(started, cpuMs);
    };
    const guest = { pid: this.#child.pid ?? 0, ...idle, measure: this.#tools.measure, onProcesses };
    return this.#tools.watchdog.watch(guest, limits, (breach) => this.#end(breach));
  }

  #send(request: RunRequest): void {
    const { functionId, version, code, entryFile = null, timeoutMs, ...rest } = request;
    const name = functionName(functionId, version, request.memoryMib);
    const isKnown = this.#known.has(name);
    this.#known.add(name);
    this.#last = name;
    this.#lastMemoryMib = request.memoryMib;
    const cpuMs = timeoutMs + this.#tools.cpuGraceMs;
    if (!isKnown) writeFrame(this.#socket, { type: 'code', function: name, code, entryFile } satisfies CodeMessage);
    // In this order: Python's guest reads the first fields alone.
    const ahead = this.#tools.notAhead?.has(name) === false;
    const message: RunMessage = { type: 'run', run: this.runs, function: name, cpuMs, ...rest, ahead };
    writeFrame(this.#socket, message);
  }

  #listen(): void {
    const reader = new FrameReader();
    const allowance = new Allowance();
    this.#socket.on('error', () => this.#end('crashed'));
    readWithin(this.#socket, allowance, (chunk) => {
      this.#received = inTurns(this.#receiveAll(reader.push(chunk)));
      return this.#received;
    });
    if (this.#child.stderr === null || this.#child.stderr === undefined) return;
    readWithin(this.#child.stderr, allowance, (chunk) => {
      this.#stderr = (this.#stderr + chunk.toString('latin1', 0, chunk.length)).slice(-stderrKept);
      return 1;
    });
  }

  /** The listener comes over the channel that Node has with child processes, which nothing else is said on. */
  #serveNetwork(): void {
    const { network } = this.#tools;
    if (network === undefined) return;
    this.#child.once('message', (_message, handle) => {
      const listener = handle as Server;
      this.#network = network(listener);
      this.#child.disconnect();
      void this.gone.then(() => listener.close());
    });
  }

  *#receiveAll(messages: Iterable<unknown>): Generator<number> {
    try {
      for (const message of messages) {
        yield* this.#receive(parseGuestMessage(message));
        yield 1;
      }
    } catch {
      this.#end('crashed');
    }
  }

  *#receive(message: GuestMessage): Generator<0> {
    if (message.type === 'ready') return this.#becomeReady();
    if ('function' in message) return this.#note(message);
    if (message.run === this.#active?.id) yield* this.#receiveOf(this.#active, message);
  }

  #note({ type, function: name }: FunctionMessage): void {
    if (type === 'dropped') return void this.#known.delete(name);
    this.#storing = type === 'storing' ? name : null;
    this.#guard?.stop();
    // There is no run whose limits would hold.
    const limits = { memoryMib: this.#lastMemoryMib, timeoutMs: storingCpuMs };
    this.#guard = type === 'storing' ? this.#watch(limits) : null;
  }

  *#receiveOf(active: ActiveRun, message: Exclude<GuestMessage, FunctionMessage | { type: 'ready' }>): Generator<0> {
    switch (message.type) {
      case 'logs':
        yield* active.log.add(message);
        break;
      case 'call':
        if (!this.dead) void active.calls.answer(message);
        break;
      case 'result':
        this.#succeed(active, message);
        break;
    }
  }

  #weighStart(projectId: string | undefined): NodeJS.Timeout | undefined {
    const { pid: outermost } = this.#child;
    if (outermost === undefined) return undefined;
    // Processes that it starts inherit the nice value, and not the weight of its session.
    setNice(outermost, baseNice);
    const weigh = (): void => this.#tools.cpuShares.weighStart(projectId, processTree(outermost));
    weigh();
    return setInterval(weigh, weighStartEveryMs).unref();
  }

  /** Said twice it would be a lie: what the process holds by then would no longer count. */
  #becomeReady(): void {
    if (this.#isReady) return;
    this.#isReady = true;
    clearInterval(this.#starting);
    this.#pids = processTree(this.#child.pid ?? 0);
    this.#startCpuMs = cpuOf(this.#pids);
    for (const pid of this.#pids) {
      dieFirst(pid);
      setNice(pid, baseNice);
    }
    this.#idleKib = this.#anonymousKib();
    this.#ready.resolve();
  }

  #succeed(active: ActiveRun, message: ResultMessage): void {
    if (message.status === 'memory_limit' || message.status === 'cpu_limit') return this.#end(message.status);
    this.#active = null;
    active.release();
    if (message.retire === true) this.kill('crashed');
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
    clearInterval(this.#starting);
    clearTimeout(this.#killAgain);
    // Every process inside holds the socket: it closes with the last of them.
    const impatience = setTimeout(() => this.#socket.destroy(), closeWithinMs);
    await closed;
    clearTimeout(impatience);
    await this.#received;
    this.#ready.reject(new Error(`The sandboxed process did not start. ${this.lastWords}`.trim()));
    this.#guard?.stop();
    if (this.#storing !== null) this.#tools.notAhead?.set(this.#storing, true);
    const active = this.#active;
    if (active === null) return;
    this.#active = null;
    active.release();
    if (this.#storing !== null && this.#endCause !== 'cancelled')
      active.resolve(outcomeOfNoStart('crashed', 'The process was busy with what comes before a run, and ended.'));
    else active.resolve(outcomeOfEnd(this.#cause(), active.request, active.log, this.#figures(active)));
  }

  #figures(active: ActiveRun, message?: ResultMessage): RunFigures {
    return { ...figuresOf(active, message), networkMs: this.#network?.busyMs() };
  }

  #cause(): EndCause {
    return this.#endCause ?? (outOfMemory.test(this.#stderr) ? 'memory_limit' : 'crashed');
  }

  #anonymousKib(): number {
    return this.#pids.reduce((sum, pid) => sum + anonymousKib(pid), 0);
  }
}
