import { join } from 'node:path';
import type { Log } from '#lib/log.ts';
import { outcomeOfNoStart } from './outcome.ts';
import { NoRunner, RunnerPool } from './pool.ts';
import type { Runner } from './runner.ts';
import type { RunOptions, RunOutcome, RunRequest, Runtime } from './runtime.ts';
import { type Sandbox, SandboxUnavailable } from './sandbox.ts';

const defaultMaxRuns = 5000;

export interface PooledRuntimeOptions {
  /** For people: `JavaScript`. */
  readonly language: string;
  readonly sandbox: Sandbox;
  /** Processes that belong to projects; at least as many as runs are started at a time. */
  readonly maxRunners: number;
  /** Warm processes for projects that have none yet. */
  readonly spares: number;
  readonly log: Pick<Log, 'warn' | 'error'>;
  /** A process is replaced after so many runs. */
  readonly maxRuns?: number;
  /** Starts a process, for a project or to be a spare. The slot is free among all that are alive. */
  readonly start: (slot: number, projectId?: string) => Runner;
}

/**
 * A runtime whose runs share a pool of processes, with its spares warm.
 * @throws SandboxUnavailable when a runner cannot be started in this sandbox
 */
export async function createPooledRuntime(options: PooledRuntimeOptions): Promise<Runtime> {
  const { language, sandbox, maxRunners, spares, log, maxRuns = defaultMaxRuns, start } = options;
  const pool = new RunnerPool({ maxRunners, spares, maxRuns, start });
  try {
    await pool.warm();
  } catch (error) {
    await pool.close();
    const mend = `its files must be readable by every user: chmod -R a+rX '${join(import.meta.dirname, '../..')}'`;
    const hint = sandbox.level === 'strict' ? `; ${mend}` : '';
    throw new SandboxUnavailable(`${language} does not start in the sandbox${hint} (${String(error)})`);
  }
  return {
    level: sandbox.level,
    run: (request, runOptions = {}) => runOnce(pool, log, request, runOptions),
    close: () => pool.close(),
  };
}

/** A runner with room for the request: one that has not enough is replaced, and a new one always has. */
async function suitable(pool: RunnerPool, request: RunRequest, options: RunOptions): Promise<Runner> {
  for (;;) {
    const runner = await pool.acquire(request.projectId, options);
    if (runner.suits(request)) return runner;
    runner.kill();
    pool.release(runner);
  }
}

async function runOnce(
  pool: RunnerPool,
  log: PooledRuntimeOptions['log'],
  request: RunRequest,
  options: RunOptions,
): Promise<RunOutcome> {
  let runner: Runner;
  try {
    runner = await suitable(pool, request, options);
  } catch (error) {
    if (error instanceof NoRunner) return outcomeOfNoStart('cancelled', 'The run was cancelled.');
    log.error({ err: error }, 'no process for a function could be started');
    return outcomeOfNoStart('crashed', 'No process for the function could be started.');
  }
  try {
    const outcome = await runner.run(request, options);
    if (outcome.status === 'crashed') log.warn({ lastWords: runner.lastWords }, 'the process of a function crashed');
    return outcome;
  } finally {
    pool.release(runner);
  }
}
