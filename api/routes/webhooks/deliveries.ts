import { z } from 'zod';
import {
  type Ping,
  deletePing,
  findSent,
  getDelivery,
  insertPing,
  listDeliveries,
  listProjectDeliveries,
  maxListed,
  maxListedBodyLength,
  newPing,
} from '#domain/webhooks/deliveries.ts';
import { countReplay, redeliver } from '#domain/webhooks/replay.ts';
import { dataUrlOf } from '#domain/webhooks/message.ts';
import { pump } from '#domain/webhooks/scheduler.ts';
import type { EventRow } from '#domain/webhooks/store.ts';
import { getWebhook } from '#domain/webhooks/webhooks.ts';
import { createSearchLimit } from '#lib/search-limit.ts';
import { actingAs } from '#domain/audit/actor.ts';
import { webhookDeliver } from '#queues/webhook-deliver.ts';
import { type InProject, inProject } from '../../access.ts';
import type { Call } from '../../call.ts';
import { type Endpoint, type JobEnd, endpoint, jobEndpoint } from '../../endpoint.ts';
import { id } from '../../fields.ts';
import { delivery, deliveryQuery, projectDeliveryQuery, replayRequest, shownDelivery } from '#api/shapes/webhooks.ts';
import { replayOnce } from '../../webhook-replay.ts';

const area = 'webhooks';
const webhookAt = '/projects/{project_id}/integrations/webhooks/{webhook_id}';

const webhookPath = z.object({ project_id: id, webhook_id: id });
const deliveryPath = webhookPath.extend({ did: id });

const dataUrlIn =
  ({ deps, project, baseUrl }: Call<InProject>, webhookId: string) =>
  (event: EventRow): string =>
    dataUrlOf({ sealer: deps.projects.sealer(project), baseUrl }, { eventId: event.id, webhookId });

/** A list looks at the latest deliveries of every webhook, of which a project may have thousands. */
const withSearch = createSearchLimit("a project's deliveries");

const listEndpoint = endpoint({
  method: 'get',
  path: `${webhookAt}/deliveries`,
  area,
  summary: `The deliveries of a webhook, the latest first; bodies longer than ${maxListedBodyLength} bytes are null`,
  access: inProject('viewer'),
  params: webhookPath,
  query: deliveryQuery,
  response: z.object({ deliveries: z.array(delivery), total: z.int().describe(`Counted up to ${maxListed}.`) }),
  handle: async ({ params, query }, { deps, project }) => {
    const { id: webhookId } = await getWebhook(deps.db, project.id, params.webhook_id);
    const { deliveries, total } = await listDeliveries(deps.db, webhookId, query);
    return { deliveries: deliveries.map(shownDelivery), total };
  },
});

const allEndpoint = endpoint({
  method: 'get',
  path: '/projects/{project_id}/integrations/deliveries',
  area,
  summary: 'The deliveries of all webhooks of the project, the latest first',
  access: inProject('viewer'),
  params: z.object({ project_id: id }),
  query: projectDeliveryQuery,
  response: z.object({
    deliveries: z.array(delivery),
    next: id.nullable().describe('For `before`; null at the end.'),
  }),
  handle: async ({ query: { webhook_id: webhookId, status, ...query } }, { deps, project }) => {
    const statuses = status === undefined ? undefined : [status];
    const { deliveries, next } = await withSearch(project.id, () =>
      listProjectDeliveries(deps.db, project.id, { ...query, statuses, webhookId }),
    );
    return { deliveries: deliveries.map(shownDelivery), next };
  },
});

const getEndpoint = endpoint({
  method: 'get',
  path: `${webhookAt}/deliveries/{did}`,
  area,
  summary: 'A delivery: what was sent, and what was answered',
  access: inProject('viewer'),
  params: deliveryPath,
  response: delivery,
  handle: async ({ params }, call) => {
    const { id: webhookId } = await getWebhook(call.db, call.project.id, params.webhook_id);
    return shownDelivery(await getDelivery(call.db, { webhookId, id: params.did }, dataUrlIn(call, webhookId)));
  },
});

const redeliverEndpoint = endpoint({
  method: 'post',
  path: `${webhookAt}/deliveries/{did}/redeliver`,
  area,
  summary: 'Send a delivery once more, under the same `webhook-id`',
  access: inProject('developer'),
  params: deliveryPath,
  status: 202,
  response: delivery,
  handle: async ({ params }, call) => {
    const place = { projectId: call.project.id, webhookId: params.webhook_id, id: params.did };
    await redeliver(call.db, place);
    call.afterCommit(() => pump(call.deps, [place.webhookId]));
    return shownDelivery(await getDelivery(call.db, place, dataUrlIn(call, place.webhookId)));
  },
});

const replayEndpoint = endpoint({
  method: 'post',
  path: `${webhookAt}/replay`,
  area,
  summary: 'Send the deliveries of a time once more, skipped ones too; at most 100,000',
  access: inProject('developer'),
  params: webhookPath,
  body: replayRequest,
  status: 202,
  response: z.object({
    replayed: z.int(),
    matched: z.int().optional().describe('Of a dry run: how many would be sent, counted up to 100,000.'),
  }),
  // Each of its steps is a transaction.
  transaction: 'none',
  handle: async ({ params, body: { dry_run: isDryRun, ...body }, key }, call) => {
    const place = { projectId: call.project.id, webhookId: params.webhook_id };
    if (isDryRun) return { replayed: 0, matched: await countReplay(call.deps.db, place, body) };
    const replayed = await replayOnce(call, { webhookId: params.webhook_id, replay: body, key });
    call.afterCommit(() => pump(call.deps, [params.webhook_id]));
    return { replayed };
  },
});

const pinged = z.object({
  delivered: z.boolean(),
  status_code: z.int().nullable(),
  response_time_ms: z.int().nullable(),
  error: z.string().nullable(),
});

const requestOf = (ping: Ping, { actor, requestId }: Call<InProject>) => ({
  job: webhookDeliver,
  projectId: ping.projectId,
  requestId,
  data: { delivery_id: ping.deliveryId },
  alongside: (tx: Parameters<typeof insertPing>[0], jobId: string) => insertPing(tx, ping, jobId),
  undo: (tx: Parameters<typeof deletePing>[0]) => deletePing(tx, ping),
  actor: actingAs(actor),
});

/** A job that succeeds returns its delivery's id; the delivery has the rest. */
const pingAnswer = async ({ outcome }: JobEnd, { db, project }: Call<InProject>): Promise<z.output<typeof pinged>> => {
  const failed = { delivered: false, status_code: null, response_time_ms: null };
  if (outcome.result === null) return { ...failed, error: outcome.error?.message ?? 'The test could not be sent.' };
  const { delivery_id: deliveryId } = webhookDeliver.result.parse(JSON.parse(outcome.result));
  const sent = await findSent(db, project.id, deliveryId);
  if (sent === undefined) return { ...failed, error: 'The webhook was deleted meanwhile.' };
  return { ...sent, delivered: sent.status === 'success' };
};

const testEndpoint = jobEndpoint({
  method: 'post',
  path: `${webhookAt}/test`,
  area,
  summary: 'Send a `test.ping` now, once, to a webhook that is inactive too',
  access: inProject('developer'),
  params: webhookPath,
  response: pinged,
  request: async ({ params }, call) => {
    const { id: webhookId } = await getWebhook(call.db, call.project.id, params.webhook_id);
    return requestOf(newPing(call.project.id, webhookId), call);
  },
  answer: pingAnswer,
});

/** The deliveries of a webhook, and their replays (contract, section 6). */
export const deliveryEndpoints: readonly Endpoint[] = [
  listEndpoint,
  allEndpoint,
  getEndpoint,
  redeliverEndpoint,
  replayEndpoint,
  testEndpoint,
];
