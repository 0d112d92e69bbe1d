import type { ChatMessage, ChatRequest, ContentPart, ToolChoice } from '../chat.ts';
import { openStream, readChat, readModels } from './anthropic-answers.ts';
import { acceptedSchema, maxOutputTokensOf, takesSampling, takesSchema } from './anthropic-models.ts';
import { readDataUrl } from './data-url.ts';
import { type Dialect, ProviderFault, type Target } from './dialect.ts';
import { readFault } from './faults.ts';
import { argumentsOf, instructionsOf, jsonInWords, partsOf, plainText, turnsOf } from './turns.ts';

const apiVersion = '2023-06-01';

const headers = ({ apiKey }: Target): Record<string, string> => ({
  'content-type': 'application/json',
  'x-api-key': apiKey,
  'anthropic-version': apiVersion,
});

/** Anthropic's own SDK takes the base URL without `/v1`, others take it with it. */
const urlOf = ({ baseUrl }: Target, path: string): string => `${baseUrl.replace(/\/v1$/, '')}/v1/${path}`;

const contentBlock = (part: ContentPart): object => {
  if (part.type === 'text') return { type: 'text', text: part.text };
  const { url } = part.image_url;
  const inline = readDataUrl(url);
  const source = inline ? { type: 'base64', media_type: inline.mediaType, data: inline.base64 } : { type: 'url', url };
  return { type: 'image', source };
};

const blocksOf = (message: ChatMessage): readonly object[] => {
  const { role, content } = message;
  if (role === 'tool') {
    return [{ type: 'tool_result', tool_use_id: message.tool_call_id ?? '', content: plainText(content) }];
  }
  const calls = (message.tool_calls ?? []).map((call) => ({
    type: 'tool_use',
    id: call.id,
    name: call.function.name,
    input: argumentsOf(call.function.arguments),
  }));
  return [...partsOf(content).map(contentBlock), ...calls];
};

const toolChoice = (choice: ToolChoice): object => {
  if (typeof choice !== 'string') return { type: 'tool', name: choice.function.name };
  return { type: choice === 'required' ? 'any' : choice };
};

const toolFields = ({ tools, tool_choice: choice }: ChatRequest): object => {
  // A choice without tools is refused.
  if (!tools || tools.length === 0) return {};
  return {
    tools: tools.map(({ function: { name, description, parameters } }) => ({
      name,
      description,
      input_schema: parameters ?? { type: 'object', properties: {} },
    })),
    ...(choice !== undefined && { tool_choice: toolChoice(choice) }),
  };
};

/**
 * Temperatures above 1 count as 1, as in Anthropic's own OpenAI-compatible endpoint. With a temperature top_p is left out:
 * since Claude 4.1 only one of the two is taken.
 */
const samplingFields = ({ model, temperature, top_p: topP }: ChatRequest): object => {
  if (!takesSampling(model)) return {};
  if (temperature !== undefined) return { temperature: Math.min(temperature, 1) };
  return topP === undefined ? {} : { top_p: topP };
};

const stopFields = ({ stop }: ChatRequest): object => {
  const sequences = (typeof stop === 'string' ? [stop] : (stop ?? [])).filter((one) => one.trim() !== '');
  return sequences.length === 0 ? {} : { stop_sequences: sequences };
};

const bodyOf = (request: ChatRequest, stream: boolean): object => {
  const { model, response_format: format, max_tokens: maxTokens } = request;
  const schema = format?.type === 'json_schema' && takesSchema(model) ? format.json_schema.schema : undefined;
  const system = instructionsOf(request, schema === undefined ? jsonInWords(format) : '');
  return {
    model,
    max_tokens: maxTokens ?? maxOutputTokensOf(model),
    ...(system !== '' && { system }),
    messages: turnsOf(request.messages, blocksOf).map(({ role, blocks }) => ({ role, content: blocks })),
    ...samplingFields(request),
    ...stopFields(request),
    ...toolFields(request),
    ...(schema && { output_config: { format: { type: 'json_schema', schema: acceptedSchema(schema) } } }),
    stream,
  };
};

const noEmbeddings = (): never => {
  throw new ProviderFault('bad_request', 'Anthropic has no embeddings.');
};

const listUrl = (target: Target, after: string | null): string =>
  `${urlOf(target, 'models')}?limit=1000${after === null ? '' : `&after_id=${encodeURIComponent(after)}`}`;

export const anthropic: Dialect = {
  // It has none; `embeddings` says so.
  maxInputs: 1,
  chat: (target, request, stream) => ({
    method: 'POST',
    url: urlOf(target, 'messages'),
    headers: headers(target),
    body: JSON.stringify(bodyOf(request, stream)),
  }),
  readChat,
  openStream,
  embeddings: noEmbeddings,
  readEmbeddings: noEmbeddings,
  models: (target, after) => ({ method: 'GET', url: listUrl(target, after), headers: headers(target), body: null }),
  readModels,
  fault: readFault,
};
