import type { Once } from '#domain/database/console/owner-key.ts';
import type { ChangeOf, TableChangeDeps } from '#domain/database/tables/table-changes.ts';
import type { InProject } from './access.ts';
import type { Call } from './call.ts';

/** The dependencies of a change in the project's database, out of a call. */
export const depsOf = ({ deps }: Call<InProject>): TableChangeDeps => ({ ...deps, tenantDb: deps.projects.tenantDb });

/** The project whose database changes, and the caller that waits. */
export const changeOf = ({ project, signal }: Call<InProject>, once?: Once): ChangeOf => ({
  projectId: project.id,
  signal,
  once,
});
