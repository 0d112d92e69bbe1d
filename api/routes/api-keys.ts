import { z } from 'zod';
import { createApiKey, deleteApiKey, listApiKeys, rollApiKey } from '#domain/projects/api-keys.ts';
import { inProject } from '../access.ts';
import { type Endpoint, endpoint } from '../endpoint.ts';
import { id, instant, name, namedObject, page, shownOnce } from '../fields.ts';

const area = 'api-keys';

const kind = z.enum(['secret', 'publishable']);

const key = namedObject('ApiKey', {
  id,
  name: z.string(),
  kind,
  prefix: z.string(),
  last_four: z.string(),
  expires_at: instant.nullable(),
  created_at: instant,
});

const usedKey = namedObject('UsedApiKey', {
  ...key.shape,
  last_used_at: instant.nullable().describe('Exact to the minute; null: it was not used yet.'),
});

const created = namedObject('ApiKeyWithSecret', {
  ...key.shape,
  api_key: shownOnce(z.string()).describe('The key. It appears here only.'),
});

const projectPath = z.object({ project_id: id });
const keyPath = z.object({ project_id: id, key_id: id });

const maxOverlapSeconds = 30 * 24 * 3600;

const inTheFuture = instant.refine((value) => value > new Date(), { error: 'must be in the future' });

/** The keys of a project (contract, section 2): kept as hashes, shown once. */
export const apiKeyEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path: '/projects/{project_id}/api-keys',
    area,
    summary: 'The project’s keys, masked',
    access: inProject('viewer'),
    params: projectPath,
    query: page,
    response: z.object({ api_keys: z.array(usedKey), total: z.int() }),
    handle: ({ query }, { db, project }) => listApiKeys(db, project.id, query),
  }),
  endpoint({
    method: 'post',
    path: '/projects/{project_id}/api-keys',
    area,
    summary: 'Make a key',
    access: inProject('admin'),
    params: projectPath,
    body: z.strictObject({ name, kind, expires_at: inTheFuture.nullish() }),
    status: 201,
    response: created,
    handle: ({ body }, { db, project }) =>
      createApiKey(db, project.id, { name: body.name, kind: body.kind, expiresAt: body.expires_at ?? null }),
  }),
  endpoint({
    method: 'delete',
    path: '/projects/{project_id}/api-keys/{key_id}',
    area,
    summary: 'Delete a key: it stops working at once',
    access: inProject('admin'),
    params: keyPath,
    handle: async ({ params }, { db, deps, project, afterCommit }) => {
      await deleteApiKey(db, project.id, params.key_id);
      afterCommit(() => deps.projectChanged(project.id));
    },
  }),
  endpoint({
    method: 'post',
    path: '/projects/{project_id}/api-keys/{key_id}/roll',
    area,
    summary: 'Replace a key; the old one stops at once or after overlap_seconds',
    access: inProject('admin'),
    auditAction: 'api_key.roll',
    params: keyPath,
    body: z.strictObject({ overlap_seconds: z.int().min(0).max(maxOverlapSeconds).default(0) }),
    status: 201,
    response: created,
    handle: ({ params, body }, { db, deps, project, afterCommit }) => {
      afterCommit(() => deps.projectChanged(project.id));
      return rollApiKey(db, project.id, params.key_id, body.overlap_seconds);
    },
  }),
];
