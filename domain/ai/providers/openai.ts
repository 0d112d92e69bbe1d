import type { ChatMessage, ChatRequest } from '../chat.ts';
import type { ProviderName } from './catalog.ts';
import type { Dialect, EmbeddingRequest, Outgoing, Target } from './dialect.ts';
import { readFault } from './faults.ts';
import { objectIn } from './json.ts';
import { openStream, readChat, readEmbeddings, readModels } from './openai-answers.ts';

const headers = ({ apiKey }: Target): Record<string, string> => ({
  'content-type': 'application/json',
  authorization: `Bearer ${apiKey}`,
});

/** Only OpenAI itself knows the role; elsewhere it is called system, as it was before. */
const withoutDeveloper = (message: ChatMessage): ChatMessage =>
  message.role === 'developer' ? { ...message, role: 'system' } : message;

/** DeepSeek has JSON, but takes no schema: the prompt describes it in words. */
const schemaInWords = (request: ChatRequest): Partial<ChatRequest> => {
  const { response_format: format, messages } = request;
  if (format?.type !== 'json_schema') return {};
  const content = `Answer with one JSON object that fits this JSON Schema: ${JSON.stringify(format.json_schema.schema ?? {})}`;
  return { messages: [{ role: 'system', content }, ...messages], response_format: { type: 'json_object' } };
};

const bodyOf = (provider: ProviderName, target: Target, request: ChatRequest, stream: boolean): object => {
  const { extra, max_tokens: maxTokens, onlyOpenAi: _foreign, ...fields } = request;
  const isOpenAi = provider === 'openai' && target.isVendor;
  const adapted = provider === 'deepseek' && target.isVendor ? { ...fields, ...schemaInWords(request) } : fields;
  return {
    ...extra,
    ...adapted,
    messages: isOpenAi ? adapted.messages : adapted.messages.map(withoutDeveloper),
    // OpenAI's newer models refuse max_tokens, others know nothing else.
    ...(maxTokens !== undefined && { [isOpenAi ? 'max_completion_tokens' : 'max_tokens']: maxTokens }),
    stream,
    stream_options: stream ? { ...objectIn(extra?.['stream_options']), include_usage: true } : undefined,
  };
};

const embeddings = (target: Target, { model, input, dimensions }: EmbeddingRequest): Outgoing => ({
  method: 'POST',
  url: `${target.baseUrl}/embeddings`,
  headers: headers(target),
  // A quarter of the bytes, and no numbers to parse. Servers of the project's own may not have it.
  body: JSON.stringify({ model, input, dimensions, encoding_format: target.isVendor ? 'base64' : 'float' }),
});

/** OpenAI's dialect, as one of its speakers has it. */
export const createOpenAi = (provider: ProviderName): Dialect => ({
  maxInputs: 2048,
  chat: (target, request, stream) => ({
    method: 'POST',
    url: `${target.baseUrl}/chat/completions`,
    headers: headers(target),
    body: JSON.stringify(bodyOf(provider, target, request, stream)),
  }),
  readChat,
  openStream,
  embeddings,
  readEmbeddings,
  models: (target) => ({ method: 'GET', url: `${target.baseUrl}/models`, headers: headers(target), body: null }),
  readModels,
  fault: readFault,
});
