import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import type { ExecutionContext } from 'ava';
import { createDiskStore } from '#lib/object-store/disk-store.ts';
import { openBucket } from '#lib/object-store/s3-client.ts';
import { createS3Store } from '#lib/object-store/s3-store.ts';
import { startS3Server } from '#test/support/s3-server.ts';
import type { StorageDriver } from '#lib/object-store/object-store.ts';

export const temporaryFolder = async (t: ExecutionContext): Promise<string> => {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'plinth-storage-'));
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  return folder;
};

export const all = async <T>(items: AsyncIterable<T>): Promise<T[]> => {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
};

/** One store of a test, with nothing in it. */
export const stores: Readonly<Record<string, (t: ExecutionContext) => Promise<StorageDriver>>> = {
  s3: async (t) => createS3Store(openBucket((await startS3Server(t)).settings)),
  disk: async (t) => createDiskStore(await temporaryFolder(t)),
};
