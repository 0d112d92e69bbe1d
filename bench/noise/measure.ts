import type { Bench } from '../harness.ts';
import { type Child, withChildren } from '../jobs/child.ts';
import { onControlDatabase } from '../jobs/database.ts';
import { removeKeys } from '../jobs/round.ts';
import type { AbuseName } from './abuses/all.ts';
import type { AbusePlan } from './abuser.ts';
import { type NoisePlatform, startPlatform, takeStalls, waitedMs } from './platform.ts';
import { lowerPriority } from './priority.ts';
import { untilQuiet } from './quiet.ts';
import type { Cell, Effect, Slice, SlicePlan, Victim } from './shapes.ts';

export interface NoiseOptions {
  /** Slices of a third, so that one sees whether it works. */
  readonly short: boolean;
  readonly victims: readonly Victim[];
}

/** One row of the matrix. */
export interface Fared {
  readonly cells: readonly Cell[];
  readonly effect: Effect;
  /** By process: the share of the time beside the abuse in which its main thread waited for a processor. */
  readonly waited: Readonly<Record<string, number>>;
}

/** Slower calls have a longer slice, so that each victim has some ten calls in it. */
const sliceSeconds: Readonly<Record<Victim, number>> = {
  read: 1,
  webhook: 1.8,
  invoke: 1,
  chat: 1,
  create: 2,
  'sign-in': 1.4,
};

/** The length of the first round beside the abuse, when a second one is to follow; without stalls it takes 9 s. */
const maxRoundMs = 30_000;
/** After the abuse, until what it left behind is done. */
const maxRestMs = 8000;

/** The warm-up of a round: calls before the first slice do not count. */
const warmUpScale = 0.4;

interface Measured extends Slice {
  readonly apiMs: number;
  readonly workerMs: number;
}

type Round = ReadonlyMap<Victim, Measured>;

interface Scene {
  readonly platform: NoisePlatform;
  readonly victim: Child;
  readonly options: NoiseOptions;
}

/** Each victim for its slice, one after the other. */
const measureRound = async ({ platform, victim, options }: Scene, scale = 1): Promise<Round> => {
  const round = new Map<Victim, Measured>();
  // The question before each slice takes away what was before it.
  await takeStalls(platform);
  for (const name of options.victims) {
    const seconds = sliceSeconds[name] * scale * (options.short ? 1 / 3 : 1);
    const slice = await victim.ask<Slice>('measure', { victim: name, seconds } satisfies SlicePlan);
    round.set(name, { ...slice, ...(await takeStalls(platform)) });
  }
  return round;
};

const cellOf = (victim: Victim, alone: readonly Round[], beside: readonly Round[]): Cell => {
  const of = (rounds: readonly Round[]): Measured[] => rounds.flatMap((round) => round.get(victim) ?? []);
  const [quiet, noisy] = [of(alone), of(beside)];
  const stalls = quiet.flatMap(({ apiMs, workerMs }) => [apiMs, workerMs]);
  return {
    victim,
    alone: quiet.flatMap(({ latencies }) => latencies),
    beside: noisy.flatMap(({ latencies }) => latencies),
    errors: noisy.reduce((sum, { errors }) => sum + errors, 0),
    firstError: noisy.find(({ firstError }) => firstError !== null)?.firstError ?? null,
    apiStallMs: Math.max(...noisy.map(({ apiMs }) => apiMs)),
    workerStallMs: Math.max(...noisy.map(({ workerMs }) => workerMs)),
    aloneStallMs: Math.max(...stalls),
  };
};

const waitsOf = ({ processes }: NoisePlatform): Map<string, number> =>
  new Map(processes.map((process) => [process.name, waitedMs(process)]));

/** Half of the alone-rounds before the abuse and half behind it: what drifts evenly falls on both sides alike. */
const measureAround = async (scene: Scene, abuser: Child): Promise<Fared> => {
  const { platform } = scene;
  await measureRound(scene, warmUpScale);
  const before = await measureRound(scene);
  await abuser.ask('begin');
  // Not before: who floods should be done in time.
  lowerPriority(abuser.pid);
  const [began, waitsBefore] = [performance.now(), waitsOf(platform)];
  const beside = [await measureRound(scene)];
  // With calls that wait for seconds one round says it all.
  if (performance.now() - began < maxRoundMs) beside.push(await measureRound(scene));
  const passed = performance.now() - began;
  const waited = Object.fromEntries(
    [...waitsOf(platform)].map(([name, ms]) => [name, (ms - (waitsBefore.get(name) ?? Number.NaN)) / passed]),
  );
  const effect = await abuser.ask<Effect>('effect');
  await abuser.ask('end');
  await abuser.stop();
  await untilQuiet(process.ppid, maxRestMs);
  const behind = await measureRound(scene);
  const cells = scene.options.victims.map((victim) => cellOf(victim, [before, behind], beside));
  return { cells, effect, waited };
};

/** A platform of its own for each abuse, so that nothing of an earlier one is left. */
export const measureNoise = (bench: Bench, abuse: AbuseName, options: NoiseOptions): Promise<Fared> =>
  onControlDatabase(bench, (databaseUrl) =>
    withChildren(
      bench,
      async (start) => {
        const platform = await startPlatform(bench, databaseUrl);
        try {
          const { url } = platform;
          const [victim, abuser] = [start('victim'), start('abuser', { detached: true })];
          await victim.ask('prepare', url);
          await abuser.ask('prepare', { abuse, url } satisfies AbusePlan);
          return await measureAround({ platform, victim, options }, abuser);
        } finally {
          await bench.servers.stopAll();
          await removeKeys(bench, platform.prefix);
        }
      },
      'noise',
    ),
  );
