import { createServer } from 'node:net';
import { PortTaken, StartError } from '../errors.ts';

const host = '127.0.0.1';
const span = 100;

/** Whether this process could listen on the port now. */
export const isFree = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen({ port, host, exclusive: true }, () => server.close(() => resolve(true)));
  });

/** The first free port from `first` on. */
export const freePortFrom = async (first: number): Promise<number> => {
  for (let port = first; port < first + span; port += 1) if (await isFree(port)) return port;
  throw new StartError(`The ports ${first} to ${first + span - 1} are all taken: stop some of the programs on them.`);
};

/**
 * A free port somewhere below the range that systems give to outgoing connections, so that it is still free when a
 * process that died comes back to it. Random, so that two test runs that begin together do not meet.
 */
export const freePortAnywhere = (): Promise<number> => freePortFrom(20_000 + Math.floor(Math.random() * 9000));

const maxChoices = 10;

/**
 * Runs `begin`, which chooses a port and starts something there. Between the two another program may take the port:
 * then it runs again with another one. Two starts at the same moment try ports in the same order.
 */
export const onFreePort = async <T>(begin: () => Promise<T>, print: (line: string) => void): Promise<T> => {
  for (let choices = 1; ; choices += 1) {
    try {
      return await begin();
    } catch (error) {
      if (!(error instanceof PortTaken) || choices >= maxChoices) throw error;
      print(`port ${error.port} was just taken by another program, choosing the next free one`);
    }
  }
};
