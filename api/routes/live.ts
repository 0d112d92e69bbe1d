import { z } from 'zod';
import { projectDigest } from '#domain/live/digest.ts';
import { projectLive, stateOf } from '#api/streams/project-live.ts';
import { eventStreamHeaders } from '#api/streams/sse.ts';
import { inProject } from '../access.ts';
import { type Endpoint, endpoint } from '../endpoint.ts';
import { id } from '../fields.ts';

/** The changes of a project as they happen (decision 087). */
export const liveEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path: '/projects/{project_id}/live',
    area: 'projects',
    summary: 'Which of jobs, invocations, deliveries and schema change; live with Accept: text/event-stream',
    access: inProject('viewer'),
    params: z.object({ project_id: id }),
    response: z.object({
      id: z
        .string()
        .describe(
          'The present state; another text: something has changed, except of the schema. As events: `changed` with `{"topics": […]}`, the first `ready`, or with a `Last-Event-ID` what changed since then.',
        ),
    }),
    handle: async (_input, { deps, project, user, signInId, http, setHeader, wantsEvents }) => {
      if (!wantsEvents) return { id: stateOf(await projectDigest(deps.db, project.id)) };
      const who = { projectId: project.id, userId: user.id, signInId };
      const events = await projectLive(deps, who, http.headers['last-event-id']);
      for (const [name, value] of Object.entries(eventStreamHeaders)) setHeader(name, value);
      return events;
    },
  }),
];
