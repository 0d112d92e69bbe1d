import type { GateRules } from './types.ts';
import type { ShardGate } from './shard-gate.ts';
import type { Share } from './types.ts';

interface Read {
  readonly pauses: readonly string[];
  readonly globalLimit: number | null;
  readonly limits: ReadonlyMap<string, Share>;
}

const textOf = ({ pauses, limits, globalLimit }: Read): string =>
  JSON.stringify([globalLimit, pauses.toSorted(), [...limits].toSorted(([a], [b]) => (a < b ? -1 : 1))]);

const maxTries = 5;

/**
 * Gives a shard the rules as Postgres has them, and reads them again: a change that was made in between, and given to
 * the gate before, must not be undone by what was read earlier.
 */
export const settleRules = async (
  gate: ShardGate,
  rules: GateRules,
  of: { readonly type: string; readonly projects: readonly string[] },
): Promise<void> => {
  const read = async (): Promise<Read> => ({
    pauses: await rules.pausesOf(of.type),
    globalLimit: await rules.globalLimitOf(of.type),
    limits: of.projects.length > 0 ? await rules.limitsOf(of.type, of.projects) : new Map<string, Share>(),
  });
  let now = await read();
  for (let tries = 0; tries < maxTries; tries += 1) {
    await gate.setGlobalLimit(now.globalLimit);
    await gate.setPauses(now.pauses);
    await gate.setLimits(now.limits);
    const then = await read();
    if (textOf(then) === textOf(now)) return;
    now = then;
  }
};
