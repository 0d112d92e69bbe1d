import { findProject } from '#domain/projects/store.ts';
import { runTransfer } from '#domain/storage/folder-transfer.ts';
import { ServiceError } from '#lib/errors.ts';
import type { JobData } from '#queues/define.ts';
import type { storageTransfer } from '#queues/storage-transfer.ts';
import { type Processor, failed } from '../processor.ts';
import type { ProcessorDeps } from './deps.ts';

/** Moves or copies a folder of files, as the caller who asked for it. */
export const storageTransferProcessor = ({ db, storage }: Pick<ProcessorDeps, 'db' | 'storage'>): Processor => ({
  run: async (given, { jobId, projectId, attempt, signal, progress }) => {
    const project = await findProject(db, projectId);
    if (project === undefined || project.deleted_at !== null) return failed('not_found', 'The project was deleted.');
    const transfer = given as JobData<typeof storageTransfer>;
    const call = { project, signal, caller: { projectId, role: transfer.role, claims: transfer.claims } };
    try {
      const result = await runTransfer({ deps: storage, call, jobId, transfer }, { attempt, signal, progress });
      return { status: 'succeeded', result: JSON.stringify(result), error: null };
    } catch (error) {
      // A refusal is the outcome; what a dependency could not do is tried again.
      if (error instanceof ServiceError && error.status < 500) return failed(error.code, error.message);
      throw error;
    }
  },
});
