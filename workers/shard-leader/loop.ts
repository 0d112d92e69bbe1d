/** Work that is done over and over, one round after the other. */
export interface Loop {
  /** Resolves when the round under way is over; none begins any more. */
  readonly stop: () => Promise<void>;
}

/**
 * Runs at once, and again `everyMs` after the end of each round.
 * @param onFailure hears of the first of several failures in a row
 */
export const startLoop = (
  round: () => Promise<unknown>,
  everyMs: number,
  onFailure: (error: unknown) => void,
): Loop => {
  let timer: NodeJS.Timeout | undefined;
  let running = Promise.resolve();
  let stopped = false;
  let failing = false;

  const attempt = async (): Promise<void> => {
    try {
      await round();
      failing = false;
    } catch (error) {
      if (!failing) onFailure(error);
      failing = true;
    }
    if (!stopped) timer = setTimeout(run, everyMs).unref();
  };
  const run = (): void => {
    running = attempt();
  };
  run();

  return {
    stop: () => {
      stopped = true;
      clearTimeout(timer);
      return running;
    },
  };
};
