import type { Projects } from '#domain/projects/projects.ts';
import type { Processor } from '../processor.ts';

/** Makes a project's database; given up, the project says so. */
export const projectProvisionProcessor = ({
  projects,
}: {
  readonly projects: Pick<Projects, 'provision' | 'provisionFailed'>;
}): Processor => ({
  run: async (_data, { projectId }) => {
    const { dbName } = await projects.provision(projectId);
    return { status: 'succeeded', result: JSON.stringify({ db_name: dbName }), error: null };
  },
  giveUp: async (_error, { projectId }) => {
    await projects.provisionFailed(projectId);
    return null;
  },
});
