import type { JobRequest } from '#domain/jobs/accept.ts';
import type { MonthlyCaps } from '#domain/jobs/usage.ts';
import type { Project } from '#domain/projects/store.ts';
import type { Queryable } from '#lib/control-db.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import { getFunctionVersion, requestFor, requireActive } from './functions.ts';
import { givenTo } from './invocations.ts';
import { isKept } from './store.ts';

const requireKept = async (db: Queryable, functionId: string, version: number): Promise<number> => {
  if (await isKept(db, functionId, version)) return version;
  throw new ServiceError('conflict', `Version ${version} of the function is not kept any more.`, {
    hint: 'Run it on the present version: version=current.',
  });
};

/**
 * The job that runs a function once more with what an earlier run was given, exactly.
 * @throws {ServiceError} `not_found`, `project_not_ready`; `conflict` when the original version is gone
 */
export const rerunOf = async (
  db: Queryable,
  project: Project,
  earlier: { readonly functionId: string; readonly id: string },
  how: { readonly version: 'current' | 'original'; readonly requestId: string; readonly caps: MonthlyCaps },
): Promise<JobRequest> => {
  const { functionId } = earlier;
  const present = await getFunctionVersion(db, project.id, { id: functionId });
  const given = await givenTo(db, functionId, earlier.id);
  if (given === undefined) throw notFound('invocation');
  requireActive(project);
  const version = how.version === 'current' ? present.version : await requireKept(db, functionId, given.version);
  const { requestId, caps } = how;
  return requestFor(project, { functionId, version, payload: given.payload, trigger: 'dashboard', requestId, caps });
};
