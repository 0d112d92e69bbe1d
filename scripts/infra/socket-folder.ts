import { mkdirSync, rmSync } from 'node:fs';
import path from 'node:path';

/** The address of a Unix socket has at most 103 bytes on macOS and 107 on Linux. */
const maxAddressBytes = 103;
/** The longest name of a socket: PostgreSQL's, with a port. */
const maxName = '/.s.PGSQL.65535';

/**
 * Makes the folder, empty, in which a server of this platform has its Unix socket: only the owner may enter it.
 * @returns null where the path is too long for a socket's address: then the server is reached over TCP
 */
export const makeSocketFolder = (parent: string, server: 'postgres' | 'redis'): string | null => {
  const folder = path.join(parent, `${server}-socket`);
  if (Buffer.byteLength(folder + maxName) > maxAddressBytes) return null;
  // PostgreSQL does not start while any process has the pid in the lock file that a killed server left here.
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  return folder;
};
