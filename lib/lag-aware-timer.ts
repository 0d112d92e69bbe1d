import { loopLagged, watchLoop } from './loop-lag.ts';

/** The number of times that a caller waits at most while this process lags. */
const maxWaits = 3;

/**
 * Calls `giveUp` after `ms`, unless the returned function is called before. Timers come before sockets in the event
 * loop: in a process that lags, a time-out is over before the answer is read that has arrived long ago. So there is no
 * verdict while this process's own event loop lags: then it waits as long again, three times at most.
 */
export const giveUpAfter = (
  ms: number,
  giveUp: () => void,
  lagged: (withinMs: number) => boolean = loopLagged,
): (() => void) => {
  watchLoop();
  let waits = 0;
  let timer: NodeJS.Timeout | undefined;
  const wait = (): void => {
    waits += 1;
    timer = setTimeout(() => (waits < maxWaits && lagged(ms) ? wait() : giveUp()), ms);
  };
  wait();
  return () => clearTimeout(timer);
};
