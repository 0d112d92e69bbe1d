import { anonymousKib, cpuTimeMs, processTree } from './processes.ts';

const tickMs = 25;
const ticksPerCpu = 4;
/**
 * An engine frees buffers on another thread, a little after they became garbage: so long a guest may be over a little.
 */
const graceTicks = 2;
const graceKib = 32 * 1024;

export interface WatchLimits {
  readonly memoryKib: number;
  readonly cpuMs: number;
}

export interface WatchedProcess {
  /** The outermost process; everything below it counts. */
  readonly pid: number;
  /** The memory of the tree before any user code was loaded. */
  readonly idleKib: number;
  readonly idlePids: readonly number[];
  readonly measure?: Measure | undefined;
  /**
   * Called on the first tick and then ten times a second, with the processes that there are and the CPU time until
   * then.
   */
  readonly onProcesses?: (pids: readonly number[], cpuMs: number) => void;
}

/** How the memory of a guest is counted, where it is not simply what its processes hold. */
export interface Measure {
  /** A guest that starts processes by its nature is checked more closely. */
  readonly ticksPerTree: number;
  /** @param idlePids the processes that there were before any user code came in, the guest itself last */
  heldKib(pids: readonly number[], idlePids: readonly number[]): number;
}

const anonymousMemory: Measure = {
  // Such a guest makes no processes of its own unless it has broken out of its engine.
  ticksPerTree: 10,
  heldKib: (pids) => pids.reduce((sum, pid) => sum + anonymousKib(pid), 0),
};

export type Breach = 'memory_limit' | 'cpu_limit';

export interface Watch {
  readonly peakKib: number;
  readonly cpuMs: number;
  stop(): void;
}

/**
 * Measures the processes of running functions from outside, every 25 ms, by one timer for all. An engine's own memory
 * limit is no boundary: bombs were seen to exceed it four times over before it acted.
 */
export class Watchdog {
  readonly #watches = new Set<TreeWatch>();
  #timer: NodeJS.Timeout | null = null;

  watch(process: WatchedProcess, limits: WatchLimits, onBreach: (breach: Breach) => void): Watch {
    const watch = new TreeWatch(process, limits, onBreach, () => this.#remove(watch));
    this.#watches.add(watch);
    this.#timer ??= setInterval(() => this.#tick(), tickMs);
    return watch;
  }

  #tick(): void {
    for (const watch of this.#watches) watch.tick();
  }

  #remove(watch: TreeWatch): void {
    this.#watches.delete(watch);
    if (this.#watches.size > 0 || this.#timer === null) return;
    clearInterval(this.#timer);
    this.#timer = null;
  }
}

class TreeWatch implements Watch {
  readonly #process: WatchedProcess;
  readonly #limits: WatchLimits;
  readonly #onBreach: (breach: Breach) => void;
  readonly #onStop: () => void;
  #isSeen = false;
  #ticks = 0;
  #ticksOver = 0;
  #pids: number[] = [];
  #cpuAtStart = 0;
  peakKib = 0;
  cpuMs = 0;

  constructor(process: WatchedProcess, limits: WatchLimits, onBreach: (breach: Breach) => void, onStop: () => void) {
    this.#process = process;
    this.#limits = limits;
    this.#onBreach = onBreach;
    this.#onStop = onStop;
  }

  /**
   * Most runs are over within milliseconds. One that began between two ticks is measured from its second tick on: a run
   * of 2 ms that lay over a tick cost 20 reads of /proc.
   */
  tick(): void {
    if (!this.#isSeen) {
      this.#isSeen = true;
      return;
    }
    const { measure = anonymousMemory, idlePids, idleKib } = this.#process;
    if (this.#ticks % measure.ticksPerTree === 0) this.#pids = processTree(this.#process.pid);
    if (this.#ticks % ticksPerCpu === 0) this.#process.onProcesses?.(this.#pids, this.cpuMs);
    if (this.#ticks === 0) this.#cpuAtStart = this.#cpuNow();
    this.#ticks += 1;
    const heldKib = measure.heldKib(this.#pids, idlePids) - idleKib;
    this.peakKib = Math.max(this.peakKib, heldKib);
    const isOver = heldKib > this.#limits.memoryKib;
    this.#ticksOver = isOver ? this.#ticksOver + 1 : 0;
    if (this.#ticksOver > graceTicks || heldKib > this.#limits.memoryKib + graceKib) {
      this.#onBreach('memory_limit');
    } else if (this.#ticks % ticksPerCpu === 0) {
      this.cpuMs = Math.max(this.cpuMs, this.#cpuNow() - this.#cpuAtStart);
      if (this.cpuMs > this.#limits.cpuMs) this.#onBreach('cpu_limit');
    }
  }

  stop(): void {
    this.#onStop();
  }

  #cpuNow(): number {
    return this.#pids.reduce((sum, pid) => sum + cpuTimeMs(pid), 0);
  }
}
