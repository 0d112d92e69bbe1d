import type { StorageConfig } from '#domain/storage/limits.ts';
import { makeRendition } from '#domain/storage/renditions.ts';
import type { Queryable } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import type { StorageDriver } from '#lib/object-store/object-store.ts';
import type { JobData } from '#queues/define.ts';
import type { storageRender } from '#queues/storage-render.ts';
import { type Processor, failed } from '../processor.ts';

interface StorageRenderDeps {
  readonly db: Queryable;
  readonly files: { readonly bytes: StorageDriver; readonly config: StorageConfig };
}

/** Makes a picture of an object. What is no picture, or beyond the bounds, is the job's outcome. */
export const storageRenderProcessor = ({ db, files }: StorageRenderDeps): Processor => ({
  run: async (given, { projectId, signal }) => {
    const { version, options } = given as JobData<typeof storageRender>;
    try {
      const made = await makeRendition({ ...files, db }, { projectId, version, signal }, options);
      return { status: 'succeeded', result: JSON.stringify(made), error: null };
    } catch (error) {
      if (error instanceof ServiceError && error.status < 500) return failed(error.code, error.message);
      throw error;
    }
  },
});
