import type { AiCaller } from '#domain/ai/gateway/types.ts';
import type { CallKind } from '#domain/ai/usage/usage.ts';
import type { Project } from '#domain/projects/store.ts';
import { ServiceError } from '#lib/errors.ts';
import type { BaseCall } from '../call.ts';

/**
 * The caller of the gateway for a request to a model. The upstream is closed when the client leaves.
 * @throws {ServiceError} `project_not_ready`: a paused project asks nobody
 */
export const aiCallerOf = (
  { project, requestId, disconnection }: BaseCall & { readonly project: Project },
  kind: CallKind,
): AiCaller => {
  if (project.status !== 'active')
    throw new ServiceError('project_not_ready', `The project is ${project.status}; models answer when it is active.`);
  return { project, kind, requestId, signal: disconnection };
};
