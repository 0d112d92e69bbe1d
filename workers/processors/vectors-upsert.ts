import type { Gateway } from '#domain/ai/gateway/types.ts';
import { DataError } from '#domain/data-api/errors.ts';
import type { ChangeListeners } from '#domain/database/database.ts';
import type { Projects } from '#domain/projects/projects.ts';
import { findProject } from '#domain/projects/store.ts';
import { upsertDocuments } from '#domain/vectors/vectors.ts';
import type { Queryable } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import type { JobData, JobOutcome } from '#queues/define.ts';
import type { vectorsUpsert } from '#queues/vectors-upsert.ts';
import { type Processor, failed } from '../processor.ts';

export interface VectorsUpsertDeps extends ChangeListeners {
  readonly db: Queryable;
  readonly projects: Pick<Projects, 'tenantDb'>;
  readonly gateway: Pick<Gateway, 'embed' | 'resolve'>;
}

/** The detail of the server's error, which names the row or the limit. */
const detailOf = (details: unknown): string | null => {
  if (typeof details === 'string') return details;
  const detail: unknown = typeof details === 'object' && details !== null ? Reflect.get(details, 'detail') : null;
  return typeof detail === 'string' ? detail : null;
};

/** The whole of it in its message: a job keeps no more of an error than that and the code. */
const refused = ({ code, message, details, hint }: DataError | ServiceError): JobOutcome =>
  failed(code, [message, detailOf(details), hint].filter((part) => part !== null).join(' '));

/** 5xx all the same, but tried again they would end as they did, and cost as much. */
const isFinal = ({ code, status }: ServiceError): boolean =>
  status < 500 || code === 'provider_bad_output' || code === 'vector_extension_unavailable';

/** A refusal by the project's own database or by a provider is the job's outcome; an unavailable one is retried. */
const whenFailed = (error: unknown): JobOutcome => {
  if (error instanceof ServiceError && isFinal(error)) return refused(error);
  if (!(error instanceof DataError)) throw error;
  if (error.status < 500) return refused(error);
  throw new ServiceError('dependency_unavailable', error.message, { cause: error });
};

/** Embeds documents and writes them into a collection; what an earlier run has written is unchanged. */
export const vectorsUpsertProcessor = ({ db, projects, ...deps }: VectorsUpsertDeps): Processor => ({
  run: async (data, { projectId, requestId, signal, progress }) => {
    const order = data as JobData<typeof vectorsUpsert>;
    const project = await findProject(db, projectId);
    if (project === undefined || project.deleted_at !== null) return failed('not_found', 'The project was deleted.');
    try {
      const caller = { project, kind: 'vectors', requestId, signal } as const;
      const result = await upsertDocuments({ ...deps, tenantDb: projects.tenantDb }, caller, order, progress);
      return { status: 'succeeded', result: JSON.stringify(result), error: null };
    } catch (error) {
      return whenFailed(error);
    }
  },
});
