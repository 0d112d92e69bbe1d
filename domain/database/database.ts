import type { SchemaCache } from '#domain/data-api/schema/schema.ts';
import type { Client } from 'pg';

/**
 * A project's database as its members use it: the SQL console (`console/console.ts`), the tables (`tables/tables.ts`,
 * `tables/table-changes.ts`), migrations, the schema as SQL (`schema-sql/schema-sql.ts`), as TypeScript (`types.ts`),
 * its usage and its slow queries. All SQL of users runs in a fence (`console/fence.ts`): a session of its own, which is
 * stopped when it takes too long. This file has what every change reports. The servers are in `database-servers`.
 */

/** The parties that must learn of a change in a project's database that was made through the platform. */
export interface ChangeListeners {
  readonly schemas?: Pick<SchemaCache, 'changed'> | undefined;
  readonly events?: { readonly markDirty: (projectId: string) => Promise<void> } | undefined;
}

export interface Change {
  readonly schema: boolean;
  readonly rows: boolean;
}

/** Called whether the statement succeeded or not: some of it may have been committed before it failed. */
export const noteChange = ({ schemas, events }: ChangeListeners, projectId: string, { schema, rows }: Change): void => {
  if (schema) schemas?.changed(projectId);
  // It waits to take several at once; the answer does not wait for it.
  if (rows) void events?.markDirty(projectId);
};

/** Gives end users in a project's database the rights on these schemas that they have on public, and on no others. */
export const writeExposedSchemas = async (client: Client, schemas: readonly string[]): Promise<void> => {
  await client.query('select plinth.expose_schemas($1)', [[...schemas]]);
};
