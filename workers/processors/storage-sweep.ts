import type { DatabaseServers } from '#domain/database-servers/database-servers.ts';
import { findProject } from '#domain/projects/store.ts';
import type { StorageConfig } from '#domain/storage/limits.ts';
import { sweepFiles } from '#domain/storage/sweep.ts';
import type { Queryable } from '#lib/control-db.ts';
import type { StorageDriver } from '#lib/object-store/object-store.ts';
import { type Processor, failed } from '../processor.ts';

interface StorageSweepDeps {
  readonly db: Queryable;
  readonly servers: Pick<DatabaseServers, 'connectTo'>;
  readonly files: { readonly bytes: StorageDriver; readonly keepHours: number; readonly config: StorageConfig };
}

/** Deletes bytes of a project that no row names any more. */
export const storageSweepProcessor = ({ db, servers, files }: StorageSweepDeps): Processor => ({
  run: async (_data, { projectId, signal }) => {
    const project = await findProject(db, projectId);
    if (project === undefined || project.deleted_at !== null) return failed('not_found', 'The project was deleted.');
    const swept = await sweepFiles({ servers, ...files }, project, signal);
    return { status: 'succeeded', result: JSON.stringify(swept), error: null };
  },
});
