import { z } from 'zod';
import { eventGroups, eventKinds } from '#domain/events/events.ts';
import { dataParts, readEventData } from '#domain/webhooks/message.ts';
import { everyone, inProject } from '../access.ts';
import { type Endpoint, RawReply, endpoint } from '../endpoint.ts';
import { id } from '../fields.ts';

const area = 'webhooks';

const listed = z.object({ name: z.string(), group: z.enum(eventGroups), description: z.string() });

/** The events that can be subscribed to, and the data of events that are too large to be sent (contract, section 6). */
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
