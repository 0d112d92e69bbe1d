import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { dataKib } from './processes.ts';

const run = promisify(execFile);

/** What the engine may take for itself before the kernel says no; the watchdog acts long before that. */
const ENGINE_MIB = 128;
const DEFAULT_FUNCTION_MIB = 256;
const LARGEST_FUNCTION_MIB = 1024;

/**
 * The kernel's own limit on a guest's memory, for what is faster than a watchdog. It is RLIMIT_DATA, counted from what
 * the guest held when it became ready: V8 reserves 1 GiB for machine code alone, which counts although nobody touches
 * it, and RLIMIT_AS would have to let 3 GB pass.
 */
export class MemoryBound {
  readonly #prlimit: string | null;
  #pid = 0;
  #baseMib = 0;
  #allowedMib = 0;

  constructor(prlimit: string | null) {
    this.#prlimit = prlimit;
  }

  /** Called when the guest waits for its first function. */
  async measure(pid: number): Promise<void> {
    this.#pid = pid;
    this.#baseMib = Math.ceil(dataKib(pid) / 1024);
    await this.allow(DEFAULT_FUNCTION_MIB);
  }

  /**
   * Lets the guest use as much. Raised when a function with a higher limit comes, never lowered: a change costs a
   * process (3 ms). Where the kernel does not let us, the watchdog stands alone.
   */
  async allow(memoryMib: number): Promise<void> {
    if (this.#prlimit === null || this.#baseMib === 0 || memoryMib <= this.#allowedMib) return;
    this.#allowedMib = memoryMib;
    const limit = `--data=${this.#bytes(memoryMib)}:${this.#bytes(LARGEST_FUNCTION_MIB)}`;
    await run(this.#prlimit, ['--pid', String(this.#pid), limit], { env: {} }).catch(() => undefined);
  }

  #bytes(memoryMib: number): number {
    return (this.#baseMib + ENGINE_MIB + memoryMib) * 1024 * 1024;
  }
}
