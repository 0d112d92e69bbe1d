import { giveUpAfter } from './lag-aware-timer.ts';

/** Whether a check resolves within the time; longer, while this process's own event loop lags (`giveUpAfter`). */
export const answersWithin = async (
  check: Promise<unknown>,
  ms: number,
  lagged?: (withinMs: number) => boolean,
): Promise<boolean> => {
  const answered = check.then(
    () => true,
    () => false,
  );
  const late = Promise.withResolvers<false>();
  const cancel = giveUpAfter(ms, () => late.resolve(false), lagged);
  try {
    return await Promise.race([answered, late.promise]);
  } finally {
    cancel();
  }
};
