import { z } from 'zod';
import { pump } from '#domain/webhooks/scheduler.ts';
import { listWebhooks } from '#domain/webhooks/store.ts';
import {
  type OwnProject,
  createWebhook,
  defaultOverlapSeconds,
  getWebhook,
  maxOverlapSeconds,
  removeWebhook,
  rotateSecret,
  updateWebhook,
} from '#domain/webhooks/webhooks.ts';
import { ServiceError } from '#lib/errors.ts';
import { type InProject, inProject } from '../access.ts';
import type { Call } from '../call.ts';
import { type Endpoint, endpoint } from '../endpoint.ts';
import { id, page } from '../fields.ts';
import { listenToDeliveries } from '#api/streams/listener.ts';
import { eventStreamHeaders, eventStreamType } from '#api/streams/sse.ts';
import { subscribeAfter } from '#api/streams/subscribe-after.ts';
import {
  fieldsOf,
  newWebhook,
  ownSecret,
  shownWebhook,
  webhook,
  webhookChange,
  webhookWithSecret,
} from '#api/shapes/webhooks.ts';

const area = 'webhooks';
const webhooksPath = '/projects/{project_id}/integrations/webhooks';

const projectPath = z.object({ project_id: id });
const webhookPath = z.object({ project_id: id, webhook_id: id });

const defaultRatePerSecond = 50;

const ownProject = ({ deps, project }: Call<InProject>): OwnProject => ({
  id: project.id,
  sealer: deps.projects.sealer(project),
});

/**
 * Checks an address before it is looked up.
 * @throws {ServiceError} `validation_failed`
 */
const checkUrl = ({ url }: { readonly url?: string | undefined }, { deps }: Call<InProject>): Promise<void> => {
  if (url === undefined) return Promise.resolve();
  try {
    deps.egress.check(url);
    return Promise.resolve();
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    const details = [{ path: 'url', message: error.message }];
    const hint = error.hint === null ? {} : { hint: error.hint };
    throw new ServiceError('validation_failed', 'The body is not valid.', { details, ...hint });
  }
};

const readEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path: webhooksPath,
    area,
    summary: 'The project’s webhooks',
    access: inProject('viewer'),
    params: projectPath,
    query: page,
    response: z.object({ webhooks: z.array(webhook), total: z.int() }),
    handle: async ({ query }, { db, project }) => {
      const { webhooks, total } = await listWebhooks(db, project.id, query);
      return { webhooks: webhooks.map(shownWebhook), total };
    },
  }),
  endpoint({
    method: 'get',
    path: `${webhooksPath}/{webhook_id}`,
    area,
    summary: 'A webhook, without its secret',
    access: inProject('viewer'),
    params: webhookPath,
    response: webhook,
    handle: async ({ params }, { db, project }) => shownWebhook(await getWebhook(db, project.id, params.webhook_id)),
  }),
];

const maxReplay = 100;

const listenEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'post',
    path: '/projects/{project_id}/webhooks/listen',
    area,
    summary: 'Receive the deliveries of a temporary webhook as server-sent events, until the connection ends',
    access: inProject('developer'),
    params: projectPath,
    body: z.strictObject({
      events: newWebhook.shape.events.default(['*']),
      filter: newWebhook.shape.filter.default(null),
      secret: ownSecret.describe('Signs the deliveries; the caller keeps it over several connections.'),
      replay: z.int().min(0).max(maxReplay).default(0).describe('So many events of the past come first.'),
    }),
    transaction: 'none',
    mediaType: eventStreamType,
    response: z.string(),
    handle: async ({ body }, call) => {
      const { filter, ...rest } = body;
      const events = await listenToDeliveries(call, { ...rest, filter: filter ?? null });
      for (const [header, value] of Object.entries(eventStreamHeaders)) call.setHeader(header, value);
      return events;
    },
  }),
];

const changeEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'post',
    path: webhooksPath,
    area,
    summary: 'Have events sent to an address',
    access: inProject('developer'),
    params: projectPath,
    body: newWebhook,
    status: 201,
    response: webhookWithSecret,
    prepare: ({ body }, call) => checkUrl(body, call),
    handle: async ({ body }, call) => {
      const { is_active: isActive = true, filter = null, name = null, ...rest } = fieldsOf(body);
      subscribeAfter(call);
      return shownWebhook(
        await createWebhook(call.db, ownProject(call), {
          ...rest,
          filter,
          name,
          is_active: isActive,
          send_secret: rest.send_secret ?? false,
          rate_per_second: rest.rate_per_second ?? defaultRatePerSecond,
        }),
      );
    },
  }),
  endpoint({
    method: 'put',
    path: `${webhooksPath}/{webhook_id}`,
    area,
    summary: 'Change a webhook: what is left out stays',
    access: inProject('developer'),
    params: webhookPath,
    body: webhookChange,
    response: webhook,
    prepare: ({ body }, call) => checkUrl(body, call),
    handle: async ({ params, body }, call) => {
      const row = await updateWebhook(call.db, ownProject(call), { id: params.webhook_id, change: fieldsOf(body) });
      call.afterCommit(() => pump(call.deps, [row.id]));
      if (body.events !== undefined) subscribeAfter(call);
      return shownWebhook(row);
    },
  }),
  endpoint({
    method: 'delete',
    path: `${webhooksPath}/{webhook_id}`,
    area,
    summary: 'Delete a webhook: nothing more is sent to it',
    access: inProject('developer'),
    auditAction: 'webhook.delete',
    params: webhookPath,
    handle: async ({ params }, call) => {
      await removeWebhook(call.db, call.project.id, params.webhook_id);
      call.afterCommit(() => pump(call.deps, [params.webhook_id]));
      subscribeAfter(call);
    },
  }),
  endpoint({
    method: 'post',
    path: `${webhooksPath}/{webhook_id}/rotate-secret`,
    area,
    summary: 'Replace the signing secret; the old one signs beside the new one for overlap_seconds',
    access: inProject('developer'),
    auditAction: 'webhook.rotate_secret',
    params: webhookPath,
    body: z.strictObject({
      secret: ownSecret.optional(),
      overlap_seconds: z
        .int()
        .min(0)
        .max(maxOverlapSeconds)
        .default(defaultOverlapSeconds)
        .describe('0: the old secret signs nothing any more.'),
    }),
    response: webhookWithSecret,
    handle: async ({ params, body }, call) =>
      shownWebhook(
        await rotateSecret(call.db, ownProject(call), {
          id: params.webhook_id,
          secret: body.secret,
          overlapSeconds: body.overlap_seconds,
        }),
      ),
  }),
];

/** The webhooks that receive a project's events (contract, section 6). */
export const webhookEndpoints: readonly Endpoint[] = [...readEndpoints, ...listenEndpoints, ...changeEndpoints];
