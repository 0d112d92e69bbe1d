import { z } from 'zod';
import { eventGroups, eventKinds, faultOfCustomName } from '#domain/events/events.ts';
import { emitCustomEvent } from '#domain/webhooks/custom-events.ts';
import { dataParts, readEventData } from '#domain/webhooks/message.ts';
import type { BaseCall, DataCall } from '../call.ts';
import { everyone, inProject, withKey } from '../access.ts';
import { type Endpoint, RawReply, endpoint } from '../endpoint.ts';
import { id } from '../fields.ts';
import { exactBody } from '../http/exact-body.ts';

const area = 'webhooks';

const listed = z.object({ name: z.string(), group: z.enum(eventGroups), description: z.string() });

const ownEvent = z.strictObject({
  name: z
    .string()
    .superRefine((eventName, context) => {
      const message = faultOfCustomName(eventName);
      if (message !== null) context.addIssue({ code: 'custom', message });
    })
    .describe('Such as `order.paid`; not one of the platform’s own groups.'),
  data: z.unknown().optional().describe('Any JSON, at most 256 KB; null when it is left out.'),
});

const emit = async (
  { db, deps, project, afterCommit }: BaseCall & Pick<DataCall, 'project'>,
  { name, data }: z.output<typeof ownEvent>,
): Promise<{ name: string }> => {
  await emitCustomEvent(db, project.id, { name, data: JSON.stringify(data ?? null), depth: 0 });
  afterCommit(async () => deps.events.markWaiting());
  return { name };
};

/** The events that can be subscribed to, a project's own events, and the data of events that are too large to be sent (contract, section 6). */
export const eventEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path: '/projects/{project_id}/integrations/events',
    area,
    summary: 'What webhooks can subscribe to',
    access: inProject('viewer'),
    params: z.object({ project_id: id }),
    response: z.object({ events: z.array(listed) }),
    handle: () => Promise.resolve({ events: [...eventKinds] }),
  }),
  endpoint({
    method: 'post',
    path: '/projects/{project_id}/integrations/events',
    area,
    summary: 'Emit an event of the project’s own as a member, to try what subscribes to it',
    access: inProject('developer'),
    params: z.object({ project_id: id }),
    body: ownEvent,
    status: 202,
    response: z.object({ name: z.string() }),
    handle: ({ body, bodyText }, call) => emit(call, exactBody(body, bodyText)),
  }),
  endpoint({
    method: 'post',
    path: '/api/events',
    area,
    summary: 'Emit an event of the project’s own: functions with a trigger for it run',
    access: withKey('secret'),
    rate: 'data',
    body: ownEvent,
    status: 202,
    response: z.object({ name: z.string() }),
    handle: ({ body, bodyText }, call) => emit(call, exactBody(body, bodyText)),
  }),
  endpoint({
    method: 'get',
    path: '/hooks/events/{event_id}/data',
    area,
    summary: 'The data of an event that is too large for a delivery: the `data_url` of the delivery leads here',
    access: everyone,
    rate: 'data',
    params: z.object({ event_id: id }),
    query: z.object({
      token: z.string().min(1).max(200),
      part: z.enum(dataParts).default('data').describe('`old`: the row before an update.'),
    }),
    response: z.unknown().describe('As it would stand in the delivery under the name of the part.'),
    handle: async ({ params, query }, { deps }) =>
      new RawReply(await readEventData(deps, { eventId: params.event_id, ...query })),
  }),
];
