import { anonymousKib, cpuTimeMs, readProportionalKib } from '../processes.ts';

/**
 * So long the processes that are new may count by what they have taken since they were first seen, until they are read.
 */
const newMs = 150;
/** So long a figure stands, with what the process has taken since then; pages that it only wrote to count as shared. */
const freshMs = 150;
/**
 * Both only pass once the processes together have used so much CPU time: on a busy machine a guest of low priority
 * holds the lock of its mappings while it waits for a processor, and a reader waits with it. Without CPU time it cannot
 * copy pages that it shares.
 */
const minCpuMs = 50;
/** Without a call for so long there was one process, or none. */
const pauseMs = 100;
/** A read that the kernel makes wait keeps one of Node's four threads for files. */
const maxReaders = 2;

interface Moment {
  readonly at: number;
  /** CPU time that the processes had used together. */
  readonly cpuMs: number;
}

interface Figure extends Moment {
  readonly kib: number;
  readonly residentKib: number;
}

export interface MemoryReader {
  readonly exactKib: (pid: number) => Promise<number>;
  readonly residentKib: (pid: number) => number;
  readonly cpuMs: (pid: number) => number;
  readonly now: () => number;
}

const ofKernel: MemoryReader = {
  exactKib: readProportionalKib,
  residentKib: anonymousKib,
  cpuMs: cpuTimeMs,
  now: () => performance.now(),
};

/** The reads that go on in this process. */
const ofProcess = { reads: 0 };

/**
 * Measures the memory of the processes of one runner, with shared pages counted once. User code can make the exact
 * figure slow to read, so it is read beside the worker's other work; processes that are not read in time count in full,
 * which is never too little.
 */
export class ExactMemory {
  readonly #read: MemoryReader;
  readonly #going: { reads: number };
  readonly #figures = new Map<number, Figure>();
  #firstSeenKib = new Map<number, number>();
  #cpuOf = new Map<number, number>();
  #cpuMs = 0;
  #unreadSince: Moment | null = null;
  #lastAt = -Infinity;
  #isReading = false;

  /** @param going what shares the bound on reads */
  constructor(read: MemoryReader = ofKernel, going = ofProcess) {
    this.#going = going;
    this.#read = read;
  }

  heldKib(pids: readonly number[]): number {
    const now = this.#read.now();
    if (now - this.#lastAt > pauseMs) this.#unreadSince = null;
    this.#lastAt = now;
    this.#addCpu(pids);
    const resident = new Map(pids.map((pid) => [pid, this.#read.residentKib(pid)]));
    this.#forget(resident);
    void this.#readAll(pids);
    const read = [...resident].filter(([pid]) => this.#figures.has(pid));
    const known = read.reduce((sum, [pid, kib]) => sum + this.#knownKib(pid, kib), 0);
    const unread = [...resident].filter(([pid]) => !this.#figures.has(pid));
    return known + this.#unreadKib(unread);
  }

  /** Also what processes that have ended meanwhile had used. */
  #addCpu(pids: readonly number[]): void {
    const cpuOf = new Map(pids.map((pid) => [pid, this.#read.cpuMs(pid)]));
    for (const [pid, cpuMs] of cpuOf) this.#cpuMs += Math.max(0, cpuMs - (this.#cpuOf.get(pid) ?? 0));
    this.#cpuOf = cpuOf;
  }

  #moment(): Moment {
    return { at: this.#read.now(), cpuMs: this.#cpuMs };
  }

  #isOlder({ at, cpuMs }: Moment, ms: number): boolean {
    return this.#read.now() - at > ms && this.#cpuMs - cpuMs > minCpuMs;
  }

  #forget(resident: ReadonlyMap<number, number>): void {
    for (const pid of this.#figures.keys()) {
      if (!resident.has(pid)) this.#figures.delete(pid);
    }
    this.#firstSeenKib = new Map([...resident].map(([pid, kib]) => [pid, this.#firstSeenKib.get(pid) ?? kib]));
  }

  #knownKib(pid: number, residentKib: number): number {
    const figure = this.#figures.get(pid);
    if (figure === undefined || this.#isOlder(figure, freshMs)) return residentKib;
    return Math.min(residentKib, figure.kib + Math.max(0, residentKib - figure.residentKib));
  }

  /** A fork begins with nothing of its own: for a moment only the largest counts, and what each has taken since. */
  #unreadKib(unread: readonly (readonly [number, number])[]): number {
    if (unread.length === 0) {
      this.#unreadSince = null;
      return 0;
    }
    this.#unreadSince ??= this.#moment();
    if (this.#isOlder(this.#unreadSince, newMs)) return unread.reduce((sum, [, kib]) => sum + kib, 0);
    const first = (pid: number): number => this.#firstSeenKib.get(pid) ?? 0;
    const taken = unread.reduce((sum, [pid, kib]) => sum + Math.max(0, kib - first(pid)), 0);
    return Math.max(...unread.map(([pid]) => first(pid))) + taken;
  }

  /** One after the other, those that were not read for the longest first. */
  async #readAll(pids: readonly number[]): Promise<void> {
    if (this.#isReading || this.#going.reads >= maxReaders) return;
    this.#isReading = true;
    this.#going.reads += 1;
    const readAt = (pid: number): number => this.#figures.get(pid)?.at ?? -Infinity;
    for (const pid of pids.toSorted((one, other) => readAt(one) - readAt(other))) {
      const [moment, residentKib] = [this.#moment(), this.#read.residentKib(pid)];
      this.#figures.set(pid, { ...moment, residentKib, kib: await this.#read.exactKib(pid) });
    }
    this.#isReading = false;
    this.#going.reads -= 1;
  }
}
