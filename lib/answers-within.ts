import { loopLagged } from './loop-lag.ts';

/** Waits so often at most while this process lags. */
const maxWaits = 3;

/**
 * Whether a check resolves within the time. There is no verdict while this process's own event loop lags: then it waits as
 * long again, three times at most.
 */
export const answersWithin = async (
  check: Promise<unknown>,
  ms: number,
  lagged: (withinMs: number) => boolean = loopLagged,
): Promise<boolean> => {
  const answered = check.then(
    () => true,
    () => false,
  );
  for (let waits = 1; ; waits += 1) {
    const late = Promise.withResolvers<'late'>();
    const timer = setTimeout(() => late.resolve('late'), ms);
    const found = await Promise.race([answered, late.promise]);
    clearTimeout(timer);
    if (found !== 'late') return found;
    if (waits === maxWaits || !lagged(ms)) return false;
  }
};
