import { lchownSync, readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { StartError } from '../errors.ts';
import type { RunProgram } from '../run-program.ts';

/** How to run a program that refuses root (Postgres does). */
export interface Account {
  /** Put before the command. */
  readonly prefix: readonly string[];
  readonly uid?: number;
  readonly gid?: number;
  /** Returns the owner of its files, as this process sees it. */
  readonly owner: { readonly uid: number; readonly gid: number };
}

const userNamespace = ['unshare', '--user', '--map-user=1000', '--'];
const accounts = ['postgres', 'nobody'];

const idOf = async (run: RunProgram, flag: '-u' | '-g', name: string): Promise<number | null> =>
  run('id', [flag, name]).then(Number, () => null);

const findAccount = async (run: RunProgram): Promise<{ uid: number; gid: number }> => {
  for (const name of accounts) {
    const [uid, gid] = [await idOf(run, '-u', name), await idOf(run, '-g', name)];
    if (uid !== null && gid !== null) return { uid, gid };
  }
  throw new StartError(
    'Postgres does not run as root, and there is no account "nobody": start plinth as another user.',
  );
};

const othersMayEnter = (folder: string): boolean => {
  for (let at = folder; at !== path.dirname(at); at = path.dirname(at)) if ((statSync(at).mode & 1) === 0) return false;
  return true;
};

/**
 * As an ordinary user: nothing special. As root: inside a user namespace in which we are user 1000 (the files stay
 * ours), or, where there are no namespaces, as an account without rights.
 */
export const unprivileged = async (run: RunProgram, folders: readonly string[]): Promise<Account> => {
  const [uid, gid] = [process.getuid?.() ?? 0, process.getgid?.() ?? 0];
  if (uid !== 0) return { prefix: [], owner: { uid, gid } };
  const namespaces = await run('unshare', [...userNamespace.slice(1), 'true']).then(
    () => true,
    () => false,
  );
  if (namespaces) return { prefix: userNamespace, owner: { uid, gid } };
  const account = await findAccount(run);
  const closed = folders.find((folder) => !othersMayEnter(folder));
  if (closed === undefined) return { prefix: [], ...account, owner: account };
  throw new StartError(
    `Postgres does not run as root, and other users may not enter ${closed}: start plinth as another user, set DATA_DIR ` +
      'and the checkout to a place such as /srv, or set DATABASE_URL.',
  );
};

/** Makes `owner` the owner of a file, or of a folder and all that is in it, unless it is already. */
export const giveTo = (place: string, owner: Account['owner']): void => {
  const known = statSync(place);
  if (known.uid === owner.uid) return;
  const entries = known.isDirectory() ? readdirSync(place, { recursive: true, withFileTypes: true }) : [];
  for (const entry of entries) lchownSync(path.join(entry.parentPath, entry.name), owner.uid, owner.gid);
  lchownSync(place, owner.uid, owner.gid);
};
