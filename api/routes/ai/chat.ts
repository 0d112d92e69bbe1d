import { z } from 'zod';
import type { EmbeddingRequest } from '#domain/ai/providers/dialect.ts';
import type { Project } from '#domain/projects/store.ts';
import { inProject, withKey } from '../../access.ts';
import { aiCallerOf } from '../../ai/call.ts';
import { numbersText, ownAnswer, ownOpening, vectorText } from '../../ai/own-form.ts';
import { chatAnswer, chatBody, embeddingsAnswer, embeddingsBody, eventsAnswer } from '../../ai/shapes.ts';
import { openingEvents } from '../../ai/stream.ts';
import type { BaseCall } from '../../call.ts';
import { type Endpoint, RawReply, endpoint } from '../../endpoint.ts';
import { id } from '../../fields.ts';
import { eventStreamHeaders, eventStreamType } from '#api/streams/sse.ts';

const area = 'ai';

const projectPath = z.object({ project_id: id });

type AiCall = BaseCall & { readonly project: Project };

const common = { method: 'post', area, rate: 'ai', bodyLimit: 'ai', transaction: 'none' } as const;

const answerChat = async (body: z.output<typeof chatBody>, call: AiCall): Promise<z.output<typeof chatAnswer>> =>
  ownAnswer(await call.deps.ai.gateway.chat(aiCallerOf(call, 'chat'), body));

const streamChat = async (body: z.output<typeof chatBody>, call: AiCall): Promise<RawReply> => {
  const { ai, config, log } = call.deps;
  const keepAliveMs = config.PLINTH_AI_KEEP_ALIVE_MS;
  const opening = ai.gateway.stream(aiCallerOf(call, 'stream'), body);
  const events = await openingEvents(opening, ownOpening, { log, keepAliveMs });
  for (const [name, value] of Object.entries(eventStreamHeaders)) call.setHeader(name, value);
  return new RawReply(events, eventStreamType);
};

const requestOf = ({ input, ...rest }: z.output<typeof embeddingsBody>): EmbeddingRequest => ({
  ...rest,
  input: typeof input === 'string' ? [input] : input,
});

const chat = { ...common, body: chatBody, response: chatAnswer } as const;
const stream = { ...common, body: chatBody, response: eventsAnswer, mediaType: eventStreamType } as const;

/** Chats and embeddings, the same for every provider (interface, AI gateway; contract, section 8). */
export const chatEndpoints: readonly Endpoint[] = [
  endpoint({
    ...chat,
    path: '/projects/{project_id}/ai/chat',
    summary: 'Ask a model',
    access: inProject('developer'),
    params: projectPath,
    handle: ({ body }, call) => answerChat(body, call),
  }),
  endpoint({
    ...stream,
    path: '/projects/{project_id}/ai/chat/stream',
    summary: 'Ask a model and read the answer while it is written, as server-sent events',
    access: inProject('developer'),
    params: projectPath,
    handle: ({ body }, call) => streamChat(body, call),
  }),
  endpoint({
    ...common,
    path: '/projects/{project_id}/ai/embeddings',
    summary: 'Vectors of texts',
    access: inProject('developer'),
    params: projectPath,
    body: embeddingsBody,
    response: embeddingsAnswer,
    handle: async ({ body }, call) => {
      const embedded = await call.deps.ai.gateway.embed(aiCallerOf(call, 'embeddings'), requestOf(body));
      const { vectors, dimensions, model, provider, usage } = embedded;
      const { prompt_tokens } = usage;
      const tail = JSON.stringify({ dimensions, model, provider, usage: { prompt_tokens } });
      const text = { head: '{"embeddings":[', vectors, write: numbersText, tail: `],${tail.slice(1)}` };
      return new RawReply(vectorText(text));
    },
  }),
  endpoint({
    ...chat,
    path: '/api/ai/chat',
    summary: 'Ask a model, by API key',
    access: withKey('secret'),
    handle: ({ body }, call) => answerChat(body, call),
  }),
  endpoint({
    ...stream,
    path: '/api/ai/chat/stream',
    summary: 'Ask a model by API key and read the answer while it is written, as server-sent events',
    access: withKey('secret'),
    handle: ({ body }, call) => streamChat(body, call),
  }),
];
