import type { TokenUsage, ToolCall } from '../chat.ts';
import { scanJson } from '#lib/json-scan.ts';
import { type ListedModel, ProviderFault } from './dialect.ts';

export const badAnswer = (what: string): ProviderFault => new ProviderFault('bad_answer', what);

/** The bound of one answer: OpenAI's own limit of choices is 128, as is that of tools. */
const maxItems = 256;

/** @throws {ProviderFault} `bad_answer` when an answer holds more of something than any provider gives */
export const requireFew = (count: number, what: string): void => {
  if (count > maxItems) throw badAnswer(`The answer holds more than ${maxItems} ${what}.`);
};

/** A JSON object of somebody else's: every field may be anything. */
export type Loose = { readonly [name: string]: unknown };

const nothing: Loose = {};

/** @throws {ProviderFault} `bad_answer` when it is not JSON, or no object */
export const parseObject = (text: string): Loose => {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw badAnswer('What came is not JSON.');
  }
  const object = objectIn(value);
  if (object !== value) throw badAnswer('What came is no JSON object.');
  return object;
};

/** Events that are larger are counted before they are parsed; most have 300 bytes. */
const maxPlainEventBytes = 16_384;
/** The bound of one event: with the 20 likeliest of each token, one of 50 tokens has some 8,000. */
const eventLimits = { maxParts: 20_000, maxDepth: 1000 };

/**
 * The object of a stream's event. @throws {ProviderFault} `bad_answer`, also when it holds too much to be read at once
 */
export const parseEvent = (text: string): Loose => {
  if (text.length > maxPlainEventBytes && scanJson(Buffer.from(text), eventLimits).verdict !== 'valid')
    throw badAnswer('An event of the stream is not JSON, or holds too much.');
  return parseObject(text);
};

/** The bound of one provider's list; OpenRouter, which resells all others, has some 500. */
export const maxModels = 5000;
/** The longest ids are those of fine-tuned models, with some 80 characters. */
const maxIdLength = 200;

/** @throws {ProviderFault} `bad_answer` when it is no list, or there are more than 5,000 */
export const modelsIn = (value: unknown, read: (model: Loose) => ListedModel): readonly ListedModel[] => {
  if (!Array.isArray(value)) throw badAnswer('There is no list of models.');
  if (value.length > maxModels) throw badAnswer(`There are more than ${maxModels} models.`);
  return value.map((model) => read(objectIn(model))).filter(({ id }) => id !== '' && id.length <= maxIdLength);
};

/** The object, or an empty one in place of anything else. */
export const objectIn = (value: unknown): Loose =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Loose) : nothing;

/** The list, or an empty one in place of anything else. */
export const listIn = (value: unknown): readonly unknown[] => (Array.isArray(value) ? (value as unknown[]) : []);

export const textIn = (value: unknown): string => (typeof value === 'string' ? value : '');

/** A number of tokens; null when it is none. */
export const countIn = (value: unknown): number | null =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : null;

/** A tool call with its arguments as JSON text. */
export const toolCall = (id: string, name: string, text: string): ToolCall => ({
  id,
  type: 'function',
  function: { name, arguments: text },
});

/** Token counts as a provider reports them, under our names; null: not reported. */
export type ReportedCounts = {
  readonly [Count in Exclude<keyof TokenUsage, 'service_tier'>]?: number | null;
} & { readonly service_tier?: unknown };

const tierName = /^[a-z][a-z_]{0,30}$/;

/** Null when neither sum is reported; a missing one counts as none. Details that are none are left out. */
export const usageOf = (reported: ReportedCounts): TokenUsage | null => {
  const { prompt_tokens: prompt = null, completion_tokens: completion = null, service_tier: tier } = reported;
  if (prompt === null && completion === null) return null;
  const { cached_tokens, cache_write_tokens, reasoning_tokens } = reported;
  return {
    prompt_tokens: prompt ?? 0,
    completion_tokens: completion ?? 0,
    ...(cached_tokens && { cached_tokens }),
    ...(cache_write_tokens && { cache_write_tokens }),
    ...(reasoning_tokens && { reasoning_tokens }),
    ...(typeof tier === 'string' && tierName.test(tier) && { service_tier: tier }),
  };
};

/**
 * A vector of an embedding.
 * @throws {ProviderFault} `bad_answer` unless it is a list of finite numbers
 */
export const vectorIn = (value: unknown): readonly number[] => {
  const vector = listIn(value);
  if (vector.length === 0) throw badAnswer('An embedding is missing.');
  if (!vector.every((one) => Number.isFinite(one)))
    throw badAnswer('An embedding holds something that is no finite number.');
  return vector as readonly number[];
};

/** @throws {ProviderFault} `bad_answer` unless there is one vector for each input, all of one length */
export const requireAll = (vectors: readonly (readonly number[])[], inputs: number): void => {
  if (vectors.length !== inputs) throw badAnswer(`There are ${vectors.length} embeddings for ${inputs} texts.`);
  const length = vectors[0]?.length;
  if (vectors.some((vector) => vector.length !== length)) throw badAnswer('The embeddings differ in length.');
};
