import { createHash } from 'node:crypto';
import { mkdirSync, statfsSync } from 'node:fs';
import path from 'node:path';

const base = '/dev/shm';
const neededBytes = 6 * 1024 ** 3;

const hasRoom = (): boolean => {
  try {
    const { bavail, bsize } = statfsSync(base);
    // A container may use less memory than its machine has; `availableMemory` counts that.
    return Math.min(bavail * bsize, process.availableMemory()) >= neededBytes;
  } catch {
    return false;
  }
};

/** The folder in memory that belongs to a data folder, whether it is there or not. */
export const memoryFolderOf = (dataDir: string): string =>
  path.join(base, `plinth-${createHash('sha256').update(dataDir).digest('hex').slice(0, 16)}`);

/**
 * Makes the folder in memory for a database that is thrown away; `null` where there are no 6 GiB of it. A database has
 * 300 files, and on a disk with ext4 half of the server's processor time went into the search for free inodes, because
 * ext4 passes over those that were deleted within the last five seconds.
 */
export const makeMemoryFolder = (dataDir: string): string | null => {
  if (!hasRoom()) return null;
  const folder = memoryFolderOf(dataDir);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  return folder;
};
