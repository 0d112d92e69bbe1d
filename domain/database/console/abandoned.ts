import type { ProjectDb } from '#domain/projects/project-db.ts';
import { ServiceError } from '#lib/errors.ts';

interface Abandoned {
  readonly processId: number;
  readonly since: number;
}

/** The number of such statements after which no more is started: each of them takes one of the machine's cores. */
const maxPerProject = 2;
/** After that the number may be another session's. */
const forgetMs = 3_600_000;

/** By project: sessions that this process stopped and left behind, since they did not end. */
const abandoned = new Map<string, Abandoned[]>();

export const noteAbandoned = (projectId: string, processId: number): void => {
  abandoned.set(projectId, [...(abandoned.get(projectId) ?? []), { processId, since: Date.now() }]);
};

/** Whether `refuseWhileAbandoned` has to be asked; costs nothing where all is well. */
export const hasAbandoned = (projectId: string): boolean => abandoned.has(projectId);

const tooMany = (count: number): ServiceError =>
  new ServiceError(
    'dependency_unavailable',
    `${count} earlier statements of this project still run although they were stopped: the server cannot interrupt what they do.`,
    { hint: 'No other one is begun until they have ended by themselves.', headers: { 'Retry-After': '30' } },
  );

/**
 * Refuses SQL of a project whose stopped statements go on: some computations of a server check for no interruption
 * until they are done, neither for a cancellation nor for the end of the session.
 * @throws {ServiceError} `dependency_unavailable`
 */
export const refuseWhileAbandoned = async (db: Pick<ProjectDb, 'endSession'>, projectId: string): Promise<void> => {
  const known = abandoned.get(projectId) ?? [];
  if (known.length < maxPerProject) return;
  const recent = known.filter(({ since }) => Date.now() - since < forgetMs);
  // A server that cannot be asked will refuse the statement itself.
  const live = await Promise.all(
    recent.map(async ({ processId }) => (await db.endSession(projectId, processId).catch(() => false)) === true),
  );
  const gone = new Set(known.filter((session) => live[recent.indexOf(session)] !== true));
  const left = (abandoned.get(projectId) ?? []).filter((session) => !gone.has(session));
  if (left.length > 0) abandoned.set(projectId, left);
  else abandoned.delete(projectId);
  if (left.length >= maxPerProject) throw tooMany(left.length);
};
