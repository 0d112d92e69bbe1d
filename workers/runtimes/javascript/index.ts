import { LRUCache } from 'lru-cache';
import type { Log } from '#lib/log.ts';
import { createPooledRuntime } from '../pooled-runtime.ts';
import { Runner } from '../runner.ts';
import { type Runtime, defaultCpuGraceMs } from '../runtime.ts';
import { CpuShares } from '../cpu-shares.ts';
import type { Sandbox } from '../sandbox.ts';
import { Watchdog } from '../watchdog.ts';
import { guestCommand } from './guest-command.ts';

export interface JavascriptOptions {
  readonly sandbox: Sandbox;
  /** The permits of the worker, which all its runtimes share; left out: permits of this runtime alone. */
  readonly cpuShares?: CpuShares;
  /** Processes that belong to projects; at least as many as runs are started at a time. */
  readonly maxRunners: number;
  /** Warm processes for projects that have none yet. */
  readonly spares: number;
  readonly log: Pick<Log, 'warn' | 'error'>;
  /** A process is replaced after so many runs. */
  readonly maxRuns?: number;
  /** CPU time that a run may use beyond its time-out; 2 s unless a test says otherwise. */
  readonly cpuGraceMs?: number;
}

/**
 * The runtime for JavaScript, with its spares warm.
 * @throws SandboxUnavailable when a runner cannot be started in this sandbox
 */
export async function createJavascriptRuntime(options: JavascriptOptions): Promise<Runtime> {
  const { sandbox } = options;
  const guest = guestCommand();
  const tools = {
    watchdog: new Watchdog(),
    cpuGraceMs: options.cpuGraceMs ?? defaultCpuGraceMs,
    cpuShares: options.cpuShares ?? new CpuShares(),
    notAhead: new LRUCache<string, true>({ max: 10_000 }),
  };
  const start = (slot: number, projectId?: string): Runner =>
    new Runner(sandbox.command(guest, slot), tools, projectId);
  return createPooledRuntime({ ...options, language: 'JavaScript', start });
}
