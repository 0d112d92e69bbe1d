import { setTimeout as delay } from 'node:timers/promises';

/** So long that only what never comes is given up: a test that hangs would hang the whole run. */
const patienceMs = 100_000;

/** Asks until the answer is yes. */
export const until = async <T>(probe: () => T | Promise<T>): Promise<Exclude<T, null | undefined | false>> => {
  const deadline = Date.now() + patienceMs;
  for (;;) {
    const answer = await probe();
    if (answer !== null && answer !== undefined && answer !== false) {
      return answer as Exclude<T, null | undefined | false>;
    }
    if (Date.now() > deadline) throw new Error(`what was waited for did not come within ${patienceMs} ms`);
    await delay(20);
  }
};
