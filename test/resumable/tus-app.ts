/** A server of resumable uploads as an API process has one, with nothing around it. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Redis } from 'ioredis';
import { ServiceError, notFound } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import { createDiskStore } from '#lib/object-store/disk-store.ts';
import type { StorageDriver } from '#lib/object-store/object-store.ts';
import { type S3Settings, openBucket } from '#lib/object-store/s3-client.ts';
import { createS3Store } from '#lib/object-store/s3-store.ts';
import { createDiskUploads } from '#lib/resumable/disk-uploads.ts';
import { createS3Uploads } from '#lib/resumable/s3-uploads.ts';
import { type RequestedUpload, createTusServer } from '#lib/resumable/tus-server.ts';
import { createUploadLocks } from '#lib/resumable/upload-locks.ts';
import type { ResumableUploads } from '#lib/resumable/uploads.ts';

export interface Place {
  readonly root?: string;
  readonly s3?: S3Settings;
}

export const openPlace = ({ root = '', s3 }: Place): { store: StorageDriver; uploads: ResumableUploads } => {
  if (s3 === undefined) return { store: createDiskStore(root), uploads: createDiskUploads(root) };
  const bucket = openBucket(s3);
  return { store: createS3Store(bucket), uploads: createS3Uploads(bucket) };
};

export interface Finished {
  readonly key: string;
  readonly size: number;
  readonly sha256: string;
  readonly name: unknown;
}

export interface TusAppOptions extends Place {
  readonly redisUrl: string;
  readonly prefix: string;
  readonly maxSize?: number;
  readonly onFinished?: (finished: Finished) => void;
}

/** The caller is the `authorization` header. */
export const startTusApp = async (options: TusAppOptions) => {
  const redis = new Redis(options.redisUrl);
  const { store, uploads } = openPlace(options);
  const removed: string[] = [];
  const tus = createTusServer<string>({
    uploads,
    locks: createUploadLocks({ redis, prefix: options.prefix, waitMs: 5000 }),
    maxSize: () => options.maxSize ?? 100 * 2 ** 20,
    beforeCreate: async (caller, { metadata }: RequestedUpload) => {
      if (caller === 'stranger') throw new ServiceError('forbidden', 'No.');
      return { key: `files/${newId()}`, context: { owner: caller, name: metadata['filename'] } };
    },
    authorize: (caller, { context }) => {
      if (context['owner'] !== caller) throw notFound('upload');
    },
    onFinished: async ({ key, context }, { size, sha256 }) => {
      options.onFinished?.({ key, size, sha256, name: context['name'] });
    },
    onRemoved: async ({ key }) => {
      removed.push(key);
    },
  });
  const server = createServer((request, response) => {
    const [caller, url] = [request.headers.authorization ?? '', `http://${request.headers.host}/files`];
    tus.handle(request, response, { caller, url }).catch(() => request.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/files`,
    store,
    uploads,
    tus,
    removed,
    close: () => {
      server.closeAllConnections();
      server.close();
      redis.disconnect();
    },
  };
};
