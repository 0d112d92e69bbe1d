import type { Log } from './log.ts';
import { ConfigError, configExitCode } from './config.ts';

/** Notifies the supervisor (if there is one) that this process serves. */
export const notifyReady = (facts: Readonly<Record<string, unknown>> = {}): void => {
  process.send?.({ type: 'ready', ...facts });
};

/**
 * Stops once, whatever asks for it: SIGTERM, SIGINT without a supervisor, or a supervisor that went away.
 * @param drainMs after this long the process ends, finished or not
 */
export const stopOnSignal = (log: Log, drainMs: number, stop: () => Promise<void>): void => {
  let stopping = false;
  const begin = (why: string): void => {
    if (stopping) return;
    stopping = true;
    log.info({ why }, 'stopping');
    setTimeout(() => {
      log.warn({ drain_ms: drainMs }, 'the process did not stop in time');
      process.exit(0);
    }, drainMs).unref();
    stop()
      .catch((error: unknown) => log.error({ err: error }, 'stopping failed'))
      .finally(() => process.exit(0));
  };
  process.on('SIGTERM', () => begin('SIGTERM'));
  process.on('SIGINT', () => begin('SIGINT'));
  if (process.send !== undefined) process.on('disconnect', () => begin('the supervisor went away'));
};

/** Plain words for what a person can mend; the stack of anything else. */
const wordsOf = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error);
  if (error instanceof ConfigError) return error.message;
  const { code, port, address } = error as NodeJS.ErrnoException & { port?: number; address?: string };
  if (code === 'EADDRINUSE') return `Port ${port} of ${address} is taken.`;
  return error.stack ?? error.message;
};

const exitDelayMs = 100;

/**
 * Ends the process after a moment in the event loop. V8 compiles on a thread that may wait for a garbage collection by
 * this one; `process.exit` waits for that thread, and both would wait for ever: so did 1 of 12 starts with a wrong
 * setting.
 */
const exitSoon = (code: number): void => {
  setTimeout(() => process.exit(code), exitDelayMs);
};

/** Runs a process's `main`; what it cannot start with is said plainly. */
export const runMain = async (main: () => Promise<void>): Promise<void> => {
  try {
    await main();
  } catch (error) {
    process.stderr.write(`${wordsOf(error)}\n`);
    exitSoon(error instanceof ConfigError ? configExitCode : 1);
  }
};
