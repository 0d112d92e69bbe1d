import { createServer } from 'node:net';
import { StartError } from '../errors.ts';

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
