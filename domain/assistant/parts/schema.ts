import { readPolicies, schemaContext } from '#domain/ai/schema-context.ts';
import type { SchemaCache } from '#domain/data-api/schema/cache-types.ts';
import type { ProjectDb } from '#domain/projects/project-db.ts';

export interface SchemaTextDeps {
  readonly tenantDb: Pick<ProjectDb, 'use'>;
  readonly schemas: Pick<SchemaCache, 'get'>;
}

/** The tables of schema `public`: names, types, keys, row-level security and policies. */
export const schemaText = async (
  { tenantDb, schemas }: SchemaTextDeps,
  { projectId, room, about }: { readonly projectId: string; readonly room: number; readonly about: string },
): Promise<string> => {
  const [schema, policies] = await Promise.all([schemas.get(projectId), readPolicies(tenantDb, projectId)]);
  return schemaContext(schema, { maxChars: room, policies, about });
};
