import type { Projects } from '#domain/projects/projects.ts';
import type { Processor } from '../run-job.ts';
import { projectProvision } from '#queues/project-provision.ts';

/** Makes a project's database; on the last failure the project says so. */
export const projectProvisionProcessor =
  ({ projects }: { readonly projects: Pick<Projects, 'provision' | 'provisionFailed'> }): Processor =>
  async (_data, { projectId, attempt }) => {
    try {
      const { dbName } = await projects.provision(projectId);
      return { status: 'succeeded', result: JSON.stringify({ db_name: dbName }), error: null };
    } catch (error) {
      if (attempt >= projectProvision.maxAttempts) await projects.provisionFailed(projectId);
      throw error;
    }
  };
