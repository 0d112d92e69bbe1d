import { setTimeout as delay } from 'node:timers/promises';

/** Asks until the answer is yes. A behaviour that never comes fails by the test's own time-out. */
export const until = async <T>(probe: () => T | Promise<T>): Promise<Exclude<T, null | undefined | false>> => {
  for (;;) {
    const answer = await probe();
    if (answer !== null && answer !== undefined && answer !== false) {
      return answer as Exclude<T, null | undefined | false>;
    }
    await delay(20);
  }
};
