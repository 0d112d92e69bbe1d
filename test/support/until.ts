import { setTimeout as delay } from 'node:timers/promises';
import { patienceMs } from './time-outs.ts';

/** Asks until the answer is yes. What never comes is given up: a test that hangs would hang the whole run. */
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
