import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { memory, projectRead } from './api.ts';
import { aiBenchmarks } from './ai.ts';
import { authBenchmarks } from './auth.ts';
import { oauthBenchmarks } from './oauth.ts';
import { callBenchmarks } from './calls.ts';
import { cliBenchmark } from './cli.ts';
import { cronTick } from './cron.ts';
import { dashboardBenchmark } from './dashboard.ts';
import { dataBenchmarks } from './data.ts';
import { emailSending } from './email.ts';
import { flagBenchmarks } from './flags.ts';
import { functionBenchmarks } from './functions.ts';
import type { Bench, Benchmark, Row } from './harness.ts';
import { jobBenchmarks } from './jobs.ts';
import { describeMachine, loadAverage } from './machine.ts';
import { type NoiseOptions, noiseBenchmarks, victimsBy } from './noise.ts';
import { projectCreate, projectCreateAtOnce } from './projects.ts';
import { createServers } from './servers.ts';
import { start } from './start.ts';
import { storageBenchmarks } from './storage.ts';
import { linesOf, tableOf } from './table.ts';
import { webhookBenchmarks } from './webhooks.ts';

/** In the order in which they run. A new area adds its file here. */
const benchmarksOf = (million: boolean, noise: NoiseOptions): readonly Benchmark[] => [
  start,
  memory,
  projectRead,
  projectCreate,
  projectCreateAtOnce,
  ...functionBenchmarks,
  ...callBenchmarks,
  ...jobBenchmarks(million),
  cronTick,
  ...webhookBenchmarks(million),
  emailSending,
  ...dataBenchmarks,
  ...authBenchmarks,
  ...oauthBenchmarks,
  ...flagBenchmarks,
  ...storageBenchmarks,
  cliBenchmark,
  dashboardBenchmark,
  ...aiBenchmarks,
  ...noiseBenchmarks(noise),
];

/**
 * `[NAME …] [--million] [--vs plain] [--short] [--victims read,chat]`: benchmarks whose names hold one of the words, or
 * all. `--million` piles up a million jobs in place of a hundred thousand. `--vs` names what the job engine is measured
 * against. `--short` and `--victims` are the noise matrix's: a third of the time, and only these columns.
 */
const chosenBy = (args: string[]): { readonly all: readonly Benchmark[]; readonly chosen: readonly Benchmark[] } => {
  const { values, positionals } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      million: { type: 'boolean', default: false },
      vs: { type: 'string', default: 'plain' },
      short: { type: 'boolean', default: false },
      victims: { type: 'string' },
    },
  });
  if (values.vs !== 'plain') throw new Error('--vs takes: plain (BullMQ alone)');
  const all = benchmarksOf(values.million, { short: values.short, victims: victimsBy(values.victims) });
  const isChosen = ({ name }: Benchmark): boolean => positionals.some((word) => name.includes(word));
  return { all, chosen: positionals.length === 0 ? all : all.filter(isChosen) };
};

interface Outcome {
  readonly rows: readonly Row[];
  readonly failures: readonly string[];
}

const runAll = async (chosen: readonly Benchmark[], bench: Bench): Promise<Outcome> => {
  const rows: Row[] = [];
  const failures: string[] = [];
  for (const { name, run } of chosen) {
    if (bench.signal.aborted) break;
    bench.print(`${name} …`);
    try {
      rows.push(...(await run(bench)));
    } catch (error) {
      failures.push(`${name} could not be measured: ${error instanceof Error ? error.message : String(error)}`);
    } finally {
      await bench.servers.stopAll();
    }
  }
  return { rows, failures };
};

const interruption = (stop: () => Promise<void>): AbortSignal => {
  const controller = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      controller.abort();
      void stop();
    });
  }
  return controller.signal;
};

const main = async (args: string[]): Promise<number> => {
  const { all, chosen } = chosenBy(args);
  if (chosen.length === 0) {
    console.error(`There is no benchmark of that name. There are: ${all.map(({ name }) => name).join(', ')}`);
    return 2;
  }
  const root = path.resolve(import.meta.dirname, '..');
  const folder = await mkdtemp(path.join(tmpdir(), 'plinth-bench-'));
  const profileFolder = process.env['BENCH_PROFILE'];
  const servers = createServers({ root, env: process.env, folder, profileFolder });
  const signal = interruption(servers.stopAll);
  try {
    const machine = await describeMachine(process.env);
    const loadBefore = loadAverage();
    const bench = { root, env: process.env, folder, servers, signal, print: (line: string) => console.error(line) };
    const { rows, failures } = await runAll(chosen, bench);
    // The run itself adds 2 to 3 until its end; what is above that, and all of it before, is somebody else's.
    const load = `load average ${loadBefore} before, ${loadAverage()} after`;
    console.log(['', ...machine, load, '', tableOf(rows), ...linesOf(rows), '', ...failures].join('\n'));
    return failures.length > 0 || signal.aborted ? 1 : 0;
  } finally {
    await servers.stopAll();
    await rm(folder, { recursive: true, force: true });
  }
};

process.exitCode = await main(process.argv.slice(2));
