import { mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs';
import path from 'node:path';
import { processIdentity } from '../process-identity.ts';

const prefix = 'making-';

/** Removes what makers that were killed left behind. */
const sweep = (runtimeDir: string): void => {
  for (const name of readdirSync(runtimeDir).filter((entry) => entry.startsWith(prefix))) {
    const pid = Number(name.split('-')[1]);
    if (processIdentity(pid) === null) rmSync(path.join(runtimeDir, name), { recursive: true, force: true });
  }
};

/** Runs `work` with an empty folder of its own beside the finished programs, and removes the folder afterwards. */
export const onWorkbench = async <T>(
  runtimeDir: string,
  name: string,
  work: (folder: string) => Promise<T>,
): Promise<T> => {
  mkdirSync(runtimeDir, { recursive: true });
  sweep(runtimeDir);
  const folder = path.join(runtimeDir, `${prefix}${process.pid}-${name}`);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
  try {
    return await work(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
};

/** Gives a finished folder its name. A faster process has made the same: then its folder stays. */
export const publish = (finished: string, place: string): void => {
  try {
    renameSync(finished, place);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'ENOTEMPTY' && code !== 'EEXIST') throw error;
  }
};
