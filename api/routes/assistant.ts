import { z } from 'zod';
import type { Exchange } from '#domain/assistant/assistant.ts';
import { toServiceError } from '#lib/errors.ts';
import { inProject } from '../access.ts';
import { aiCallerOf } from '../ai/call.ts';
import { model } from '../ai/shapes.ts';
import { type Endpoint, RawReply, endpoint } from '../endpoint.ts';
import { id, text } from '../fields.ts';
import { type PacedEvents, openPacedEvents } from '#api/streams/paced-events.ts';
import { eventStreamHeaders, eventStreamType } from '#api/streams/sse.ts';

const maxMessageLength = 10_000;

const handOn = async (exchange: Exchange, events: PacedEvents): Promise<void> => {
  try {
    for await (const chunk of exchange.pieces()) if (!(await events.send({ chunk }))) return;
    await events.send({ done: true, context_used: exchange.contextUsed, cached: exchange.cached() });
  } catch (error) {
    const { code, message } = toServiceError(error);
    await events.send({ error: { code, message }, done: true });
  }
  events.end();
};

/** `{chunk}` events, at last `{done:true,context_used,cached}` or `{error:{code,message},done:true}`. */
const streamed = async (exchange: Exchange): Promise<RawReply> => {
  await exchange.started;
  const events = openPacedEvents();
  void handOn(exchange, events);
  return new RawReply(events.body, eventStreamType);
};

/** Questions about the project (interface, "Assistant exchange"; contract, section 8). */
export const assistantEndpoints: readonly Endpoint[] = [
  endpoint({
    method: 'post',
    path: '/projects/{project_id}/zy/chat',
    area: 'ai',
    summary: 'Ask the assistant about the project; as events with Accept: text/event-stream',
    access: inProject('developer'),
    params: z.object({ project_id: id }),
    rate: 'ai',
    body: z.strictObject({
      message: text(maxMessageLength, 1).refine((value) => value.trim() !== '', { error: 'must not be blank' }),
      model: model.optional(),
    }),
    response: z.object({ response: z.string(), context_used: z.array(z.string()), cached: z.boolean() }),
    transaction: 'none',
    handle: async ({ body }, call) => {
      const exchange = await call.deps.assistant.ask(aiCallerOf(call, 'assistant'), body);
      if (call.wantsEvents) {
        const reply = await streamed(exchange);
        for (const [name, value] of Object.entries(eventStreamHeaders)) call.setHeader(name, value);
        return reply;
      }
      const response = await exchange.whole;
      return { response, context_used: [...exchange.contextUsed], cached: exchange.cached() };
    },
  }),
];
