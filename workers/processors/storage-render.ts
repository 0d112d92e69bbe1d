import { makeRendition } from '#domain/storage/renditions.ts';
import { ServiceError } from '#lib/errors.ts';
import type { StorageDriver } from '#lib/object-store/object-store.ts';
import type { JobData } from '#queues/define.ts';
import type { storageRender } from '#queues/storage-render.ts';
import { type Processor, failed } from '../processor.ts';

interface StorageRenderDeps {
  readonly files: { readonly bytes: StorageDriver };
}

/** Makes a picture of an object. What is no picture, or beyond the bounds, is the job's outcome. */
export const storageRenderProcessor = ({ files }: StorageRenderDeps): Processor => ({
  run: async (given, { projectId, signal }) => {
    const { version, options } = given as JobData<typeof storageRender>;
    try {
      const made = await makeRendition(files.bytes, { projectId, version, signal }, options);
      return { status: 'succeeded', result: JSON.stringify(made), error: null };
    } catch (error) {
      if (error instanceof ServiceError && error.status < 500) return failed(error.code, error.message);
      throw error;
    }
  },
});
