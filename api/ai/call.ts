import type { AiCaller } from '#domain/ai/gateway/types.ts';
import type { CallKind } from '#domain/ai/usage/usage.ts';
import type { ApiKey } from '#domain/projects/api-keys.ts';
import type { Project } from '#domain/projects/store.ts';
import { ServiceError } from '#lib/errors.ts';
import type { BaseCall } from '../call.ts';

/** A request to a model; members of a project come without a key. */
type AiRequest = BaseCall & { readonly project: Project; readonly key?: ApiKey | null | undefined };

/**
 * The caller of the gateway for a request to a model. The upstream is closed when the client leaves.
 * @throws {ServiceError} `project_not_ready`: a paused project asks nobody
 */
export const aiCallerOf = ({ project, key, requestId, disconnection }: AiRequest, kind: CallKind): AiCaller => {
  if (project.status !== 'active')
    throw new ServiceError('project_not_ready', `The project is ${project.status}; models answer when it is active.`);
  return { project, kind, requestId, apiKeyId: key?.id, signal: disconnection };
};
