import { z } from 'zod';
import { getFunctionVersion, monthlyCaps, rerunOf } from '#domain/functions/functions.ts';
import { getInvocation, listInvocations } from '#domain/functions/invocations.ts';
import { maxListedBytes, maxListedLines } from '#domain/functions/run-report.ts';
import { inProject } from '../../access.ts';
import { type Endpoint, endpoint, jobEndpoint } from '../../endpoint.ts';
import { id, page } from '../../fields.ts';
import {
  functionPath,
  invocation,
  runStatus,
  runTrigger,
  shownInvocation,
  versionNumber,
  runResult,
} from '#api/shapes/functions.ts';
import { invocationEvents } from '#api/streams/invocation-events.ts';
import { timedReply } from '../../http/server-timing.ts';
import { runAnswer } from '../../run-answer.ts';
import { eventStreamHeaders } from '#api/streams/sse.ts';

const area = 'functions';

const invocationPath = functionPath.extend({ iid: id });

const filter = page.extend({
  status: runStatus.optional(),
  trigger: runTrigger.optional(),
  version: versionNumber.optional(),
});

/** Runs of functions (contract, section 4). */
export const invocationEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path: '/projects/{project_id}/functions/{id}/invocations',
    area,
    summary: 'The finished runs of a function, the latest first, each with the end of its log',
    access: inProject('viewer'),
    params: functionPath,
    query: filter,
    response: z.object({
      invocations: z.array(
        invocation.extend({
          logs: invocation.shape.logs.describe(`The last ${maxListedLines} lines, ${maxListedBytes} bytes at most.`),
        }),
      ),
      total: z.int().describe('Counted up to 100,000.'),
    }),
    handle: async ({ params, query }, { db, project }) => {
      await getFunctionVersion(db, project.id, { id: params.id });
      const { invocations, total } = await listInvocations(db, params.id, query);
      return { invocations: invocations.map(shownInvocation), total };
    },
  }),
  endpoint({
    method: 'get',
    path: '/projects/{project_id}/functions/{id}/invocations/{iid}',
    area,
    summary: 'A run with its log, also while it runs; live with Accept: text/event-stream',
    access: inProject('viewer'),
    params: invocationPath,
    response: invocation,
    handle: async (
      { params: { id: functionId, iid } },
      { db, deps, project, user, signInId, wantsEvents, setHeader },
    ) => {
      await getFunctionVersion(db, project.id, { id: functionId });
      if (!wantsEvents) return shownInvocation(await getInvocation(db, functionId, iid));
      const who = { projectId: project.id, userId: user.id, signInId };
      const events = await invocationEvents(deps, { functionId, id: iid }, who);
      for (const [name, value] of Object.entries(eventStreamHeaders)) setHeader(name, value);
      return events;
    },
  }),
  jobEndpoint({
    method: 'post',
    path: '/projects/{project_id}/functions/{id}/invocations/{iid}/rerun',
    area,
    summary: 'Run a function again with the payload of an earlier run; answers as invoke does',
    access: inProject('developer'),
    params: invocationPath,
    query: z.object({ version: z.enum(['current', 'original']).default('current') }),
    rate: 'none',
    response: runResult,
    request: ({ params, query }, { db, deps, project, requestId }) =>
      rerunOf(
        db,
        project,
        { functionId: params.id, id: params.iid },
        { version: query.version, requestId, caps: monthlyCaps(deps.config) },
      ),
    answer: (done, call) => Promise.resolve(timedReply(runAnswer(done), call)),
  }),
];
