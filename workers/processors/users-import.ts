import { createAuthDb } from '#domain/end-users/auth-db.ts';
import { importUsers } from '#domain/end-users/imports.ts';
import { findProject } from '#domain/projects/store.ts';
import { ServiceError } from '#lib/errors.ts';
import type { JobData } from '#queues/define.ts';
import type { usersImport } from '#queues/users-import.ts';
import { type Processor, failed } from '../processor.ts';
import type { ProcessorDeps } from './deps.ts';

type UsersImportDeps = Pick<ProcessorDeps, 'db' | 'projects' | 'tenantDb' | 'events'>;

/** Imports users of another system into a project. */
export const usersImportProcessor = ({ db, projects, tenantDb, events }: UsersImportDeps): Processor => {
  const authDb = createAuthDb(tenantDb);
  return {
    run: async (data, { jobId, projectId, signal, progress }) => {
      const project = await findProject(db, projectId);
      if (project === undefined || project.deleted_at !== null) return failed('not_found', 'The project was deleted.');
      const deps = { authDb, sealer: projects.sealer, markDirty: (id: string) => void events?.markDirty(id) };
      try {
        const order = data as JobData<typeof usersImport>;
        const result = await importUsers({ deps, db, project, jobId, signal, progress }, order);
        return { status: 'succeeded', result: JSON.stringify(result), error: null };
      } catch (error) {
        // A refusal is the outcome; what a dependency could not do is tried again.
        if (error instanceof ServiceError && error.status < 500) return failed(error.code, error.message);
        throw error;
      }
    },
  };
};
