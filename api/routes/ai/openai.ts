import { z } from 'zod';
import type { AiModel } from '#domain/ai/gateway/types.ts';
import type { Project } from '#domain/projects/store.ts';
import { ServiceError } from '#lib/errors.ts';
import { withKey } from '../../access.ts';
import { aiCallerOf } from '../../ai/call.ts';
import { completionText, embeddingsText, openAiModel, openAiOpening } from '../../ai/openai-form.ts';
import {
  type CompletionBody,
  completionAnswer,
  completionBody,
  embeddingsList,
  embeddingsRequest,
  inputsOf,
  modelAnswer,
  modelsAnswer,
  requestOf,
} from '../../ai/openai-shapes.ts';
import { openingEvents } from '../../ai/stream.ts';
import type { BaseCall } from '../../call.ts';
import { type Endpoint, RawReply, endpoint } from '../../endpoint.ts';
import { eventStreamHeaders, eventStreamType } from '#api/streams/sse.ts';

type AiCall = BaseCall & { readonly project: Project };

const common = { area: 'ai', rate: 'ai', errors: 'openai', access: withKey('secret') } as const;
const openaiCall = { ...common, method: 'post', bodyLimit: 'ai', transaction: 'none' } as const;

const streamCompletion = async (body: CompletionBody, call: AiCall): Promise<RawReply> => {
  const { ai, config, log } = call.deps;
  const keepAliveMs = config.PLINTH_AI_KEEP_ALIVE_MS;
  const opening = ai.gateway.stream(aiCallerOf(call, 'stream'), requestOf(body));
  const form = openAiOpening(body.stream_options?.include_usage === true);
  const events = await openingEvents(opening, form, { log, keepAliveMs });
  for (const [name, value] of Object.entries(eventStreamHeaders)) call.setHeader(name, value);
  return new RawReply(events, eventStreamType);
};

const complete = async (body: CompletionBody, call: AiCall): Promise<RawReply> =>
  body.stream === true
    ? streamCompletion(body, call)
    : new RawReply(completionText(await call.deps.ai.gateway.chat(aiCallerOf(call, 'chat'), requestOf(body))));

const listed = async (call: AiCall): Promise<readonly AiModel[]> => {
  const { project } = aiCallerOf(call, 'chat');
  return (await call.deps.ai.gateway.models(project)).models;
};

/**
 * A resource that a chat would require to be configured first is answered as not found when it is requested by itself.
 */
const asNotThere = (error: unknown): never => {
  if (!(error instanceof ServiceError) || error.code !== 'provider_not_configured') throw error;
  throw new ServiceError('model_not_found', error.message, { ...(error.hint !== null && { hint: error.hint }) });
};

/** A model that its provider lists, or one of a server of the project's own, which may have any. */
const findModel = async (name: string, call: AiCall): Promise<Pick<AiModel, 'id' | 'provider'>> => {
  const found = (await listed(call)).filter(({ id, provider }) => name === id || name === `${provider}/${id}`);
  const [model] = found;
  if (model !== undefined && found.length === 1) return model;
  const resolved = await call.deps.ai.gateway.resolve(call.project, name, 'chat').catch(asNotThere);
  return { id: resolved.model, provider: resolved.provider };
};

/**
 * The paths that OpenAI's clients call below `{root}` when that is their `baseURL`; `inRoot` are its path parameters.
 */
const endpointsBelow = (root: string, inRoot: z.ZodRawShape): Endpoint[] => [
  endpoint({
    ...openaiCall,
    path: `${root}/chat/completions`,
    summary: 'Ask a model, in OpenAI’s form',
    params: z.object(inRoot),
    body: completionBody,
    response: completionAnswer,
    handle: ({ body }, call) => complete(body, call),
  }),
  endpoint({
    ...openaiCall,
    path: `${root}/embeddings`,
    summary: 'Vectors of texts, in OpenAI’s form',
    params: z.object(inRoot),
    body: embeddingsRequest,
    response: embeddingsList,
    handle: async ({ body: { model, input, dimensions, encoding_format } }, call) => {
      const request = { model, input: inputsOf(input), dimensions: dimensions ?? undefined };
      const outcome = await call.deps.ai.gateway.embed(aiCallerOf(call, 'embeddings'), request);
      return new RawReply(embeddingsText(outcome, encoding_format === 'base64'));
    },
  }),
  endpoint({
    ...common,
    method: 'get',
    path: `${root}/models`,
    summary: 'The models of the project’s providers, in OpenAI’s form',
    params: z.object(inRoot),
    response: modelsAnswer,
    handle: async (_input, call) => ({ object: 'list' as const, data: (await listed(call)).map(openAiModel) }),
  }),
  endpoint({
    ...common,
    method: 'get',
    path: `${root}/models/{model}`,
    summary: 'One model; the slash in its name is written %2F',
    params: z.object({ ...inRoot, model: z.string() }),
    response: modelAnswer,
    handle: async ({ params }, call) => openAiModel(await findModel(params.model, call)),
  }),
];

/** The surface for OpenAI's clients, by API key (contract, section 8); a key names its project. */
export const openAiEndpoints: readonly Endpoint[] = [
  ...endpointsBelow('/v1', {}),
  ...endpointsBelow('/p/{ref}/v1', { ref: z.string() }),
];
