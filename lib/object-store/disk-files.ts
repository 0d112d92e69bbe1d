import { mkdir, open, rename, unlink } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import path from 'node:path';
import { StoreFullError, StoreUnavailableError } from './errors.ts';

const full = new Set(['ENOSPC', 'EDQUOT', 'EFBIG']);
const unavailable = new Set([
  'EIO',
  'EROFS',
  'EACCES',
  'EPERM',
  'EMFILE',
  'ENFILE',
  'ENOTDIR',
  'ESTALE',
  'ENODEV',
  'ENXIO',
]);

export const codeOf = (error: unknown): string | undefined =>
  error instanceof Error && 'code' in error && 'syscall' in error ? String(error.code) : undefined;

/** Turns the failure of a system call into one of the store; other errors stay as they are. */
export const diskFailure = (error: unknown): unknown => {
  const code = codeOf(error);
  if (code !== undefined && full.has(code)) return new StoreFullError(error);
  if (code !== undefined && unavailable.has(code)) return new StoreUnavailableError(error);
  return error;
};

/** @returns null for a file that does not exist */
export const unlessMissing = async <T>(work: Promise<T>): Promise<T | null> => {
  try {
    return await work;
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null;
    throw error;
  }
};

export const removeFile = async (file: string): Promise<void> => {
  await unlessMissing(unlink(file));
};

const syncFolder = async (folder: string): Promise<void> => {
  await using handle = await open(folder, 'r');
  await handle.sync();
};

/** Makes a folder with its parents, each of them durable in its own parent. */
export const makeFolder = async (folder: string): Promise<void> => {
  const first = await mkdir(folder, { recursive: true, mode: 0o700 });
  if (first === undefined) return;
  for (let made = folder; made.length >= first.length; made = path.dirname(made)) await syncFolder(path.dirname(made));
};

/** Runs work that needs a folder, which is made when it turns out to be missing: most exist already. */
export const withFolder = async <T>(folder: string, work: () => Promise<T>): Promise<T> => {
  try {
    return await work();
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw error;
    await makeFolder(folder);
    return work();
  }
};

/** Moves a synced file to its durable place, which it takes at once and whole. */
export const moveDurably = async (from: string, to: string): Promise<void> => {
  const folder = path.dirname(to);
  await withFolder(folder, () => rename(from, to));
  await syncFolder(folder);
};

// From 256 KB a write to the page cache costs more than its way through the thread pool.
const batchBytes = 256 * 1024;

// A chunk of one byte costs a hundred, and the system takes at most 1,024 at once.
const batchChunks = 512;

interface Batch {
  readonly chunks: Uint8Array[];
  /** Bytes of all chunks. */
  bytes: number;
}

/** Writes all of a batch, whose chunks are joined only when the system takes a part of them. */
const writeBatch = async (handle: FileHandle, { chunks, bytes }: Batch, position: number): Promise<void> => {
  const { bytesWritten } = await handle.writev(chunks, position);
  if (bytesWritten === bytes) return;
  const rest = Buffer.concat(chunks).subarray(bytesWritten);
  await writeBatch(handle, { chunks: [rest], bytes: rest.length }, position + bytesWritten);
};

/**
 * Writes chunks to a file, one batch while the next one comes in: about 512 KB are held at most.
 * @param position where the first byte goes
 * @param written is called with the end of each batch that is written, also when a later one fails
 */
export const writeChunks = async (
  handle: FileHandle,
  chunks: AsyncIterable<Uint8Array>,
  position = 0,
  written: (end: number) => void = () => {},
): Promise<void> => {
  let batch: Batch = { chunks: [], bytes: 0 };
  let end = position;
  let writing: Promise<void> = Promise.resolve();
  const flush = async (): Promise<void> => {
    await writing;
    if (batch.bytes === 0) return;
    const [full, start] = [batch, end];
    batch = { chunks: [], bytes: 0 };
    end = start + full.bytes;
    writing = writeBatch(handle, full, start).then(() => written(start + full.bytes));
    writing.catch(() => {});
  };
  try {
    for await (const chunk of chunks) {
      batch.chunks.push(chunk);
      batch.bytes += chunk.length;
      if (batch.bytes >= batchBytes || batch.chunks.length >= batchChunks) await flush();
    }
  } finally {
    await flush();
    await writing;
  }
};
