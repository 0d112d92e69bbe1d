import type { LRUCache } from 'lru-cache';
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
  /** Functions whose module a guest did not survive storing. Left out: no module is evaluated ahead of its runs. */
  readonly notAhead?: LRUCache<string, true>;
  /** Given: the guest hands over a listener of its own before it is ready, and this serves it. */
  readonly network?: ServeGuest;
}
