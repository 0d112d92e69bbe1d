import { type Policy, readPolicies, schemaContext } from '#domain/ai/schema-context.ts';
import type { SchemaCache } from '#domain/data/schema/cache-types.ts';
import type { ProjectDb } from '#domain/projects/project-db.ts';

export interface SchemaTextDeps {
  readonly tenantDb: Pick<ProjectDb, 'use'>;
  readonly schemas: Pick<SchemaCache, 'get'>;
}

/** A long text in a condition may be a secret; a short one is what makes the condition understood. */
const withoutLongTexts = (expression: string | null): string | null =>
  expression?.replaceAll(/'(?:[^']|''){25,}'/g, "'…'") ?? null;

const guarded = (policy: Policy): Policy => ({
  ...policy,
  using: withoutLongTexts(policy.using),
  check: withoutLongTexts(policy.check),
});

/** The tables of schema `public`: names, types, keys, row-level security and policies. */
export const schemaText = async (
  { tenantDb, schemas }: SchemaTextDeps,
  { projectId, room, about }: { readonly projectId: string; readonly room: number; readonly about: string },
): Promise<string> => {
  const [schema, policies] = await Promise.all([schemas.get(projectId), readPolicies(tenantDb, projectId)]);
  return schemaContext(schema, { mostChars: room, policies: policies.map(guarded), about });
};
