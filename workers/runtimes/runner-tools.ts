import type { CpuShares } from './cpu-shares.ts';
import type { ServeGuest } from './egress-proxy.ts';
import type { Measure, Watchdog } from './watchdog.ts';

/** The tools that the runners of one runtime share. */
export interface RunnerTools {
  readonly watchdog: Watchdog;
  /** CPU time allowed beyond the wall-clock time-out. */
  readonly cpuGraceMs: number;
  readonly cpuShares: CpuShares;
  readonly measure?: Measure;
  /** Given: the guest hands over a listener of its own before it is ready, and this serves it. */
  readonly network?: ServeGuest;
}
