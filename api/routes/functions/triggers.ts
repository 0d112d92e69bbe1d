import { z } from 'zod';
import { faultOfPattern } from '#domain/events/events.ts';
import { createTrigger, listTriggers, removeTrigger } from '#domain/functions/triggers.ts';
import { retryPolicy } from '#queues/retry-policy.ts';
import { subscribeAfter } from '#api/streams/subscribe-after.ts';
import { inProject } from '../../access.ts';
import { type Endpoint, endpoint } from '../../endpoint.ts';
import { id, instant, namedObject, page, text } from '../../fields.ts';

const area = 'functions';
const path = '/projects/{project_id}/functions/{function_id}/triggers';
const params = z.object({ project_id: id, function_id: id });

const trigger = namedObject('Trigger', {
  id,
  function_id: id,
  event: z.string(),
  filter: z.string().nullable(),
  retry: retryPolicy.nullable(),
  is_active: z.boolean().describe('False: the platform turned it off, since its events failed for days.'),
  last_error: z.string().nullable().describe('Why the last event that led to no job did not.'),
  created_at: instant,
});

const body = z.strictObject({
  event: z
    .string()
    .superRefine((event, context) => {
      const message = faultOfPattern(event);
      if (message !== null) context.addIssue({ code: 'custom', message });
    })
    .describe('A name of GET …/integrations/events, a group such as `db.*`, or an event of the project’s own.'),
  filter: text(4096, 1)
    .nullable()
    .optional()
    .describe("Which of these events run it: `data.status = 'paid' and old.status <> 'paid'`. Null: all."),
  retry: retryPolicy.nullable().optional().describe('Of its jobs; null: as the function has it.'),
});

/** Events that run a function (contract, section 12). */
export const triggerEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'get',
    path,
    area,
    summary: 'The triggers of a function: events that run it',
    access: inProject('viewer'),
    params,
    query: page,
    response: z.object({ triggers: z.array(trigger), total: z.int() }),
    handle: async ({ params: { function_id: functionId }, query }, { db, project }) => {
      const { triggers, total } = await listTriggers(db, { projectId: project.id, functionId }, query);
      return { triggers: [...triggers], total };
    },
  }),
  endpoint({
    method: 'post',
    path,
    area,
    summary: 'Run a function whenever an event happens',
    access: inProject('developer'),
    params,
    body,
    status: 201,
    response: trigger,
    auditAction: 'function_trigger.create',
    handle: ({ params: { function_id: functionId }, body: { event, filter = null, retry = null } }, call) => {
      subscribeAfter(call);
      return createTrigger(call.db, { projectId: call.project.id, functionId }, { event, filter, retry });
    },
  }),
  endpoint({
    method: 'delete',
    path: `${path}/{trigger_id}`,
    area,
    summary: 'Delete a trigger; jobs that it made go on',
    access: inProject('developer'),
    params: params.extend({ trigger_id: id }),
    auditAction: 'function_trigger.delete',
    handle: async ({ params: { function_id: functionId, trigger_id: triggerId } }, call) => {
      await removeTrigger(call.db, { projectId: call.project.id, functionId, id: triggerId });
      subscribeAfter(call);
    },
  }),
];
