import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { freePortAnywhere } from '#scripts/infra/ports.ts';
import { type Bench, type Benchmark, count, digits, median, range, seconds } from './harness.ts';
import { processesAbout } from './proc.ts';

const runProgram = promisify(execFile);
const pollMs = 10;
const patienceMs = 300_000;

/** The environment of a newcomer's shell, without the additions of the benchmark's own stack and npm. */
const newcomersEnvironment = (env: NodeJS.ProcessEnv, own: Record<string, string>): NodeJS.ProcessEnv => {
  const foreign = /^(npm_(?!config_)|PLINTH_|DATABASE_URL$|REDIS_URL$|DATA_DIR$|PORT$|INIT_CWD$|NODE_|BENCH_)/;
  const kept = Object.entries(env).filter(([name]) => !foreign.test(name));
  const places = (env['PATH'] ?? '').split(path.delimiter);
  const PATH = places.filter((place) => !place.includes('node_modules') && !place.includes('node-gyp-bin'));
  return { ...Object.fromEntries(kept), ...own, PATH: PATH.join(path.delimiter) };
};

const answers = async (url: string): Promise<boolean> => {
  const response = await fetch(url).catch(() => null);
  await response?.body?.cancel();
  return response?.status === 200;
};

const endOf = async (child: ChildProcess): Promise<void> => {
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
};

interface Place {
  readonly clone: string;
  readonly env: NodeJS.ProcessEnv;
  readonly url: string;
  readonly logFile: string;
}

interface Stopped {
  /** Until the last process was gone. */
  readonly took: number;
  /** The processes that did not go. */
  readonly left: readonly number[];
}

interface Started {
  /** From `npm start` to the first 200, in seconds. */
  readonly took: number;
  /** Ctrl-C: the terminal sends it to the whole group, of which npm may be the first to leave. */
  readonly stop: () => Promise<Stopped>;
}

const maxStopMs = 20_000;

/** Waits until no process has to do with the folder; answers those that stay. */
const lastOf = async (folder: string): Promise<number[]> => {
  const until = performance.now() + maxStopMs;
  for (;;) {
    const left = processesAbout(folder);
    if (left.length === 0 || performance.now() > until) return left;
    await delay(pollMs);
  }
};

/** @throws {Error} with the end of its output when it ends, or takes five minutes */
const npmStart = async ({ clone, env, url, logFile }: Place, signal: AbortSignal): Promise<Started> => {
  const output = openSync(logFile, 'a');
  const began = performance.now();
  const child = spawn('npm', ['start'], { cwd: clone, env, detached: true, stdio: ['ignore', output, output] });
  closeSync(output);
  const interrupt = (): void => void (child.exitCode === null && process.kill(-(child.pid ?? 0), 'SIGINT'));
  const stop = async (): Promise<Stopped> => {
    const requested = performance.now();
    interrupt();
    await endOf(child);
    const left = await lastOf(path.dirname(clone));
    return { took: (performance.now() - requested) / 1000, left };
  };
  const giveUp = async (why: string): Promise<never> => {
    await stop();
    throw new Error(`npm start in a clone ${why}:\n${readFileSync(logFile, 'utf8').slice(-2000)}`);
  };
  while (!(await answers(`${url}/healthz`))) {
    if (signal.aborted) await giveUp('was interrupted');
    if (child.exitCode !== null) await giveUp(`ended with ${child.exitCode}`);
    if (performance.now() - began > patienceMs) await giveUp('did not serve in time');
    await delay(pollMs);
  }
  return { took: (performance.now() - began) / 1000, stop };
};

const placeIn = async (bench: Bench, folder: string): Promise<Place> => {
  const port = await freePortAnywhere();
  const own = { PORT: String(port), DATA_DIR: path.join(folder, 'data') };
  return {
    clone: path.join(folder, 'clone'),
    env: newcomersEnvironment(bench.env, own),
    url: `http://127.0.0.1:${port}`,
    logFile: path.join(folder, 'output.log'),
  };
};

interface Lesson {
  /** `git clone` included, in seconds. */
  readonly clean: number;
  readonly warm: number[];
  readonly stops: number[];
  /** Processes that were still there after a Ctrl-C. */
  readonly left: number;
}

const warmStarts = 5;

/** One newcomer: clones, starts, stops, starts again some times. */
const learn = async (bench: Bench, warmRounds: number): Promise<Lesson> => {
  const folder = await mkdtemp(path.join(tmpdir(), 'plinth-bench-'));
  const lesson = { clean: 0, warm: [] as number[], stops: [] as number[], left: 0 };
  try {
    const place = await placeIn(bench, folder);
    const began = performance.now();
    await runProgram('git', ['clone', '--quiet', bench.root, place.clone]);
    const cloned = (performance.now() - began) / 1000;
    for (let round = 0; round <= warmRounds; round += 1) {
      const { took, stop } = await npmStart(place, bench.signal);
      if (round === 0) lesson.clean = cloned + took;
      else lesson.warm.push(took);
      const stopped = await stop();
      lesson.stops.push(stopped.took);
      lesson.left += stopped.left.length;
    }
    return lesson;
  } finally {
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  }
};

export const start: Benchmark = {
  name: 'start',
  run: async (bench) => {
    const head = (await runProgram('git', ['rev-parse', '--short', 'HEAD'], { cwd: bench.root })).stdout.trim();
    // The first one fills npm's cache, if it was not filled.
    const first = await learn(bench, 0);
    bench.print(`first clean clone: ${digits(first.clean)} s`);
    const { clean, warm, stops, left } = await learn(bench, warmStarts);
    return [
      {
        name: 'clean clone to first 200',
        ours: seconds(clean),
        target: { of: 'ours', atMost: 60 },
        notes: [
          `\`git clone\` of ${head}, \`npm start\`, GET /healthz; npm's cache is warm`,
          `the pass before it: ${digits(first.clean)} s`,
        ],
      },
      {
        name: 'warm start to first 200',
        ours: seconds(median(warm)),
        target: { of: 'ours', atMost: 2 },
        notes: [`${warm.length} times \`npm start\` on the same data: ${range(warm)} s`],
      },
      {
        name: 'processes left after Ctrl-C',
        ours: count(left + first.left),
        target: { of: 'ours', atMost: 0 },
        notes: [`over ${stops.length + 1} stops; a stop takes ${range([...stops, ...first.stops])} s`],
      },
    ];
  },
};
