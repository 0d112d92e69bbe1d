import { seenAs } from '#domain/end-users/seen-as.ts';
import type { InProject } from '../access.ts';
import type { Call, DataCall } from '../call.ts';
import { requireActive, timeoutOf } from './by-key.ts';

/**
 * The call of a member to what takes keys otherwise: a member is the project itself, or looks through the eyes that
 * `X-Plinth-As` names.
 * @throws {ServiceError} `project_not_ready`, `validation_failed`, `not_found`: there is no such user
 */
export const memberCall = async (call: Call<InProject>): Promise<Call<InProject> & DataCall> => {
  const { deps, project, http } = call;
  requireActive(project);
  const as = await seenAs(deps.endUsers.authDb, project.id, String(http.headers['x-plinth-as'] ?? ''));
  const caller = { projectId: project.id, ...as, timeoutMs: timeoutOf(project, as.role) };
  // Not a copy: what is computed on first use is the call's own.
  return Object.assign(call, { key: null, caller, byMember: true } as const);
};
