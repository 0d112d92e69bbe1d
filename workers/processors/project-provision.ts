import { fillBranch } from '#domain/database/branch.ts';
import type { Projects } from '#domain/projects/projects.ts';
import type { Queryable } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import { type Processor, failed } from '../processor.ts';

/** Makes a project's database, and what a branch begins with; given up, the project says so. */
export const projectProvisionProcessor = ({
  db,
  projects,
}: {
  readonly db: Queryable;
  readonly projects: Pick<Projects, 'provision' | 'provisionFailed' | 'tenantDb'>;
}): Processor => ({
  run: async (_data, { projectId }) => {
    try {
      const { dbName } = await projects.provision(projectId, (branch) => fillBranch({ db, projects }, branch));
      return { status: 'succeeded', result: JSON.stringify({ db_name: dbName }), error: null };
    } catch (error) {
      // Another attempt would find the same rows.
      if (!(error instanceof ServiceError) || error.code !== 'payload_too_large') throw error;
      await projects.provisionFailed(projectId);
      return failed(error.code, error.message);
    }
  },
  giveUp: async (_error, { projectId }) => {
    await projects.provisionFailed(projectId);
    return null;
  },
});
