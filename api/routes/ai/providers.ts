import { z } from 'zod';
import {
  checkBaseUrl,
  configureKey,
  listKeys,
  removeKey,
  requireAiProvider,
  noteTested,
} from '#domain/ai/keys/keys.ts';
import { providerNames } from '#domain/ai/providers/providers.ts';
import { type InProject, inProject } from '../../access.ts';
import type { Call } from '../../call.ts';
import { type Endpoint, RawReply, endpoint } from '../../endpoint.ts';
import { id, instant, namedObject } from '../../fields.ts';
import { jsonType } from '#api/http/reply.ts';

const area = 'ai';

const entry = namedObject('AiProvider', {
  provider: z.enum(providerNames),
  configured: z.boolean(),
  masked_key: z.string().nullable().describe('Null when it is not configured; the times too.'),
  base_url: z.string().nullable().describe('Null: the provider’s own.'),
  supports: z.object({ chat: z.boolean(), stream: z.boolean(), embeddings: z.boolean() }),
  created_at: instant.nullable(),
  updated_at: instant.nullable(),
  last_tested_at: instant.nullable().describe('Null: the key was not tested since it was changed.'),
  last_test_ok: z.boolean().nullable(),
});

const model = namedObject('AiModel', {
  id: z.string(),
  provider: z.enum(providerNames),
  type: z.enum(['chat', 'embedding']),
  context_window: z.int().nullable(),
  dimensions: z.int().nullable().describe('Of an embedding model’s vectors; null: not known.'),
  price: z
    .object({ input: z.number(), output: z.number() })
    .nullable()
    .describe('In USD for a million tokens; null: not known.'),
});

const projectPath = z.object({ project_id: id });
const providerPath = z.object({ project_id: id, provider: z.string() });

const maxKey = 4096;
const maxUrl = 2000;

const followChange = ({ deps, project, afterCommit }: Call<InProject>): void =>
  afterCommit(() => deps.projectChanged(project.id));

/** A project's own keys for providers of models (contract, section 8). */
export const aiProviderEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path: '/projects/{project_id}/ai/providers',
    area,
    summary: 'All providers of models, configured or not; keys are masked',
    access: inProject('viewer'),
    params: projectPath,
    response: z.object({ providers: z.array(entry), total: z.int() }),
    handle: async (_input, { db, project }) => {
      const providers = await listKeys(db, project.id);
      return { providers: [...providers], total: providers.length };
    },
  }),
  endpoint({
    method: 'post',
    path: '/projects/{project_id}/ai/providers',
    area,
    summary: 'Add a provider’s key (201), or change the one that is there (200)',
    access: inProject('admin'),
    params: projectPath,
    body: z.strictObject({
      provider: z.enum(providerNames),
      api_key: z
        .string()
        .min(1)
        .max(maxKey)
        .optional()
        .describe('Left out or sent back masked, the key that is there stays; another base_url needs it again.'),
      base_url: z
        .string()
        .min(1)
        .max(maxUrl)
        .nullable()
        .optional()
        .describe('As the vendor’s own SDK takes it. Null: the vendor’s own. Left out: as it is.'),
    }),
    response: entry,
    prepare: async ({ body: { base_url: requested } }, { deps }) =>
      typeof requested === 'string' ? await checkBaseUrl(deps.egress, requested) : requested,
    handle: async ({ body, prepared: baseUrl }, call) => {
      const { db, deps, project } = call;
      const of = { projectId: project.id, sealer: deps.projects.sealer(project) };
      const changed = await configureKey(db, of, { provider: body.provider, apiKey: body.api_key, baseUrl });
      followChange(call);
      return new RawReply(JSON.stringify(z.encode(entry, changed.entry)), jsonType, changed.added ? 201 : 200);
    },
  }),
  endpoint({
    method: 'delete',
    path: '/projects/{project_id}/ai/providers/{provider}',
    area,
    summary: 'Delete a provider’s key; answers that have begun go on',
    access: inProject('admin'),
    params: providerPath,
    handle: async ({ params }, call) => {
      await removeKey(call.db, call.project.id, requireAiProvider(params.provider));
      followChange(call);
    },
  }),
  endpoint({
    method: 'post',
    path: '/projects/{project_id}/ai/providers/{provider}/test',
    area,
    summary: 'Ask a provider whether it takes the key',
    access: inProject('developer'),
    rate: 'ai',
    params: providerPath,
    response: z.object({
      ok: z.boolean(),
      provider: z.enum(providerNames),
      latency_ms: z.int(),
      error: z.string().optional(),
    }),
    // It waits for others: no transaction is held open meanwhile.
    transaction: 'none',
    handle: async ({ params }, { db, deps, project, requestId, disconnection }) => {
      const provider = requireAiProvider(params.provider);
      const caller = { project, kind: 'test', requestId, signal: disconnection } as const;
      const key = await deps.ai.keys.find(project, provider);
      const { ok, latencyMs, error } = await deps.ai.gateway.test(caller, provider);
      if (key) await noteTested(db, key, ok);
      return { ok, provider, latency_ms: latencyMs, ...(error !== null && { error }) };
    },
  }),
  endpoint({
    method: 'get',
    path: '/projects/{project_id}/ai/models',
    area,
    summary: 'The models of all configured providers; `failed` names those that could not be asked',
    access: inProject('viewer'),
    rate: 'ai',
    params: projectPath,
    response: z.object({
      models: z.array(model),
      failed: z.array(z.object({ provider: z.enum(providerNames), message: z.string() })).optional(),
    }),
    handle: async (_input, { deps, project }) => {
      const { models, failed } = await deps.ai.gateway.models(project);
      return { models: [...models], ...(failed.length > 0 && { failed: [...failed] }) };
    },
  }),
];
