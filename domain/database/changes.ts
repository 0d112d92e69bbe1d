import type { SchemaCache } from '#domain/data-api/schema/cache-types.ts';

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
