import type { Egress } from '#lib/egress.ts';
import type { Log } from '#lib/log.ts';
import { createGuestProxy } from '../egress-proxy.ts';
import { createPooledRuntime } from '../pooled-runtime.ts';
import { Runner } from '../runner.ts';
import { type Runtime, defaultCpuGraceMs } from '../runtime.ts';
import { CpuShares } from '../cpu-shares.ts';
import type { Sandbox } from '../sandbox.ts';
import { Watchdog } from '../watchdog.ts';
import { guestCommand } from './guest-command.ts';
import { heldMemory } from './held-memory.ts';
import type { Interpreter } from '#domain/functions/python.ts';

export interface PythonOptions {
  readonly interpreter: Interpreter;
  readonly sandbox: Sandbox;
  /** The way out for HTTP. */
  readonly egress: Pick<Egress, 'check' | 'lookup' | 'dispatcher'>;
  /** The permits of the worker, which all its runtimes share; left out: permits of this runtime alone. */
  readonly cpuShares?: CpuShares;
  readonly maxRunners: number;
  readonly spares: number;
  readonly log: Pick<Log, 'warn' | 'error'>;
  /** A zygote is replaced after so many runs. */
  readonly maxRuns?: number;
  /** CPU time that a run may use beyond its time-out; 2 s unless a test says otherwise. */
  readonly cpuGraceMs?: number;
}

/**
 * The runtime for Python, with its spares warm.
 * @throws SandboxUnavailable when a runner cannot be started in this sandbox
 */
export async function createPythonRuntime(options: PythonOptions): Promise<Runtime> {
  const { sandbox, interpreter, egress } = options;
  const guest = guestCommand(interpreter, sandbox.level);
  const tools = {
    watchdog: new Watchdog(),
    cpuGraceMs: options.cpuGraceMs ?? defaultCpuGraceMs,
    cpuShares: options.cpuShares ?? new CpuShares(),
    measure: heldMemory(sandbox.level),
    network: createGuestProxy(egress),
  };
  const start = (slot: number, projectId?: string): Runner =>
    new Runner(sandbox.command(guest, slot), tools, projectId);
  return createPooledRuntime({ ...options, language: 'Python', start });
}
