import { hash } from 'node:crypto';
import path from 'node:path';
import { requireKey } from './keys.ts';

/** The folders of a disk store. All lie on one file system, so that a file is moved from one to another in one step. */
export interface DiskFolders {
  /** The bytes of keys. */
  readonly objects: string;
  /** Bytes that are being written. */
  readonly unfinished: string;
  /** Resumable uploads that have not ended: `lib/resumable/disk-uploads.ts`. */
  readonly uploads: string;
}

export const foldersIn = (root: string): DiskFolders => ({
  objects: path.join(root, 'objects'),
  unfinished: path.join(root, 'unfinished'),
  uploads: path.join(root, 'uploads'),
});

/** Begins the names of the folders that files are fanned out over. No segment of a key can begin so. */
export const fanMark = '_';

/** One of 256 folders, by a hash of the name: a million keys with one prefix are some 3,900 files in each. */
const fanOf = (name: string): string => fanMark + hash('sha256', name, 'hex').slice(0, 2);

/**
 * The file of a key: `a/b/c` is `a/b/_2e/c`.
 * @throws {RangeError} for anything that is no key, so that no path can lead out of the folder
 */
export const fileOf = (objects: string, key: string): string => {
  requireKey(key);
  const name = path.posix.basename(key);
  return path.join(objects, path.posix.dirname(key), fanOf(name), name);
};
