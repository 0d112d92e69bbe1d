import { setTimeout as delay } from 'node:timers/promises';
import { type Account, type Answer, type Call, call, callOk, openAccount } from './account.ts';
import type { Effect } from './shapes.ts';

/** The environment of an abuse: a Free project of an account of its own, and a count of the results of its calls. */
export interface Ground {
  readonly account: Account;
  /** Keys of the project: rate limits count by key, and an abuser has several. */
  readonly keys: readonly string[];
  readonly tally: Map<string, number>;
  /** Aborted when the abuse ends. */
  readonly signal: AbortSignal;
}

/** An abuse that is prepared and does nothing yet. */
export interface Attack {
  /** Resolves when the abuse is in full course; it goes on until the ground's signal. */
  readonly begin: () => Promise<void>;
  readonly effect: () => Promise<Effect>;
}

/** Deploys, creates and fills what it needs. */
export type Abuse = (ground: Ground) => Promise<Attack>;

const keyCount = 5;

export const openGround = async (url: string, signal: AbortSignal): Promise<Ground> => {
  const account = await openAccount(url, 'free');
  const { headers, projectId, keyHeaders } = account;
  const keys = [keyHeaders['apikey'] ?? ''];
  while (keys.length < keyCount) {
    const json = { name: `key ${keys.length}`, kind: 'secret' };
    const path = `/projects/${projectId}/api-keys`;
    keys.push((await callOk<{ api_key: string }>(url, { path, headers, json })).api_key);
  }
  return { account, keys, tally: new Map(), signal };
};

export const note = ({ tally }: Pick<Ground, 'tally'>, what: string): void => {
  tally.set(what, (tally.get(what) ?? 0) + 1);
};

export const countOf = ({ tally }: Pick<Ground, 'tally'>, what: string): number => tally.get(what) ?? 0;

/** One call of the abuser; null when it has no answer. What came of it is counted. */
export const strike = async (ground: Ground, of: Call): Promise<Answer | null> => {
  note(ground, 'calls');
  try {
    const answer = await call(ground.account.url, { ...of, signal: ground.signal });
    note(ground, `answered ${answer.status}`);
    return answer;
  } catch {
    if (!ground.signal.aborted) note(ground, 'cut off');
    return null;
  }
};

const refusedPauseMs = 100;

/** Waits so long, or until the abuse ends. */
export const rest = (ms: number, signal: AbortSignal): Promise<void> =>
  delay(ms, undefined, { signal }).catch(() => undefined);

/** So many callers, each without a pause between its calls but for a short one after a refusal. */
export const keepStriking = (
  ground: Ground,
  callers: number,
  next: (caller: number) => Call,
  pauseMs = refusedPauseMs,
): void => {
  const caller = async (number: number): Promise<void> => {
    while (!ground.signal.aborted) {
      const answer = await strike(ground, next(number));
      if (answer === null || answer.status >= 400) await rest(pauseMs, ground.signal);
    }
  };
  for (let number = 0; number < callers; number += 1) void caller(number);
};

/** How long an abuse may take to come into full course. */
const maxRiseMs = 15_000;
const pollMs = 20;

/** Resolves when it is so, or after 15 s: `effect` says how far it came. */
export const until = async (isSo: () => boolean, signal: AbortSignal): Promise<void> => {
  const end = performance.now() + maxRiseMs;
  while (!isSo() && performance.now() < end && !signal.aborted) await rest(pollMs, signal);
};

/** All counts, and what is missing unless one of them reached its least. */
export const effectOf = (
  { tally }: Pick<Ground, 'tally'>,
  atLeast: Readonly<Record<string, number>>,
  more: Readonly<Record<string, number>> = {},
): Effect => {
  const facts = { ...Object.fromEntries(tally), ...more };
  const wanted = Object.entries(atLeast);
  const isMet = wanted.some(([name, min]) => (facts[name] ?? 0) >= min);
  return { facts, missing: isMet ? null : wanted.map(([name, min]) => `${name} ≥ ${min}`).join(' or ') };
};

/** The ordinary abuse: callers that repeat a call. It is in full course after the first answers. */
export const striking = (ground: Ground, callers: number, next: (caller: number) => Call): Attack => ({
  begin: async () => {
    keepStriking(ground, callers, next);
    await until(() => countOf(ground, 'calls') >= callers, ground.signal);
    await rest(1000, ground.signal);
  },
  effect: async () => effectOf(ground, { calls: callers }),
});
