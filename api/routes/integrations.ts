import { z } from 'zod';
import { checkAddresses } from '#domain/integrations/config.ts';
import { findChat, findChatTest, sendChatTest } from '#domain/integrations/chats.ts';
import type { IdempotencyKey } from '#domain/idempotency/idempotency.ts';
import { type Checked, type CheckedProvider, checkProvider, providerBases } from '#domain/integrations/check.ts';
import {
  type Changed,
  configOf,
  configure,
  listIntegrations,
  remove,
  requireProvider,
  toggle,
} from '#domain/integrations/integrations.ts';
import { type ChatProvider, type ProviderName, isChat, providerNames } from '#domain/integrations/providers.ts';
import { pump } from '#domain/webhooks/scheduler.ts';
import { notFound } from '#lib/errors.ts';
import { type InProject, inProject } from '../access.ts';
import type { Call } from '../call.ts';
import { type Endpoint, endpoint } from '../endpoint.ts';
import { id, namedObject } from '../fields.ts';
import { subscribeAfter } from '#api/streams/subscribe-after.ts';

const area = 'integrations';

const integration = namedObject('Integration', {
  provider: z.enum(providerNames),
  category: z.enum(['messaging', 'email', 'payments']),
  configured: z.boolean(),
  is_active: z.boolean(),
  config: z.record(z.string(), z.unknown()).describe('Secrets are masked; empty when it is not configured.'),
});

const config = z
  .record(z.string(), z.unknown())
  .describe(
    [
      'slack, discord: webhook_url, events?',
      'resend: api_key, from_email, base_url?',
      'stripe: secret_key, webhook_secret, function_id?',
      'paypal: client_id, client_secret, webhook_id, environment (sandbox or live), base_url?, function_id?',
      'razorpay: key_id, key_secret, webhook_secret, function_id?',
      'A secret that is left out or sent back masked stays as it is; with another base_url it is required.',
    ].join('. '),
  );

const projectPath = z.object({ project_id: id });
const providerPath = z.object({ project_id: id, provider: z.string() });

const of = (name: string, { project, deps }: Call<InProject>) => ({
  project,
  provider: requireProvider(name),
  sealer: deps.projects.sealer(project),
});

/** Once it is committed: the project's database leaves the events that are asked for, and what waits is sent. */
const follow = ({ webhookId }: Pick<Changed, 'webhookId'>, call: Call<InProject>): void => {
  if (webhookId === null) return;
  subscribeAfter(call);
  call.afterCommit(() => pump(call.deps, [webhookId]));
};

type Key = IdempotencyKey | undefined;

/** It sends a message: once for a key. */
const testChat = async (provider: ChatProvider, call: Call<InProject>, key: Key): Promise<Checked> => {
  const { deps, db, project, requestId } = call;
  const earlier = key && (await findChatTest(deps, key));
  if (earlier) call.setHeader('Idempotent-Replayed', 'true');
  if (earlier) return earlier;
  await configOf(db, of(provider, call));
  const chat = await findChat(db, { project, kind: provider });
  if (chat === undefined) throw notFound('integration');
  const { checked, replayed } = await sendChatTest(deps, { projectId: project.id, webhookId: chat.id, requestId, key });
  if (replayed) call.setHeader('Idempotent-Replayed', 'true');
  return checked;
};

/** Nothing is stored of providers that are only queried, so a repeat queries again, whatever its key. */
const tested = async (provider: ProviderName, call: Call<InProject>, key: Key): Promise<Checked> => {
  if (isChat(provider)) return testChat(provider, call, key);
  const config = await configOf(call.db, of(provider, call));
  const checking = { egress: call.deps.egress, bases: providerBases };
  return checkProvider(checking, provider, config as Parameters<typeof checkProvider<CheckedProvider>>[2]);
};

/** A project's accounts with others (interface, "Integrations"; contract, section 6). */
export const integrationEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path: '/projects/{project_id}/integrations/providers',
    area,
    summary: 'All providers, configured or not; secrets are masked',
    access: inProject('viewer'),
    params: projectPath,
    response: z.object({ providers: z.array(integration), total: z.int() }),
    handle: async (_input, { db, deps, project }) => {
      const providers = await listIntegrations(db, deps.projects.sealer(project), project.id);
      return { providers: [...providers], total: providers.length };
    },
  }),
  endpoint({
    method: 'put',
    path: '/projects/{project_id}/integrations/providers/{provider}',
    area,
    summary: 'Configure a provider, or change its config',
    access: inProject('admin'),
    params: providerPath,
    body: z.strictObject({ config, is_active: z.boolean().optional() }),
    response: integration,
    prepare: ({ params, body }, { deps }) => checkAddresses(deps.egress, requireProvider(params.provider), body.config),
    handle: async ({ params, body }, call) => {
      const request = { config: body.config, isActive: body.is_active };
      const changed = await configure(call.db, of(params.provider, call), request);
      follow(changed, call);
      return changed.integration;
    },
  }),
  endpoint({
    method: 'delete',
    path: '/projects/{project_id}/integrations/providers/{provider}',
    area,
    summary: 'Delete a provider’s config',
    access: inProject('admin'),
    params: providerPath,
    handle: async ({ params }, call) => {
      const at = of(params.provider, call);
      await remove(call.db, at);
      if (isChat(at.provider)) subscribeAfter(call);
    },
  }),
  endpoint({
    method: 'post',
    path: '/projects/{project_id}/integrations/providers/{provider}/toggle',
    area,
    summary: 'Switch a provider off, or on again; its config stays',
    access: inProject('admin'),
    params: providerPath,
    response: integration,
    handle: async ({ params }, call) => {
      const changed = await toggle(call.db, of(params.provider, call));
      follow(changed, call);
      return changed.integration;
    },
  }),
  endpoint({
    method: 'post',
    path: '/projects/{project_id}/integrations/providers/{provider}/test',
    area,
    summary: 'Try a provider: ask it whether it takes the keys, or send the chat a message',
    access: inProject('admin'),
    params: providerPath,
    response: z.object({
      ok: z.boolean(),
      provider: z.enum(providerNames),
      latency_ms: z.number(),
      error: z.string().optional(),
    }),
    // It waits for others: no transaction is held open meanwhile.
    transaction: 'none',
    handle: async ({ params, key }, call) => {
      const provider = requireProvider(params.provider);
      const { ok, latencyMs, error } = await tested(provider, call, key);
      return { ok, provider, latency_ms: latencyMs, ...(error !== null && { error }) };
    },
  }),
];
