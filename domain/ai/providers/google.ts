import { randomUUID } from 'node:crypto';
import type {
  ChatMessage,
  ChatPiece,
  ChatRequest,
  ContentPart,
  FinishReason,
  TokenUsage,
  ToolChoice,
} from '../chat.ts';
import { argumentsOf, instructionsOf, partsOf, plainText, readDataUrl, turnsOf } from './turns.ts';
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

/**
 * Google's own SDK takes the base URL without the version, others take it with it. The key stands in a header: URLs are
 * logged on their way.
 */
const requestTo = ({ baseUrl, apiKey }: Target, path: string, body?: object): Outgoing => {
  const hasVersion = /\/v1(?:beta\d*|alpha)?$/.test(baseUrl);
  return outgoing(`${baseUrl}${hasVersion ? '' : '/v1beta'}/${path}`, { 'x-goog-api-key': apiKey }, body);
};

/** As a part of a path; ids come with `models/` and without it. Tuned models have a list of their own. */
const modelPath = (model: string): string => {
  const [, list = 'models', id = model] = /^(models|tunedModels)\/(.*)$/s.exec(model) ?? [];
  return `${list}/${encodeURIComponent(id)}`;
};

const imageTypes: Readonly<Record<string, string>> = {
  png: 'image/png',
  webp: 'image/webp',
  gif: 'image/gif',
  heic: 'image/heic',
  heif: 'image/heif',
};

/** Google wants the type of the file behind a URL; only the name tells it. */
const typeByName = (url: string): string => {
  const extension = /\.(\w+)(?:[?#]|$)/.exec(url.slice(url.lastIndexOf('/')))?.[1]?.toLowerCase() ?? '';
  return imageTypes[extension] ?? 'image/jpeg';
};

const contentPart = (part: ContentPart): object => {
  if (part.type === 'text') return { text: part.text };
  const { url } = part.image_url;
  const inline = readDataUrl(url);
  return inline
    ? { inlineData: { mimeType: inline.mediaType, data: inline.base64 } }
    : { fileData: { mimeType: typeByName(url), fileUri: url } };
};

/**
 * Since Gemini 3 each function call in the conversation has to carry the signature of the thought behind it, which
 * OpenAI's form has no place for; this one stands for "it came from elsewhere" (Gemini API, "Thought signatures").
 */
const foreignSignature = 'skip_thought_signature_validator';
const wantsSignature = (model: string): boolean => !/gemini-[12]\.|gemma/.test(model);

/** Answers of tools name the function here; in OpenAI's form they name the call. */
const functionNames = (messages: readonly ChatMessage[]): ReadonlyMap<string, string> =>
  new Map(messages.flatMap(({ tool_calls: calls = [] }) => calls.map((call) => [call.id, call.function.name])));

const createPartsOf = ({ model, messages }: ChatRequest) => {
  const names = functionNames(messages);
  const signed = wantsSignature(model) ? { thoughtSignature: foreignSignature } : {};
  return (message: ChatMessage): readonly object[] => {
    if (message.role === 'tool') {
      const id = message.tool_call_id ?? '';
      const name = names.get(id) ?? message.name ?? id;
      return [{ functionResponse: { name, response: argumentsOf(plainText(message.content)) } }];
    }
    const calls = (message.tool_calls ?? []).map(({ function: made }) => ({
      functionCall: { name: made.name, args: argumentsOf(made.arguments) },
      ...signed,
    }));
    return [...partsOf(message.content).map(contentPart), ...calls];
  };
};

const callingConfig = (choice: ToolChoice): object => {
  if (typeof choice !== 'string') return { mode: 'ANY', allowedFunctionNames: [choice.function.name] };
  return { mode: choice === 'required' ? 'ANY' : choice.toUpperCase() };
};

const toolFields = ({ tools, tool_choice: choice }: ChatRequest): object => {
  if (!tools || tools.length === 0) return {};
  const functionDeclarations = tools.map(({ function: { name, description, parameters } }) => ({
    name,
    description,
    // `parameters` knows a part of JSON Schema only.
    parametersJsonSchema: parameters,
  }));
  return {
    tools: [{ functionDeclarations }],
    ...(choice !== undefined && { toolConfig: { functionCallingConfig: callingConfig(choice) } }),
  };
};

const formatFields = ({ response_format: format }: ChatRequest): object => {
  if (format === undefined || format.type === 'text') return {};
  const schema = format.type === 'json_schema' ? format.json_schema.schema : undefined;
  return { responseMimeType: 'application/json', responseJsonSchema: schema };
};

const bodyOf = (request: ChatRequest): object => {
  const system = instructionsOf(request);
  const { temperature, top_p: topP, max_tokens: maxOutputTokens, stop } = request;
  return {
    ...(system !== '' && { systemInstruction: { parts: [{ text: system }] } }),
    contents: turnsOf(request.messages, createPartsOf(request)).map(({ role, blocks }) => ({
      role: role === 'assistant' ? 'model' : 'user',
      parts: blocks,
    })),
    ...toolFields(request),
    generationConfig: {
      temperature,
      topP,
      maxOutputTokens,
      stopSequences: typeof stop === 'string' ? [stop] : stop,
      ...formatFields(request),
    },
  };
};

const embeddings: Dialect['embeddings'] = (target, { model, input, dimensions }) => {
  const path = modelPath(model);
  const requests = input.map((text) => ({
    model: path,
    content: { parts: [{ text }] },
    outputDimensionality: dimensions,
  }));
  return requestTo(target, `${path}:batchEmbedContents`, { requests });
};

const filtered = /SAFETY|RECITATION|BLOCKLIST|PROHIBITED_CONTENT|SPII/;

/** Null: not said yet. */
const finishIn = (value: unknown): FinishReason | null => {
  const reason = textIn(value);
  if (reason === '' || reason === 'FINISH_REASON_UNSPECIFIED') return null;
  if (reason === 'MAX_TOKENS' || reason === 'CONTINUATION') return 'length';
  return filtered.test(reason) ? 'content_filter' : 'stop';
};

const sumOf = (first: unknown, second: unknown): number | null => {
  const [one, two] = [countIn(first), countIn(second)];
  return one === null && two === null ? null : (one ?? 0) + (two ?? 0);
};

/** Reasoning tokens are paid as output, and are not in `candidatesTokenCount`. */
const usageIn = (value: unknown): TokenUsage | null => {
  const usage = objectIn(value);
  return usageOf({
    prompt_tokens: sumOf(usage['promptTokenCount'], usage['toolUsePromptTokenCount']),
    completion_tokens: sumOf(usage['candidatesTokenCount'], usage['thoughtsTokenCount']),
    cached_tokens: countIn(usage['cachedContentTokenCount']),
    reasoning_tokens: countIn(usage['thoughtsTokenCount']),
  });
};

/** Older models give a call no id; the answer has to name one. */
const callIn = (value: unknown) => {
  const { id, name, args } = objectIn(value);
  return toolCall(textIn(id) || `call_${randomUUID()}`, textIn(name), JSON.stringify(args ?? {}));
};

const isAnswer = (body: Loose): boolean =>
  Array.isArray(body['candidates']) || 'promptFeedback' in body || 'usageMetadata' in body;

/** The content of one answer, or of one event of a stream. */
const read = (body: Loose) => {
  if ('error' in body) throw sentFault(objectIn(body['error']));
  if (!isAnswer(body)) throw badAnswer('The answer holds no candidates.');
  const candidate = objectIn(listIn(body['candidates'])[0]);
  const parts = listIn(objectIn(candidate['content'])['parts']).map(objectIn);
  const called = parts.filter((part) => part['functionCall'] !== undefined);
  requireFew(called.length, 'tool calls');
  // A refused prompt has no candidate at all.
  const isBlocked = textIn(objectIn(body['promptFeedback'])['blockReason']) !== '';
  return {
    text: parts.map((part) => (part['thought'] === true ? '' : textIn(part['text']))).join(''),
    /** Text, a call or a thought has come. */
    hasContent: parts.some((part) => textIn(part['text']) !== '' || part['functionCall'] !== undefined),
    calls: called.map((part) => callIn(part['functionCall'])),
    finish: isBlocked ? 'content_filter' : finishIn(candidate['finishReason']),
    usage: usageIn(body['usageMetadata']),
    model: textIn(body['modelVersion']),
  };
};

/** A model that calls functions stops as any other. */
const finishWith = (finish: FinishReason | null, calls: number): FinishReason | null =>
  finish === 'stop' && calls > 0 ? 'tool_calls' : finish;

const readChat: Dialect['readChat'] = (body) => {
  const { text, calls, finish, usage, model } = read(parseObject(body));
  if (finish === null && text === '' && calls.length === 0) throw badAnswer('The answer is empty.');
  return {
    model,
    content: text,
    toolCalls: calls,
    finish: finishWith(finish ?? 'stop', calls.length) ?? 'stop',
    usage,
    raw: null,
  };
};

/** Reads a stream; it is whole with a reason why it finished. */
class GoogleReader implements StreamReader {
  began = false;
  // Usage may come after the reason, so the stream's end is waited for.
  readonly ended = false;
  usage: TokenUsage | null = null;
  model = '';
  #finish: FinishReason | null = null;
  #calls = 0;

  get complete(): boolean {
    return this.#finish !== null;
  }

  get finish(): FinishReason | null {
    return finishWith(this.#finish, this.#calls);
  }

  readonly take = ({ data }: SentEvent): ChatPiece | null => {
    const report = read(parseEvent(data));
    this.began ||= report.hasContent;
    const first = this.#calls;
    this.#calls += report.calls.length;
    requireFew(this.#calls, 'tool calls');
    this.#finish = report.finish ?? this.#finish;
    this.usage = report.usage ?? this.usage;
    if (report.model !== '') this.model = report.model;
    if (report.text === '' && report.calls.length === 0) return null;
    const toolCalls = report.calls.map((call, at) => ({ index: first + at, id: call.id, ...call.function }));
    return { text: report.text, toolCalls, raw: null };
  };
}

const readEmbeddings: Dialect['readEmbeddings'] = (body, { input, model }) => {
  const answer = parseObject(body);
  const vectors = listIn(answer['embeddings']).map((one) => vectorIn(objectIn(one)['values']));
  requireAll(vectors, input.length);
  return { model, vectors, promptTokens: countIn(objectIn(answer['usageMetadata'])['promptTokenCount']) };
};

/** The type is null for models that neither chat nor make embeddings. */
const modelIn = (model: Loose) => {
  const methods = listIn(model['supportedGenerationMethods']);
  const isEmbedding = methods.includes('embedContent');
  return {
    id: textIn(model['name']).replace(/^models\//, ''),
    type: methods.includes('generateContent') ? ('chat' as const) : isEmbedding ? ('embedding' as const) : null,
    contextWindow: countIn(model['inputTokenLimit']),
  };
};

export const google: Dialect = {
  // "At most 100 requests can be in one batch."
  maxInputs: 100,
  chat: (target, request, stream) => {
    const method = stream ? 'streamGenerateContent?alt=sse' : 'generateContent';
    return requestTo(target, `${modelPath(request.model)}:${method}`, bodyOf(request));
  },
  readChat,
  openStream: () => new GoogleReader(),
  embeddings,
  readEmbeddings,
  models: (target, after) =>
    requestTo(target, `models?pageSize=1000${after === null ? '' : `&pageToken=${encodeURIComponent(after)}`}`),
  readModels: (body) => {
    const { models, nextPageToken } = parseObject(body);
    return {
      models: modelsIn(models, modelIn).filter(({ type }) => type !== null),
      next: textIn(nextPageToken) || null,
    };
  },
};
