import type { Plan } from '#domain/database-servers/limits.ts';
import type { Config } from '#lib/config.ts';
import { ServiceError } from '#lib/errors.ts';

export type StorageConfig = Pick<
  Config,
  `PLINTH_STORAGE_BYTES_${'FREE' | 'PRO'}` | `PLINTH_FILE_BYTES_${'FREE' | 'PRO' | 'ENTERPRISE'}`
>;

/** The limits of a plan, in bytes. */
interface StorageLimits {
  /** All files together; null: none. */
  readonly total: number | null;
  readonly file: number;
}

export const storageLimits = (config: StorageConfig, plan: Plan): StorageLimits => {
  switch (plan) {
    case 'free':
      return { total: config.PLINTH_STORAGE_BYTES_FREE, file: config.PLINTH_FILE_BYTES_FREE };
    case 'pro':
      return { total: config.PLINTH_STORAGE_BYTES_PRO, file: config.PLINTH_FILE_BYTES_PRO };
    case 'enterprise':
      return { total: null, file: config.PLINTH_FILE_BYTES_ENTERPRISE };
  }
};

export const maxBuckets = 1000;

/** Bytes that no row counts, in files of the largest size, where a plan has no limit of all files. */
export const maxFilesBeside = 20;

/** The bytes that one file may have, and the setting that says so. */
export interface FileLimit {
  readonly bytes: number;
  readonly setBy: string;
}

export const fileLimit = (config: StorageConfig, plan: Plan, bucketLimit: number | null): FileLimit => {
  const { file } = storageLimits(config, plan);
  if (bucketLimit !== null && bucketLimit < file) return { bytes: bucketLimit, setBy: 'file_size_limit of the bucket' };
  return { bytes: file, setBy: `PLINTH_FILE_BYTES_${plan.toUpperCase()}` };
};

export const fileTooLarge = ({ bytes, setBy }: FileLimit): ServiceError =>
  new ServiceError('payload_too_large', `The file is larger than ${bytes} bytes.`, {
    details: { limit: bytes, set_by: setBy },
    hint: `The limit is ${setBy}.`,
  });
