import { loadConfig } from '#lib/config.ts';
import { processTree } from '#workers/runtimes/processes.ts';
import type { Runtime } from '#workers/runtimes/runtime.ts';
import { type Benchmark, type Row, digits, megabytes } from '../harness.ts';
import { memoryOf } from '../proc.ts';
import { type BenchLanguage, benchLanguages } from './languages.ts';
import { expectAnswer, oneByOne } from './measure.ts';

const manyRuns = 10_000;
const growsByMb = 40;

/** Returns the memory of these processes in MB; shared pages are divided among all. */
const heldBy = (pids: readonly number[]): number => pids.reduce((sum, pid) => sum + memoryOf(pid).pssMb, 0);

const runOnce = async (runtime: Runtime, code: string): Promise<void> => {
  const request = { projectId: 'measured', functionId: 'measured', version: 1, code, entryPoint: 'handler' };
  const limits = { payload: 'null', env: {}, timeoutMs: 10_000, memoryMib: 128 };
  const { result, error } = await runtime.run({ ...request, ...limits });
  expectAnswer(result, 'null', error?.message);
};

const memoryRows = async ({ name, noOp, open, idleMb }: BenchLanguage): Promise<Row[]> => {
  const others = new Set(processTree(process.pid));
  const runtime = await open({ maxRunners: 1, maxRuns: 2 * manyRuns });
  // The spare, which the first call takes for its project.
  const runner = processTree(process.pid).filter((pid) => !others.has(pid));
  try {
    const idle = heldBy(runner);
    await oneByOne(manyRuns, () => runOnce(runtime, noOp));
    const grown = heldBy(runner) - idle;
    return [
      {
        name: `${name}: an idle runner (PSS)`,
        ours: megabytes(idle),
        target: { of: 'ours', atMost: idleMb },
        notes: ['the sandbox’s own processes included'],
      },
      {
        name: `${name}: what ${digits(manyRuns)} runs add to a runner`,
        ours: megabytes(grown),
        target: { of: 'ours', atMost: growsByMb },
        notes: ['the same process from the first run to the last'],
      },
    ];
  } finally {
    await runtime.close();
  }
};

export const functionMemory: Benchmark = {
  name: 'functions/memory',
  run: async (bench) => {
    const rows: Row[] = [];
    for (const language of await benchLanguages(loadConfig(bench.env))) rows.push(...(await memoryRows(language)));
    return rows;
  },
};
