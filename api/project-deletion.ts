import type { Deps } from './deps.ts';

/** The caller of a deletion waits so long for waiting jobs to be cancelled; a sweep cancels the rest. */
const cancelWithinMs = 1000;
/** The rest is the sweep's to finish within a minute, so that a caller with hundreds of projects is answered, too. */
const maxAtOnce = 5;

/** After a project was marked as deleted: ends its jobs and locks everyone out. Should it fail, a sweep does it. */
export const finishDeletion = async ({ projects, gate, jobs }: Deps, projectId: string): Promise<void> => {
  await projects.retire(projectId, { maxMs: cancelWithinMs, dropBacklog: gate.drop, onEnded: jobs.notifyEnded });
  await gate.rulesChanged({ projectId });
};

/** The same for all projects of an organization. */
export const finishDeletions = async (deps: Deps, projectIds: readonly string[]): Promise<void> => {
  await Promise.all(projectIds.map((projectId) => deps.projectChanged(projectId)));
  for (const projectId of projectIds.slice(0, maxAtOnce)) await finishDeletion(deps, projectId);
};
