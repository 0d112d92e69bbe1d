import { z } from 'zod';
import { type ArenaCaller, type ArenaChat, arenaFailure } from '#domain/ai/arena.ts';
import type { AiCaller } from '#domain/ai/gateway/types.ts';
import { aiArena } from '#queues/ai-arena.ts';
import { inProject } from '../../access.ts';
import { aiCallerOf } from '../../ai/call.ts';
import { chatBody, model } from '../../ai/shapes.ts';
import { arenaEvents } from '../../ai/arena-events.ts';
import type { BaseCall } from '../../call.ts';
import { type Endpoint, type JobEnd, RawReply, jobEndpoint } from '../../endpoint.ts';
import { id } from '../../fields.ts';
import { aiJobFailure } from '../../job-error.ts';
import { eventStreamHeaders } from '#api/streams/sse.ts';

const body = chatBody
  .omit({ model: true })
  .extend({ models: z.array(model).min(2).max(4).describe('One may be named twice.') });

const answerOf = ({ outcome: { status, result, error } }: Pick<JobEnd, 'outcome'>): RawReply => {
  if (status === 'succeeded' && result !== null) return new RawReply(result);
  const entries = result === null ? null : aiArena.result.parse(JSON.parse(result)).results;
  throw (entries && arenaFailure(entries)) ?? aiJobFailure(error, entries);
};

const arenaCallerOf = ({ deps }: BaseCall, caller: AiCaller): ArenaCaller => ({
  gateway: deps.ai.gateway,
  caller,
  noteFault: (error) => deps.log.error({ err: error }, 'a model of an arena could not be called'),
});

/** Several models side by side (interface, "Arena"; contract, section 8). */
export const arenaEndpoints: readonly Endpoint[] = [
  jobEndpoint({
    method: 'post',
    path: '/projects/{project_id}/ai/arena',
    area: 'ai',
    summary: 'Ask 2 to 4 models the same, side by side; as events with Accept: text/event-stream',
    access: inProject('developer'),
    params: z.object({ project_id: id }),
    rate: 'ai',
    bodyLimit: 'ai',
    body,
    response: aiArena.result,
    request: ({ body: { models, ...chat } }, call) => {
      const { project, requestId } = aiCallerOf(call, 'arena');
      return Promise.resolve({ job: aiArena, projectId: project.id, requestId, data: { models, chat } });
    },
    answer: (done) => Promise.resolve(answerOf(done)),
    streamed: ({ body: { models, ...chat } }, call) => {
      for (const [name, value] of Object.entries(eventStreamHeaders)) call.setHeader(name, value);
      return arenaEvents(arenaCallerOf(call, { ...aiCallerOf(call, 'arena'), direct: true }), {
        models,
        chat: chat satisfies ArenaChat,
      });
    },
  }),
];
