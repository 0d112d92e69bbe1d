import { endianness } from 'node:os';
import type { ChatMessage, ChatPiece, ChatRequest, FinishReason, TokenUsage, ToolCallPart } from '../chat.ts';
import type { ProviderName } from './providers.ts';
import { type Dialect, type Outgoing, type SentEvent, type StreamReader, type Target, outgoing } from './dialect.ts';
import { sentFault } from './faults.ts';
import {
  type Loose,
  badAnswer,
  countIn,
  listIn,
  modelsIn,
  objectIn,
  parseEvent,
  parseObject,
  requireAll,
  requireFew,
  textIn,
  toolCall,
  usageOf,
  vectorIn,
} from './json.ts';

const requestTo = ({ baseUrl, apiKey }: Target, path: string, body?: object): Outgoing =>
  outgoing(`${baseUrl}/${path}`, { authorization: `Bearer ${apiKey}` }, body);

/** Only OpenAI itself knows the role; elsewhere it is called system, as it was before. */
const withoutDeveloper = (message: ChatMessage): ChatMessage =>
  message.role === 'developer' ? { ...message, role: 'system' } : message;

/** DeepSeek has JSON, but takes no schema: the prompt describes it in words. */
const schemaInWords = (request: ChatRequest): Partial<ChatRequest> => {
  const { response_format: format, messages } = request;
  if (format?.type !== 'json_schema') return {};
  const schema = JSON.stringify(format.json_schema.schema ?? {});
  const content = `Answer with one JSON object that fits this JSON Schema: ${schema}`;
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

const finishes: Readonly<Record<string, FinishReason>> = {
  stop: 'stop',
  length: 'length',
  tool_calls: 'tool_calls',
  function_call: 'tool_calls',
  content_filter: 'content_filter',
};

/** Null: not said yet. What is not known is an end like any other. */
const finishIn = (value: unknown): FinishReason | null =>
  typeof value === 'string' && value !== '' ? (finishes[value] ?? 'stop') : null;

/**
 * DeepSeek has its own name for tokens read from the cache, resellers of Anthropic's models report those written, and
 * xAI counts what a model thought in the total only.
 */
const usageIn = (value: unknown, tier: unknown): TokenUsage | null => {
  const usage = objectIn(value);
  const details = objectIn(usage['prompt_tokens_details']);
  const prompt = countIn(usage['prompt_tokens']);
  const completion = countIn(usage['completion_tokens']);
  const rest = (countIn(usage['total_tokens']) ?? 0) - (prompt ?? 0);
  return usageOf({
    prompt_tokens: prompt,
    completion_tokens: completion === null ? null : Math.max(completion, rest),
    cached_tokens: countIn(details['cached_tokens']) ?? countIn(usage['prompt_cache_hit_tokens']),
    cache_write_tokens: countIn(details['cache_write_tokens']) ?? countIn(usage['cache_creation_input_tokens']),
    reasoning_tokens: countIn(objectIn(usage['completion_tokens_details'])['reasoning_tokens']),
    service_tier: tier,
  });
};

const isError = (value: unknown): boolean => value !== undefined && value !== null;

/** Some answer an error with status 200. */
const requireNoError = ({ error }: Loose): void => {
  if (isError(error)) throw sentFault(typeof error === 'string' ? { message: error } : objectIn(error));
};

const toolCallIn = (value: unknown, index: number) => {
  const call = objectIn(value);
  const called = objectIn(call['function']);
  return toolCall(textIn(call['id']) || `call_${index}`, textIn(called['name']), textIn(called['arguments']));
};

/** Text, or what the model says in place of it when it refuses. */
const textOf = (message: Loose): string => textIn(message['content']) || textIn(message['refusal']);

const readChat: Dialect['readChat'] = (body) => {
  const answer = parseObject(body);
  requireNoError(answer);
  const choices = listIn(answer['choices']).map(objectIn);
  requireFew(choices.length, 'choices');
  // With n > 1 there are several; the first is the answer, all are in `raw` and in the usage.
  const choice = choices.find((one) => one['index'] === 0) ?? choices[0];
  if (choice === undefined || typeof choice['message'] !== 'object') throw badAnswer('The answer holds no message.');
  const message = objectIn(choice['message']);
  const toolCalls = listIn(message['tool_calls']);
  requireFew(toolCalls.length, 'tool calls');
  return {
    model: textIn(answer['model']),
    content: textOf(message),
    toolCalls: toolCalls.map(toolCallIn),
    finish: finishIn(choice['finish_reason']) ?? 'stop',
    usage: usageIn(answer['usage'], answer['service_tier']),
    raw: body,
  };
};

const noCalls: readonly ToolCallPart[] = [];

const toolPartIn = (value: unknown, position: number): ToolCallPart => {
  const part = objectIn(value);
  const { id } = part;
  const { name, arguments: text } = objectIn(part['function']);
  return {
    index: countIn(part['index']) ?? position,
    ...(typeof id === 'string' && { id }),
    ...(typeof name === 'string' && { name }),
    ...(typeof text === 'string' && { arguments: text }),
  };
};

const callsIn = (value: unknown): readonly ToolCallPart[] => {
  const calls = listIn(value);
  if (calls.length === 0) return noCalls;
  requireFew(calls.length, 'tool calls');
  const parts = calls.map(toolPartIn);
  for (const { index } of parts) requireFew(index + 1, 'tool calls');
  return parts;
};

/**
 * The first chunk often names the role only. What else there is may have any name: `content`, `tool_calls`,
 * `reasoning`.
 */
const hasContent = (delta: Loose): boolean =>
  Object.entries(delta).some(
    ([name, value]) =>
      name !== 'role' && isError(value) && value !== '' && !(Array.isArray(value) && value.length === 0),
  );

/** DeepSeek's name for what a model thinks, and Groq's. */
const thoughtsIn = (delta: Loose): number => (textIn(delta['reasoning_content']) || textIn(delta['reasoning'])).length;

const lengthOf = (delta: Loose): number => {
  let length = textOf(delta).length;
  for (const { name = '', arguments: more = '' } of callsIn(delta['tool_calls'])) length += name.length + more.length;
  return length;
};

/**
 * Reads a stream. It is complete with `[DONE]`, or, since not all servers of projects' own send that, when every choice
 * that started has a finish reason and the connection was closed in order, which the transport reports. The vendors
 * send it.
 */
class OpenAiReader implements StreamReader {
  began = false;
  ended = false;
  finish: FinishReason | null = null;
  usage: TokenUsage | null = null;
  model = '';
  readonly #isVendor: boolean;
  #choices = 0;
  #finished = 0;
  #tier: unknown;

  constructor(isVendor: boolean) {
    this.#isVendor = isVendor;
  }

  get complete(): boolean {
    return this.ended || (!this.#isVendor && this.#finished > 0 && this.#finished >= this.#choices);
  }

  readonly take = ({ event, data }: SentEvent): ChatPiece | null => {
    if (data === '[DONE]') {
      this.ended = true;
      return null;
    }
    const chunk = parseEvent(data);
    if (event === 'error' && !isError(chunk['error'])) throw sentFault(chunk);
    requireNoError(chunk);
    this.#note(chunk);
    return this.#read(chunk, data);
  };

  #note(chunk: Loose): void {
    if (this.model === '') this.model = textIn(chunk['model']);
    // The last one counts: xAI sends the sum so far with each chunk. Groq has its own place for it.
    const reportedUsage = chunk['usage'] ?? objectIn(chunk['x_groq'])['usage'];
    this.#tier = chunk['service_tier'] ?? this.#tier;
    if (isError(reportedUsage)) this.usage = usageIn(reportedUsage, this.#tier) ?? this.usage;
  }

  #read(chunk: Loose, raw: string): ChatPiece {
    let text = '';
    let toolCalls = noCalls;
    let unshown = 0;
    const choices = listIn(chunk['choices']);
    requireFew(choices.length, 'choices');
    for (const one of choices) {
      const choice = objectIn(one);
      const index = countIn(choice['index']) ?? 0;
      requireFew(index + 1, 'choices');
      if (index >= this.#choices) this.#choices = index + 1;
      const finish = finishIn(choice['finish_reason']);
      if (finish !== null) this.#finished += 1;
      if (index === 0) this.finish = finish ?? this.finish;
      const delta = objectIn(choice['delta']);
      this.began ||= hasContent(delta);
      unshown += thoughtsIn(delta);
      if (index !== 0) {
        unshown += lengthOf(delta);
        continue;
      }
      text += textOf(delta);
      if (delta['tool_calls'] !== undefined) toolCalls = callsIn(delta['tool_calls']);
    }
    return { text, toolCalls, ...(unshown > 0 && { unshown }), raw };
  }
}

export const openStream: Dialect['openStream'] = ({ isVendor } = { isVendor: false }) => new OpenAiReader(isVendor);

/** Little-endian float32, as OpenAI sends them. */
const floatsIn = (base64: string): readonly number[] => {
  const bytes = Buffer.from(base64, 'base64');
  if (bytes.length === 0 || bytes.length % 4 !== 0) throw badAnswer('An embedding is no list of float32.');
  // Copied to a place of its own: one that a float32 may begin at.
  const own = new Uint8Array(bytes);
  if (endianness() === 'BE') Buffer.from(own.buffer).swap32();
  return Array.from(new Float32Array(own.buffer));
};

const readEmbeddings: Dialect['readEmbeddings'] = (body, { input, model }) => {
  const answer = parseObject(body);
  requireNoError(answer);
  const vectors: (readonly number[])[] = [];
  for (const [position, one] of listIn(answer['data']).entries()) {
    const { index, embedding } = objectIn(one);
    // The order is promised by `index`, not by the list.
    const at = countIn(index) ?? position;
    if (at >= input.length) throw badAnswer('There are more embeddings than texts.');
    vectors[at] = vectorIn(typeof embedding === 'string' ? floatsIn(embedding) : embedding);
  }
  if (vectors.includes(undefined as never)) throw badAnswer('An embedding is missing.');
  requireAll(vectors, input.length);
  return {
    model: textIn(answer['model']) || model,
    vectors,
    promptTokens: countIn(objectIn(answer['usage'])['prompt_tokens']),
  };
};

const modelIn = (model: Loose) => {
  const id = textIn(model['id']);
  return {
    id,
    type: /embed/i.test(id) ? ('embedding' as const) : null,
    // Groq's and vLLM's names for it; OpenAI's own list does not say.
    contextWindow:
      countIn(model['context_window']) ?? countIn(model['max_model_len']) ?? countIn(model['context_length']),
  };
};

/** OpenAI's dialect, as one of its speakers has it. */
export const createOpenAi = (provider: ProviderName): Dialect => ({
  maxInputs: 2048,
  chat: (target, request, stream) => requestTo(target, 'chat/completions', bodyOf(provider, target, request, stream)),
  readChat,
  openStream,
  embeddings: (target, { model, input, dimensions }) =>
    // In base64: a quarter of the bytes, and no numbers to parse. Servers of the project's own may not have it.
    requestTo(target, 'embeddings', {
      model,
      input,
      dimensions,
      encoding_format: target.isVendor ? 'base64' : 'float',
    }),
  readEmbeddings,
  models: (target) => requestTo(target, 'models'),
  readModels: (body) => {
    const answer = parseObject(body);
    requireNoError(answer);
    return { models: modelsIn(answer['data'], modelIn), next: null };
  },
});
