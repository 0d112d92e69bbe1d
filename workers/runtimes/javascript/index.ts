import { readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { Log } from '#lib/log.ts';
import { outcomeOfNoStart } from '../outcome.ts';
import { NoRunner, RunnerPool } from '../pool.ts';
import { Runner } from '../runner.ts';
import { CPU_GRACE_MS, type RunOptions, type RunOutcome, type RunRequest, type Runtime } from '../runtime.ts';
import { SandboxUnavailable, type GuestCommand, type GuestFile, type Sandbox } from '../sandbox.ts';
import { Watchdog } from '../watchdog.ts';

const DEFAULT_MAX_RUNS = 5000;

export interface JavascriptOptions {
  readonly sandbox: Sandbox;
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
  const { sandbox, maxRunners, spares, log, maxRuns = DEFAULT_MAX_RUNS } = options;
  const guest = guestCommand();
  const tools = { watchdog: new Watchdog(), prlimit: sandbox.prlimit, cpuGraceMs: options.cpuGraceMs ?? CPU_GRACE_MS };
  const start = (slot: number): Runner => new Runner(sandbox.command(guest, slot), tools);
  const pool = new RunnerPool({ maxRunners, spares, maxRuns, start });
  try {
    await pool.warm();
  } catch (error) {
    await pool.close();
    throw new SandboxUnavailable(
      `JavaScript does not start in the sandbox; its files must be readable by every user: ` +
        `chmod -R a+rX '${join(import.meta.dirname, '../../..')}' (${String(error)})`,
    );
  }
  return {
    level: sandbox.level,
    run: (request, runOptions = {}) => runOnce(pool, log, request, runOptions),
    close: () => pool.close(),
  };
}

async function runOnce(
  pool: RunnerPool,
  log: JavascriptOptions['log'],
  request: RunRequest,
  options: RunOptions,
): Promise<RunOutcome> {
  let runner: Runner;
  try {
    runner = await pool.acquire(request.projectId, options.signal);
  } catch (error) {
    if (error instanceof NoRunner) return outcomeOfNoStart('cancelled', 'The run was cancelled.');
    log.error({ err: error }, 'no process for a function could be started');
    return outcomeOfNoStart('crashed', 'No process for the function could be started.');
  }
  try {
    const outcome = await runner.run(request, options);
    if (outcome.status === 'crashed') log.warn({ lastWords: runner.lastWords }, 'the process of a function crashed');
    if (!runner.dead && runner.heldMib() > request.memoryMib) runner.kill();
    return outcome;
  } finally {
    pool.release(runner);
  }
}

/** The guest: our own Node, the engine's addon and a few files of ours, each bound alone into `/app`. */
function guestCommand(): GuestCommand {
  const folder = join(import.meta.dirname, 'guest');
  const ours = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.cjs'))
    .map((name): GuestFile => ({ source: join(folder, name), target: `/app/guest/${name}` }));
  return {
    program: { source: process.execPath, target: '/app/node' },
    args: [...NODE_FLAGS, { source: join(folder, 'main.cjs'), target: '/app/guest/main.cjs' }, engineAddon()],
    files: ours,
    env: { TZ: 'UTC', LANG: 'C.UTF-8' },
  };
}

const NODE_FLAGS = [
  // isolated-vm does not work beside Node's start-up snapshot.
  '--no-node-snapshot',
  // Contexts of ended runs are collected at 8 MiB, not at 30: a runner that was used stays at half the size (25 MB of
  // its own against 45) and 10,000 runs take no longer.
  '--initial-old-space-size=8',
  '--max-old-space-size=128',
  '--v8-pool-size=2',
  '--disable-sigusr1',
  '--no-warnings',
];

/** isolated-vm's addon for the Node that runs us, found as the package itself finds it. */
function engineAddon(): GuestFile {
  const require = createRequire(import.meta.url);
  const manifest = require.resolve('isolated-vm/package.json');
  const { resolve } = createRequire(manifest)('node-gyp-build') as { resolve: (folder: string) => string };
  return { source: resolve(dirname(manifest)), target: '/app/isolated_vm.node' };
}
