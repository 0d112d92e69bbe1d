import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { StartError } from './errors.ts';
import { database, user } from './infra/postgres-cluster.ts';
import { keyRingIn, passwordIn } from './made-secrets.ts';

/** How a program beside the platform finds its database and keys: in the settings, else where `npm start` made them. */

/** The database that `npm start` provides says in its own file on which port it listens. */
export const providedUrl = (dataDir: string): string => {
  const file = path.join(dataDir, 'postgres', 'postmaster.pid');
  const port = existsSync(file) ? readFileSync(file, 'utf8').split('\n')[3] : undefined;
  if (port === undefined)
    throw new StartError('Set DATABASE_URL, or start the platform with npm start: its database has to run.');
  return `postgres://${user}:${passwordIn(dataDir, 'postgres-password').value}@127.0.0.1:${port}/${database}`;
};

/** @throws {StartError} when the keys are not given with a database of one's own */
export const ringText = (dataDir: string, isProvided: boolean): string => {
  const given = process.env['PLINTH_SECRET_KEYS'];
  if (given) return given;
  if (isProvided) return keyRingIn(dataDir).value;
  throw new StartError('PLINTH_SECRET_KEYS has to hold the new key and the old ones.');
};
