import path from 'node:path';
import { type Config, ConfigError } from '#lib/config.ts';
import { createDiskStore } from './disk-store.ts';
import type { StorageDriver } from './object-store.ts';
import type { S3Bucket, S3Settings } from './s3-client.ts';

export type StorageSettings = Pick<
  Config,
  | 'DATA_DIR'
  | 'PLINTH_STORAGE'
  | 'PLINTH_S3_ENDPOINT'
  | 'PLINTH_S3_REGION'
  | 'PLINTH_S3_BUCKET'
  | 'PLINTH_S3_ACCESS_KEY_ID'
  | 'PLINTH_S3_SECRET_ACCESS_KEY'
  | 'PLINTH_S3_FORCE_PATH_STYLE'
  | 'PLINTH_S3_TIMEOUT_MS'
>;

/** Where the bytes lie, by the settings; `lib/resumable/` keeps its uploads in the same place. */
export type StoragePlace =
  | { readonly driver: 'disk'; readonly root: string; readonly store: StorageDriver }
  | { readonly driver: 's3'; readonly bucket: S3Bucket; readonly store: StorageDriver };

const s3SettingsOf = (config: StorageSettings): S3Settings => {
  const bucket = config.PLINTH_S3_BUCKET;
  if (bucket === undefined) throw new ConfigError('PLINTH_S3_BUCKET is not set, and PLINTH_STORAGE is s3');
  if ((config.PLINTH_S3_ACCESS_KEY_ID === undefined) !== (config.PLINTH_S3_SECRET_ACCESS_KEY === undefined)) {
    throw new ConfigError('PLINTH_S3_ACCESS_KEY_ID and PLINTH_S3_SECRET_ACCESS_KEY: only one of them is set');
  }
  return {
    bucket,
    region: config.PLINTH_S3_REGION,
    endpoint: config.PLINTH_S3_ENDPOINT,
    accessKeyId: config.PLINTH_S3_ACCESS_KEY_ID,
    secretAccessKey: config.PLINTH_S3_SECRET_ACCESS_KEY,
    forcePathStyle: config.PLINTH_S3_FORCE_PATH_STYLE === 'on',
    requestTimeoutMs: config.PLINTH_S3_TIMEOUT_MS,
  };
};

/** Loads the AWS client, which takes some 40 MB of memory: only processes that use it have it. */
const openS3Place = async (settings: S3Settings): Promise<StoragePlace> => {
  const [{ openBucket }, { createS3Store }] = await Promise.all([import('./s3-client.ts'), import('./s3-store.ts')]);
  const bucket = openBucket(settings);
  return { driver: 's3', bucket, store: createS3Store(bucket) };
};

/**
 * The store that the settings name. Opens no connection.
 * @throws {ConfigError} when the settings of S3 are incomplete
 */
export const openStoragePlace = async (config: StorageSettings): Promise<StoragePlace> => {
  if (config.PLINTH_STORAGE === 's3') return openS3Place(s3SettingsOf(config));
  const root = path.resolve(config.DATA_DIR, 'storage');
  return { driver: 'disk', root, store: createDiskStore(root) };
};
