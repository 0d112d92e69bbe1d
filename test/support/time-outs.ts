import { optionalTestEnv } from './env.ts';

/** How many times as long as on an idle machine work takes here, as `npm test` measured it before the tests. */
const slowness = Number(optionalTestEnv('PLINTH_TEST_SLOWNESS') ?? 1);

/** How long a test waits for one thing: so long that only what never comes is given up. */
export const patienceMs = Math.round(100_000 * slowness);

/** The limit of a test that waits for several things in turn. */
export const longTestMs = 2 * patienceMs;

/** The limit of a test that goes through a whole fault, from before it until all is well again. */
export const faultTestMs = 3 * patienceMs;

/** The time after which a file that reports nothing hangs: longer than any test's limit, shorter than ava's for a run. */
export const testSilenceMs = Math.round(315_000 * slowness);
