/**
 * `npm run soak [-- [dashboard] [MINUTES]]`: hostile and honest functions at random, straight at the runtimes, or all
 * pages of the dashboard in a browser, for ten minutes unless said otherwise. Ends with 1 when anything was not as it
 * should be.
 */
import { rmSync } from 'node:fs';
import path from 'node:path';
import { environment, loadConfig } from '#lib/config.ts';
import { type BenchLanguage, benchLanguages } from '#bench/functions/languages.ts';
import { memoryOf } from '#bench/proc.ts';
import { StartError } from '#scripts/errors.ts';
import { provideBubblewrap } from '#scripts/infra/bubblewrap.ts';
import { newKeyRing } from '#scripts/made-secrets.ts';
import { narrateTo } from '#scripts/narrator.ts';
import { readSettings } from '#scripts/settings.ts';
import { withStack } from '#scripts/with-stack.ts';
import { processTree } from '#workers/runtimes/processes.ts';
import { onStage } from '../stage.ts';
import { soakCases } from './cases.ts';
import { soakDashboard } from './dashboard.ts';
import { mixUntil } from './mix.ts';

const root = path.resolve(import.meta.dirname, '../..');
const defaultMinutes = 10;
const manyRuns = 10_000;
const runnerGrowsByMb = 40;
const workerGrowsByMib = 250;

const given = process.argv.slice(2);
const isDashboard = given[0] === 'dashboard';
const minutes = Number(given[isDashboard ? 1 : 0] ?? defaultMinutes);
if (!(minutes > 0)) throw new StartError('usage: npm run soak [-- [dashboard] [MINUTES]]');

const heldMb = (pids: readonly number[]): number => pids.reduce((sum, pid) => sum + memoryOf(pid).pssMb, 0);

/** How much one runner grows, in MB, over many runs of the same function. */
const growth = async (language: BenchLanguage): Promise<number> => {
  const others = new Set(processTree(process.pid));
  const runtime = await language.open({ maxRunners: 1, maxRuns: 2 * manyRuns });
  const runner = processTree(process.pid).filter((pid) => !others.has(pid));
  const request = { projectId: 'p', functionId: 'f', version: 1, code: language.noOp, entryPoint: 'handler' };
  const limits = { payload: 'null', env: {}, timeoutMs: 10_000, memoryMib: 128 };
  const before = heldMb(runner);
  for (let n = 0; n < manyRuns; n += 1) {
    const { status } = await runtime.run({ ...request, ...limits });
    if (status !== 'success') throw new Error(`run ${n} ended with ${status}`);
  }
  const grown = heldMb(runner) - before;
  await runtime.close();
  return grown;
};

/** @returns what was wrong */
const soakOne = async (language: BenchLanguage, forMs: number): Promise<readonly string[]> => {
  const cases = soakCases[language.name];
  if (cases === undefined) return [];
  const others = new Set(processTree(process.pid));
  const runtime = await language.open({ maxRunners: 4 });
  const mix = await mixUntil(runtime, cases, performance.now() + forMs);
  await runtime.close();
  const grown = await growth(language);
  const left = processTree(process.pid).filter((pid) => !others.has(pid)).length;
  const { runs, hostile, grownMib } = mix;
  console.log(`${language.name} (${runtime.level}): ${runs} runs, ${hostile} of them hostile`);
  console.log(`  the worker grew by ${grownMib.toFixed(0)} MiB; processes left: ${left}`);
  console.log(`  ${manyRuns} runs made one runner grow by ${grown.toFixed(1)} MB`);
  return [
    ...mix.problems,
    ...(left > 0 ? [`${left} processes were left`] : []),
    ...(grownMib > workerGrowsByMib ? [`the worker grew by ${grownMib.toFixed(0)} MiB`] : []),
    ...(grown > runnerGrowsByMb ? [`a runner grew by ${grown.toFixed(1)} MB`] : []),
  ].map((problem) => `${language.name}: ${problem}`);
};

/** @returns the exit code */
const reported = (problems: readonly string[]): number => {
  for (const problem of problems) console.log(`WRONG: ${problem}`);
  console.log(problems.length === 0 ? 'Nothing was wrong.' : `${problems.length} things were wrong.`);
  return problems.length === 0 ? 0 : 1;
};

const soak = async (bwrapPath: string | null): Promise<number> => {
  // Nothing is connected to: the runtimes need the settings of the sandbox alone.
  const nobody = { DATABASE_URL: 'postgres://localhost/none', REDIS_URL: 'redis://localhost' };
  const settings = { ...nobody, PLINTH_SECRET_KEYS: newKeyRing(), ...environment() };
  const config = loadConfig({ ...settings, ...(bwrapPath !== null && { PLINTH_BWRAP: bwrapPath }) });
  const languages = await benchLanguages(config);
  const problems: string[] = [];
  for (const language of languages) {
    problems.push(...(await soakOne(language, (minutes * 60_000) / languages.length)));
  }
  return reported(problems);
};

const soakRuntimes = async (): Promise<number> => {
  const { runtimeDir } = readSettings(process.env, root);
  const dataDir = path.join(root, `.data-test-${process.pid}`);
  const place = {
    root,
    dataDir,
    runtimeDir,
    narrator: narrateTo(process.stderr),
    lockFile: path.join(dataDir, 'soak.pid'),
  };
  try {
    return await withStack({ ...place, drainMs: 3000, throwaway: true, durable: false }, async ({ site }) => {
      const bubblewrap = await provideBubblewrap(site);
      return soak(bubblewrap.found ? bubblewrap.path : null);
    });
  } finally {
    rmSync(dataDir, { recursive: true, force: true });
  }
};

process.exitCode = await (isDashboard
  ? onStage(async (stage) => reported(await soakDashboard(stage, minutes)))
  : soakRuntimes());
