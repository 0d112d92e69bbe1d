import { mkdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { narrateTo } from '#scripts/narrator.ts';
import { readSettings } from '#scripts/settings.ts';
import { withStack } from '#scripts/with-stack.ts';
import { type Stage, openScene } from './scene.ts';
import type { Scenario } from './scenarios/scenario.ts';
import { startServers } from './servers.ts';
import { type Verdict, judge } from './verdict.ts';

const root = path.resolve(import.meta.dirname, '..');
const usualRestMs = 60_000;

/** Servers of their own and a folder that `work` leaves nothing in. Resolves with the exit code. */
export const onStage = async (work: (stage: Stage) => Promise<number>): Promise<number> => {
  const { runtimeDir } = readSettings(process.env, root);
  const dataDir = path.join(root, `.data-test-${process.pid}`);
  mkdirSync(dataDir, { recursive: true });
  const narrator = narrateTo(process.stderr);
  const place = { root, dataDir, runtimeDir, narrator, lockFile: path.join(dataDir, 'platform.pid') };
  try {
    return await withStack({ ...place, drainMs: 3000, throwaway: true, durable: true }, async (surroundings) =>
      work({ surroundings, servers: await startServers(surroundings), print: narrator.print }),
    );
  } finally {
    if (process.env['FAULTS_KEEP'] === undefined) rmSync(dataDir, { recursive: true, force: true, maxRetries: 5 });
  }
};

/** Runs one scenario to its rest and judges it. What it throws is a problem like any other. */
export const play = async (stage: Stage, scenario: Scenario): Promise<Verdict> => {
  const servers = (await scenario.servers?.(stage)) ?? stage.servers;
  const scene = await openScene({ ...stage, servers }, scenario.name);
  try {
    const problems = await scenario.run(scene).catch((error: unknown) => [`it could not be run: ${String(error)}`]);
    return await judge(scene, {
      did: scenario.did,
      isWitnessed: scenario.isWitnessed ?? true,
      restWithinMs: scenario.restWithinMs ?? usualRestMs,
      problems: problems ?? [],
    });
  } finally {
    await scene.close();
  }
};
