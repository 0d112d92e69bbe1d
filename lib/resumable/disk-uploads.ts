import { createHash, randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { open, readFile, readdir, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import {
  diskFailure,
  moveDurably,
  removeFile,
  unlessMissing,
  withFolder,
  writeChunks,
} from '#lib/object-store/disk-files.ts';
import { type DiskFolders, fileOf, foldersIn } from '#lib/object-store/disk-paths.ts';
import type { StoredBytes } from '#lib/object-store/object-store.ts';
import { type RunningHashes, createRunningHashes, hashOf, hashing } from './running-hashes.ts';
import {
  type BodyChecksum,
  ChecksumMismatch,
  type FoundUpload,
  type ResumableUploads,
  type UploadInfo,
  asFinished,
  parseUploadInfo,
} from './uploads.ts';

const idForm = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** The files of an upload, in one of 256 folders by the last digits of its id. */
const filesOf = ({ uploads }: DiskFolders, id: string) => {
  if (!idForm.test(id)) throw new RangeError('not the id of an upload');
  const base = path.join(uploads, id.slice(-2), id);
  return { info: `${base}.json`, part: `${base}.part`, checking: `${base}.checking` };
};

const writeDurably = async (folders: DiskFolders, file: string, text: string): Promise<void> => {
  const beside = path.join(folders.unfinished, randomUUID());
  try {
    await withFolder(folders.unfinished, () => writeFile(beside, text, { flag: 'wx', mode: 0o600, flush: true }));
    await moveDurably(beside, file);
  } catch (error) {
    await removeFile(beside).catch(() => {});
    throw error;
  }
};

const saveInfo = (folders: DiskFolders, info: UploadInfo): Promise<void> =>
  writeDurably(folders, filesOf(folders, info.id).info, JSON.stringify(info));

const readInfo = async (folders: DiskFolders, id: string): Promise<UploadInfo | null> => {
  const json = await unlessMissing(readFile(filesOf(folders, id).info, 'utf8'));
  return json === null ? null : parseUploadInfo(json);
};

/** Bytes after the mark of a check that never ended do not count. */
const offsetOf = async (folders: DiskFolders, info: UploadInfo): Promise<number> => {
  const { part, checking } = filesOf(folders, info.id);
  const [stats, mark] = await Promise.all([unlessMissing(stat(part)), unlessMissing(readFile(checking, 'utf8'))]);
  if (stats === null) return info.sha256 === undefined ? 0 : info.size;
  return mark === null ? stats.size : Math.min(stats.size, Number(mark));
};

interface Append {
  readonly folders: DiskFolders;
  readonly hashes: RunningHashes;
  readonly found: FoundUpload;
  readonly chunks: AsyncIterable<Uint8Array>;
  /** The mark of a check stays: it is this one's. The mark of a check that never ended goes, with its bytes. */
  readonly marked?: boolean;
}

const appendTo = async ({ folders, hashes, found, chunks, marked = false }: Append): Promise<number> => {
  const { info, offset } = found;
  const hash = hashes.take(info.id, offset);
  const { part, checking } = filesOf(folders, info.id);
  await using handle = await withFolder(path.dirname(part), () => open(part, offset === 0 ? 'w' : 'r+', 0o600));
  await handle.truncate(offset);
  if (!marked) await removeFile(checking);
  let end = offset;
  try {
    await writeChunks(handle, hashing(chunks, [hash]), offset, (written) => {
      end = written;
    });
  } finally {
    await handle.sync();
  }
  hashes.keep(info.id, hash, end);
  return end;
};

const appendChecked = async (append: Append, checksum: BodyChecksum): Promise<number> => {
  const { folders, hashes, found } = append;
  const { part, checking } = filesOf(folders, found.info.id);
  const hash = createHash(checksum.algorithm);
  await writeDurably(folders, checking, String(found.offset));
  const end = await appendTo({ ...append, chunks: hashing(append.chunks, [hash]), marked: true });
  if (!hash.digest().equals(checksum.digest)) {
    hashes.take(found.info.id, -1);
    await using handle = await open(part, 'r+');
    await handle.truncate(found.offset);
    await handle.sync();
    await removeFile(checking);
    throw new ChecksumMismatch();
  }
  await removeFile(checking);
  return end;
};

/** The hash is in the info before the bytes move, so that whoever repeats this after a crash finds it there. */
const complete = async (folders: DiskFolders, hashes: RunningHashes, info: UploadInfo): Promise<StoredBytes> => {
  const { part } = filesOf(folders, info.id);
  // Bytes make the file, and this upload has none.
  if (info.size === 0 && info.sha256 === undefined) await (await open(part, 'a', 0o600)).close();
  const whole = (await unlessMissing(stat(part)))?.size === info.size;
  if (info.sha256 !== undefined && !whole) return { size: info.size, sha256: info.sha256 };
  if (!whole) throw new Error('an upload was completed before its bytes were there');
  const hash = hashes.take(info.id, info.size);
  const sha256 = info.sha256 ?? hash?.digest('hex') ?? (await hashOf(createReadStream(part)));
  await saveInfo(folders, { ...info, sha256 });
  await moveDurably(part, fileOf(folders.objects, info.key));
  return { size: info.size, sha256 };
};

const remove = async (folders: DiskFolders, id: string): Promise<void> => {
  const { info, part, checking } = filesOf(folders, id);
  for (const file of [part, checking, info]) await removeFile(file);
};

async function* expired(folders: DiskFolders, now: number): AsyncGenerator<UploadInfo> {
  for (const fan of (await unlessMissing(readdir(folders.uploads))) ?? []) {
    for (const name of await readdir(path.join(folders.uploads, fan))) {
      const info = name.endsWith('.json') ? await readInfo(folders, name.slice(0, -'.json'.length)) : null;
      if (info !== null && info.expiresAt <= now) yield info;
    }
  }
}

const onDisk = async <T>(work: Promise<T>): Promise<T> => {
  try {
    return await work;
  } catch (error) {
    throw diskFailure(error);
  }
};

/** Uploads beside the files of a disk store: one file of bytes and one of JSON each. */
export const createDiskUploads = (root: string): ResumableUploads => {
  const folders = foldersIn(path.resolve(root));
  const hashes = createRunningHashes();
  const find = async (id: string): Promise<FoundUpload | null> => {
    const info = await readInfo(folders, id);
    return info && { info, offset: await offsetOf(folders, info) };
  };
  const markFinished = async (id: string): Promise<void> => {
    const info = await readInfo(folders, id);
    if (info !== null) await saveInfo(folders, asFinished(info));
  };
  return {
    create: (info) => onDisk(saveInfo(folders, info)),
    info: (id) => onDisk(readInfo(folders, id)),
    find: (id) => onDisk(find(id)),
    append: (found, chunks, checksum) => {
      const append = { folders, hashes, found, chunks };
      return onDisk(checksum ? appendChecked(append, checksum) : appendTo(append));
    },
    complete: (info) => onDisk(complete(folders, hashes, info)),
    markFinished: (id) => onDisk(markFinished(id)),
    remove: (id) => onDisk(remove(folders, id)),
    expired: (now) => expired(folders, now),
  };
};
