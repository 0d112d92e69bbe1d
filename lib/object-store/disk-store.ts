import { randomUUID } from 'node:crypto';
import { access, constants, copyFile, link, open, readdir, stat } from 'node:fs/promises';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { chunksOf, createMeter, measured } from './body.ts';
import {
  codeOf,
  diskFailure,
  makeFolder,
  moveDurably,
  removeFile,
  unlessMissing,
  withFolder,
  writeChunks,
} from './disk-files.ts';
import { listObjects } from './disk-listing.ts';
import { type DiskFolders, fileOf, foldersIn } from './disk-paths.ts';
import { requirePrefix } from './keys.ts';
import type { ReadOptions, StorageDriver, StoredBytes, UnfinishedWrite, WriteOptions } from './object-store.ts';

// Four times that of a stream's default: a download needs a quarter of the trips through the thread pool.
const readBytes = 256 * 1024;

const removalsAtATime = 16;

/** Writes a body to a new file and syncs it. */
const writeFileOf = async (file: string, body: Readable, options: WriteOptions): Promise<StoredBytes> => {
  const meter = createMeter(options.maxBytes, options.size);
  options.signal.throwIfAborted();
  const chunks = chunksOf(body, options.signal);
  const handle = await withFolder(path.dirname(file), () => open(file, 'wx', 0o600));
  try {
    await writeChunks(handle, measured(chunks, meter));
    const stored = meter.end();
    await handle.sync();
    return stored;
  } finally {
    await handle.close();
  }
};

/** Runs work with a new name for unfinished bytes, of which nothing is left afterwards. */
const besideObjects = async <T>({ unfinished }: DiskFolders, work: (file: string) => Promise<T>): Promise<T> => {
  const file = path.join(unfinished, randomUUID());
  try {
    return await work(file);
  } catch (error) {
    throw diskFailure(error);
  } finally {
    // A rename of one link of a file to another one does nothing, so that the name may be left after a success, too.
    await removeFile(file).catch(() => {});
  }
};

const write = async (folders: DiskFolders, key: string, body: Readable, options: WriteOptions) => {
  const to = fileOf(folders.objects, key);
  return besideObjects(folders, async (file) => {
    const stored = await writeFileOf(file, body, options);
    options.signal.throwIfAborted();
    await moveDurably(file, to);
    return stored;
  });
};

const read = async (objects: string, key: string, { range, signal }: ReadOptions): Promise<Readable | null> => {
  signal.throwIfAborted();
  try {
    const handle = await unlessMissing(open(fileOf(objects, key), 'r'));
    return handle?.createReadStream({ ...range, highWaterMark: readBytes, signal }) ?? null;
  } catch (error) {
    throw diskFailure(error);
  }
};

const linkless = new Set(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'EMLINK', 'ENOSYS']);

/** A file's bytes never change, so a second link is a copy that costs nothing; file systems without links copy. */
const linkOrCopy = async (from: string, to: string): Promise<void> => {
  try {
    await link(from, to);
  } catch (error) {
    if (!linkless.has(codeOf(error) ?? '')) throw error;
    await copyFile(from, to, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
    await using handle = await open(to, 'r+');
    await handle.sync();
  }
};

const copy = async (folders: DiskFolders, from: string, to: string): Promise<boolean> => {
  const [source, target] = [fileOf(folders.objects, from), fileOf(folders.objects, to)];
  return besideObjects(folders, async (file) => {
    await makeFolder(folders.unfinished);
    if ((await unlessMissing(linkOrCopy(source, file).then(() => true))) === null) return false;
    await moveDurably(file, target);
    return true;
  });
};

const remove = async (objects: string, keys: readonly string[]): Promise<void> => {
  const files = keys.map((key) => fileOf(objects, key));
  try {
    for (let at = 0; at < files.length; at += removalsAtATime) {
      await Promise.all(files.slice(at, at + removalsAtATime).map(removeFile));
    }
  } catch (error) {
    throw diskFailure(error);
  }
};

async function* unfinishedIn(folder: string): AsyncGenerator<UnfinishedWrite> {
  for (const id of (await unlessMissing(readdir(folder))) ?? []) {
    const stats = await unlessMissing(stat(path.join(folder, id)));
    if (stats !== null) yield { id, activeAt: stats.mtime };
  }
}

const removeUnfinished = async (folder: string, activeBefore: Date): Promise<number> => {
  let count = 0;
  for await (const { id, activeAt } of unfinishedIn(folder)) {
    if (activeAt >= activeBefore) continue;
    await removeFile(path.join(folder, id));
    count += 1;
  }
  return count;
};

const check = async (folders: DiskFolders): Promise<void> => {
  try {
    for (const folder of [folders.objects, folders.unfinished]) {
      await makeFolder(folder);
      await access(folder, constants.R_OK | constants.W_OK);
    }
  } catch (error) {
    throw diskFailure(error);
  }
};

/**
 * Files below a folder of this machine. Several processes may use one folder at a time.
 * @param root `DATA_DIR/storage`; made when something is written
 */
export const createDiskStore = (root: string): StorageDriver => {
  const folders = foldersIn(path.resolve(root));
  return {
    write: (key, body, options) => write(folders, key, body, options),
    read: (key, options) => read(folders.objects, key, options),
    copy: (from, to) => copy(folders, from, to),
    remove: (keys) => remove(folders.objects, keys),
    list: (prefix) => {
      requirePrefix(prefix);
      return listObjects(folders.objects, prefix);
    },
    check: () => check(folders),
    unfinished: () => unfinishedIn(folders.unfinished),
    removeUnfinished: (activeBefore) => removeUnfinished(folders.unfinished, activeBefore),
  };
};
