import type { Projects } from '#domain/projects/projects.ts';
import type { ShadowLimits } from '#domain/database-servers/shadow.ts';
import { type MigrationStep, pushMigrations } from './migrations.ts';
import { dumpSchema } from './schema-sql/schema-sql.ts';

/** One run of migrations in a shadow. */
export interface ShadowRun {
  readonly projectId: string;
  readonly steps: readonly MigrationStep[];
  readonly limits?: ShadowLimits;
}

/**
 * Runs migrations in a throw-away database of the project.
 * @returns the schema that they make, as `dumpSchema` writes it
 * @throws {DataError} of the step that failed, as `pushMigrations` does
 * @throws {ServiceError} as `withShadow` does
 */
export const schemaOfMigrations = (
  projects: Pick<Projects, 'withShadow'>,
  { projectId, steps, limits }: ShadowRun,
): Promise<string> =>
  projects.withShadow(
    projectId,
    async (shadow) => {
      await pushMigrations({ tenantDb: shadow, projectId, dryRun: false }, steps);
      return dumpSchema(shadow, projectId);
    },
    limits,
  );
