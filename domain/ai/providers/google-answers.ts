import { randomUUID } from 'node:crypto';
import type { ChatAnswer, ChatPiece, FinishReason, TokenUsage, ToolCall } from '../chat.ts';
import type { EmbeddingAnswer, EmbeddingRequest, ListedModel, SentEvent, StreamReader } from './dialect.ts';
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
  usageOf,
  vectorIn,
} from './json.ts';

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
  return usageOf(
    sumOf(usage['promptTokenCount'], usage['toolUsePromptTokenCount']),
    sumOf(usage['candidatesTokenCount'], usage['thoughtsTokenCount']),
    { cached: countIn(usage['cachedContentTokenCount']), reasoning: countIn(usage['thoughtsTokenCount']) },
  );
};

/** The content of one answer, or of one event of a stream. */
interface ChunkReport {
  readonly text: string;
  /** Text, a call or a thought has come. */
  readonly hasContent: boolean;
  readonly calls: readonly ToolCall[];
  readonly finish: FinishReason | null;
  readonly usage: TokenUsage | null;
  readonly model: string;
}

const callIn = (value: unknown): ToolCall => {
  const call = objectIn(value);
  return {
    // Older models give none; the answer has to name one.
    id: textIn(call['id']) || `call_${randomUUID()}`,
    type: 'function',
    function: { name: textIn(call['name']), arguments: JSON.stringify(call['args'] ?? {}) },
  };
};

const isAnswer = (body: Loose): boolean =>
  Array.isArray(body['candidates']) || 'promptFeedback' in body || 'usageMetadata' in body;

const read = (body: Loose): ChunkReport => {
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

export const readChat = (body: string): ChatAnswer => {
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
  #finish: FinishReason | null = null;
  #usage: TokenUsage | null = null;
  #model = '';
  #calls = 0;
  #began = false;

  readonly began = (): boolean => this.#began;
  // Usage may come after the reason, so the stream's end is waited for.
  readonly ended = (): boolean => false;
  readonly complete = (): boolean => this.#finish !== null;
  readonly finish = (): FinishReason | null => finishWith(this.#finish, this.#calls);
  readonly usage = (): TokenUsage | null => this.#usage;
  readonly model = (): string => this.#model;

  readonly take = ({ data }: SentEvent): ChatPiece | null => {
    const report = read(parseEvent(data));
    this.#began ||= report.hasContent;
    const first = this.#calls;
    this.#calls += report.calls.length;
    requireFew(this.#calls, 'tool calls');
    this.#finish = report.finish ?? this.#finish;
    this.#usage = report.usage ?? this.#usage;
    if (report.model !== '') this.#model = report.model;
    if (report.text === '' && report.calls.length === 0) return null;
    const toolCalls = report.calls.map((call, at) => ({ index: first + at, id: call.id, ...call.function }));
    return { text: report.text, toolCalls, raw: null };
  };
}

export const openStream = (): StreamReader => new GoogleReader();

export const readEmbeddings = (body: string, { input, model }: EmbeddingRequest): EmbeddingAnswer => {
  const answer = parseObject(body);
  const vectors = listIn(answer['embeddings']).map((one) => vectorIn(objectIn(one)['values']));
  requireAll(vectors, input.length);
  return { model, vectors, promptTokens: countIn(objectIn(answer['usageMetadata'])['promptTokenCount']) };
};

/** Null: neither for talking nor for embeddings. */
const typeIn = (model: Loose): 'chat' | 'embedding' | null => {
  const methods = listIn(model['supportedGenerationMethods']);
  if (methods.includes('generateContent')) return 'chat';
  return methods.includes('embedContent') ? 'embedding' : null;
};

const modelIn = (value: unknown): ListedModel => {
  const model = objectIn(value);
  const id = textIn(model['name']).replace(/^models\//, '');
  return { id, type: typeIn(model), contextWindow: countIn(model['inputTokenLimit']) };
};

export const readModels = (body: string): { models: readonly ListedModel[]; next: string | null } => {
  const answer = parseObject(body);
  if (!Array.isArray(answer['models'])) throw badAnswer('There is no list of models.');
  return {
    models: modelsIn(answer['models'], modelIn).filter(({ type }) => type !== null),
    next: textIn(answer['nextPageToken']) || null,
  };
};
