import { z } from 'zod';
import { projectLive } from '#api/streams/project-live.ts';
import { eventStreamHeaders, eventStreamType } from '#api/streams/sse.ts';
import { inProject } from '../access.ts';
import { type Endpoint, endpoint } from '../endpoint.ts';
import { id } from '../fields.ts';

/** The changes of a project as they happen (decision 087). */
export const liveEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path: '/projects/{project_id}/live',
    area: 'projects',
    summary: 'Which of jobs, invocations, deliveries and schema change, as server-sent events',
    access: inProject('viewer'),
    params: z.object({ project_id: id }),
    response: z
      .string()
      .describe(
        '`changed` with `{"topics": […]}`; the first event is `ready`, or with a `Last-Event-ID` what changed since then. Ends after five minutes at most.',
      ),
    mediaType: eventStreamType,
    handle: async (_input, { deps, project, user, signInId, http, setHeader }) => {
      const who = { projectId: project.id, userId: user.id, signInId };
      const events = await projectLive(deps, who, http.headers['last-event-id']);
      for (const [name, value] of Object.entries(eventStreamHeaders)) setHeader(name, value);
      return events;
    },
  }),
];
