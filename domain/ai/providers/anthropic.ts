import type {
  ChatMessage,
  ChatPiece,
  ChatRequest,
  ContentPart,
  FinishReason,
  TokenUsage,
  ToolCallPart,
  ToolChoice,
} from '../chat.ts';
import { argumentsOf, instructionsOf, jsonInWords, partsOf, plainText, readDataUrl, turnsOf } from './turns.ts';
import {
  type Dialect,
  type Outgoing,
  type SentEvent,
  type StreamReader,
  type Target,
  ProviderFault,
  outgoing,
} from './dialect.ts';
import { sentFault } from './faults.ts';
import {
  type Loose,
  type ReportedCounts,
  badAnswer,
  countIn,
  listIn,
  modelsIn,
  objectIn,
  parseEvent,
  parseObject,
  requireFew,
  textIn,
  toolCall,
  usageOf,
} from './json.ts';

/**
 * Differences among Anthropic's models (docs.anthropic.com, "Models overview", "Structured outputs"; checked against
 * @ai-sdk/anthropic 3.0.138). An unknown model is taken for one of the newest.
 */
const isClaude = (model: string): boolean => model.startsWith('claude-');
const oldest = /^claude-(?:instant|v?2|3)(?:[-.]|$)/;
const fourOrFourZero = /^claude-(?:sonnet|opus)-4(?:-0|-\d{8}|$)/;
const samplingIsFree = /^claude-(?:sonnet|opus|haiku)-4(?!-[78](?:\D|$))/;

/**
 * The dialect wants a bound on each answer. 32,000 is what all Claude models since 4 allow, and far above any answer;
 * the oldest, and models that are not Anthropic's behind a base URL of the project's own, get 4,096.
 */
export const maxOutputTokensOf = (model: string): number => (isClaude(model) && !oldest.test(model) ? 32_000 : 4096);

/** The newest refuse temperature and top_p. */
export const takesSampling = (model: string): boolean =>
  !isClaude(model) || oldest.test(model) || samplingIsFree.test(model);

/**
 * Whether the vendor itself holds the model to a JSON Schema (`output_config.format`). The other way, a tool that the
 * model is forced to call, is refused by the newest models; where there is neither, the schema is asked for in words.
 */
export const takesSchema = (model: string): boolean =>
  isClaude(model) && !oldest.test(model) && !fourOrFourZero.test(model);

// Keywords that the vendor refuses in a schema; the model is not held to them anyway.
const refused = new Set([
  '$schema',
  'minimum',
  'maximum',
  'exclusiveMinimum',
  'exclusiveMaximum',
  'multipleOf',
  'minLength',
  'maxLength',
  'maxItems',
  'uniqueItems',
  'minProperties',
  'maxProperties',
]);
// Below these the names are the schema's author's own.
const named = new Set(['properties', '$defs', 'definitions', 'patternProperties']);
// Their values are data, not schemas.
const data = new Set(['enum', 'const', 'default', 'examples', 'required']);

/** A JSON Schema as Anthropic takes it: without those keywords, and every object closed. */
export const acceptedSchema = (schema: unknown, areNames = false): unknown => {
  if (Array.isArray(schema)) return schema.map((one: unknown) => acceptedSchema(one));
  const object = objectIn(schema);
  if (object !== schema) return schema;
  const kept = Object.entries(object)
    .filter(([name]) => areNames || !refused.has(name))
    .map(([name, value]) => [
      name,
      !areNames && data.has(name) ? value : acceptedSchema(value, !areNames && named.has(name)),
    ]);
  const isObject = !areNames && object['type'] === 'object';
  return { ...(Object.fromEntries(kept) as object), ...(isObject && { additionalProperties: false }) };
};

const apiVersion = '2023-06-01';

/** Anthropic's own SDK takes the base URL without `/v1`, others take it with it. */
const requestTo = ({ baseUrl, apiKey }: Target, path: string, body?: object): Outgoing => {
  const headers = { 'x-api-key': apiKey, 'anthropic-version': apiVersion };
  return outgoing(`${baseUrl.replace(/\/v1$/, '')}/v1/${path}`, headers, body);
};

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
 * Temperatures above 1 count as 1, as in Anthropic's own OpenAI-compatible endpoint. With a temperature top_p is left
 * out: since Claude 4.1 only one of the two is taken.
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

const finishes: Readonly<Record<string, FinishReason>> = {
  end_turn: 'stop',
  stop_sequence: 'stop',
  pause_turn: 'stop',
  max_tokens: 'length',
  model_context_window_exceeded: 'length',
  tool_use: 'tool_calls',
  refusal: 'content_filter',
};

const finishIn = (value: unknown): FinishReason | null =>
  typeof value === 'string' ? (finishes[value] ?? 'stop') : null;

/** Tokens that were read from and written to the cache are not in `input_tokens`. */
const countsIn = (usage: Loose): ReportedCounts => {
  const input = countIn(usage['input_tokens']);
  const cached = countIn(usage['cache_read_input_tokens']);
  const written = countIn(usage['cache_creation_input_tokens']);
  return {
    prompt_tokens: input === null ? null : input + (cached ?? 0) + (written ?? 0),
    completion_tokens: countIn(usage['output_tokens']),
    cached_tokens: cached,
    cache_write_tokens: written,
    service_tier: usage['service_tier'],
  };
};

const readChat: Dialect['readChat'] = (body) => {
  const answer = parseObject(body);
  if (answer['type'] === 'error') throw sentFault(objectIn(answer['error']));
  if (!Array.isArray(answer['content'])) throw badAnswer('The answer holds no content.');
  const blocks = listIn(answer['content']).map(objectIn);
  const calls = blocks.filter((block) => block['type'] === 'tool_use');
  requireFew(calls.length, 'tool calls');
  return {
    model: textIn(answer['model']),
    content: blocks.map((block) => (block['type'] === 'text' ? textIn(block['text']) : '')).join(''),
    toolCalls: calls.map(({ id, name, input }) => toolCall(textIn(id), textIn(name), JSON.stringify(input ?? {}))),
    finish: finishIn(answer['stop_reason']) ?? 'stop',
    usage: usageOf(countsIn(objectIn(answer['usage']))),
    raw: null,
  };
};

const textPiece = (text: string): ChatPiece | null => (text === '' ? null : { text, toolCalls: [], raw: null });
const callPiece = (part: ToolCallPart): ChatPiece => ({ text: '', toolCalls: [part], raw: null });

/** A tool call that is being written. */
interface Writing {
  readonly index: number;
  hasArguments: boolean;
}

/** Reads a stream; it is whole with `message_stop`. */
class AnthropicReader implements StreamReader {
  began = false;
  ended = false;
  finish: FinishReason | null = null;
  model = '';
  #counts: ReportedCounts = {};
  #calls = 0;
  /** By the number of their content block. */
  readonly #writing = new Map<unknown, Writing>();

  get complete(): boolean {
    return this.ended;
  }

  get usage(): TokenUsage | null {
    return usageOf(this.#counts);
  }

  readonly take = ({ event, data }: SentEvent): ChatPiece | null => {
    // Nothing to read in it, whatever it is.
    if (event === 'ping') return null;
    const sent = parseEvent(data);
    switch (sent['type']) {
      case 'message_start':
        return this.#start(objectIn(sent['message']));
      case 'content_block_start':
        return this.#startBlock(sent['index'], objectIn(sent['content_block']));
      case 'content_block_delta':
        return this.#delta(sent['index'], objectIn(sent['delta']));
      case 'content_block_stop':
        return this.#stopBlock(sent['index']);
      case 'message_delta':
        return this.#end(sent);
      case 'message_stop':
        this.ended = true;
        return null;
      case 'error':
        throw sentFault(objectIn(sent['error']));
      default:
        // The vendor may add events (its versioning policy).
        return null;
    }
  };

  #start(message: Loose): null {
    this.model = textIn(message['model']);
    this.#count(objectIn(message['usage']));
    return null;
  }

  #startBlock(at: unknown, block: Loose): ChatPiece | null {
    if (block['type'] !== 'text') this.began = true;
    if (block['type'] === 'text') return textPiece(textIn(block['text']));
    if (block['type'] !== 'tool_use') return null;
    const writing = { index: this.#calls, hasArguments: false };
    this.#calls += 1;
    requireFew(this.#calls, 'tool calls');
    this.#writing.set(at, writing);
    return callPiece({ index: writing.index, id: textIn(block['id']), name: textIn(block['name']), arguments: '' });
  }

  #delta(at: unknown, delta: Loose): ChatPiece | null {
    this.began = true;
    if (delta['type'] === 'text_delta') return textPiece(textIn(delta['text']));
    const writing = this.#writing.get(at);
    const json = textIn(delta['partial_json']);
    if (delta['type'] !== 'input_json_delta' || !writing || json === '') return null;
    writing.hasArguments = true;
    return callPiece({ index: writing.index, arguments: json });
  }

  /** A tool without input is called without a word about it; OpenAI's clients want JSON. */
  #stopBlock(at: unknown): ChatPiece | null {
    const writing = this.#writing.get(at);
    if (!writing || writing.hasArguments) return null;
    return callPiece({ index: writing.index, arguments: '{}' });
  }

  #end(sent: Loose): null {
    this.finish = finishIn(objectIn(sent['delta'])['stop_reason']) ?? this.finish;
    this.#count(objectIn(sent['usage']));
    return null;
  }

  /**
   * A later figure replaces the earlier one. A later event repeats the prompt's counts, or has those of the answer
   * only.
   */
  #count(usage: Loose): void {
    const counts = countsIn(usage);
    this.#counts = {
      ...(counts.prompt_tokens === null ? this.#counts : counts),
      completion_tokens: counts.completion_tokens ?? this.#counts.completion_tokens ?? null,
    };
  }
}

const modelIn = (model: Loose) => ({
  id: textIn(model['id']),
  type: 'chat' as const,
  contextWindow: countIn(model['max_input_tokens']),
});

const noEmbeddings = (): never => {
  throw new ProviderFault('bad_request', 'Anthropic has no embeddings.');
};

export const anthropic: Dialect = {
  // It has none; `embeddings` says so.
  maxInputs: 1,
  chat: (target, request, stream) => requestTo(target, 'messages', bodyOf(request, stream)),
  readChat,
  openStream: () => new AnthropicReader(),
  embeddings: noEmbeddings,
  readEmbeddings: noEmbeddings,
  models: (target, after) =>
    requestTo(target, `models?limit=1000${after === null ? '' : `&after_id=${encodeURIComponent(after)}`}`),
  readModels: (body) => {
    const { data, has_more: hasMore, last_id: last } = parseObject(body);
    return { models: modelsIn(data, modelIn), next: hasMore === true ? textIn(last) || null : null };
  },
};
