import { Client } from 'pg';
import { connectTimes } from './connect-times.ts';
import { loopLagged, watchLoop } from './loop-lag.ts';

const patienceMs = 1000;
const usualProbeMs = 700;
/** The time that a probe may take: longer where connections are slow. */
export const probeMs = (): number => connectTimes.patience(usualProbeMs);

const probe = async (url: string): Promise<boolean> => {
  const withinMs = probeMs();
  const client = new Client({ connectionString: url, connectionTimeoutMillis: withinMs, query_timeout: withinMs });
  const deadline = Promise.withResolvers<false>();
  const timer = setTimeout(() => deadline.resolve(false), withinMs);
  // A connection that breaks is an answer of the query below.
  client.on('error', () => undefined);
  const began = performance.now();
  const answers = client
    .connect()
    .then(() => client.query('select 1'))
    .then(() => connectTimes.note(performance.now() - began))
    .then(
      () => true,
      // Refused because there are too many connections: it is there, and busy.
      (error: unknown) => Reflect.get(error as object, 'code') === '53300',
    );
  try {
    return await Promise.race([answers, deadline.promise]);
  } finally {
    clearTimeout(timer);
    void client.end().catch(() => undefined);
  }
};

/**
 * Distinguishes a server that is gone silently (a network that swallows packets, a machine that hangs) from a slow
 * statement: after a second without an answer one new connection is tried, for all waiting statements. If that one is
 * not answered either, they fail, within 2 s of their start where connections are fast; otherwise, and while this
 * process itself lags, they go on waiting.
 * @param of the address of a database, or another way to find out whether its server answers within {@link probeMs}
 */
export const createSilenceWatch = (
  of: string | (() => Promise<boolean>),
  lagged = loopLagged,
): (<T>(answer: Promise<T>) => Promise<T>) => {
  watchLoop();
  let probing: Promise<boolean> | undefined;
  const isAlive = (): Promise<boolean> =>
    (probing ??= (typeof of === 'string' ? probe(of) : of()).finally(() => {
      probing = undefined;
    }));

  return async (answer) => {
    const silence = Promise.withResolvers<never>();
    let timer: NodeJS.Timeout | undefined;
    let waiting = true;
    const wait = (): void => {
      timer = setTimeout(() => void sendProbe(), patienceMs);
    };
    const sendProbe = async (): Promise<void> => {
      const alive = await isAlive();
      if (!waiting) return;
      // A probe whose answer this process was too slow to read proves nothing; the statement's own time-out still ends
      // it.
      if (alive || lagged()) wait();
      else silence.reject(new Error('Connection terminated: the database does not answer'));
    };
    wait();
    try {
      return await Promise.race([answer, silence.promise]);
    } finally {
      waiting = false;
      clearTimeout(timer);
      // An error of a connection that was given up must not become an unhandled rejection.
      answer.catch(() => undefined);
    }
  };
};
