import type { TokenUsage } from '../chat.ts';
import { ProviderFault } from './dialect.ts';

/** A JSON object of somebody else's: every field may be anything. */
export type Loose = { readonly [name: string]: unknown };

const nothing: Loose = {};

export const badAnswer = (what: string): ProviderFault => new ProviderFault('bad_answer', what);

/** @throws {ProviderFault} `bad_answer` when it is not JSON, or no object */
export const parseObject = (text: string): Loose => {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw badAnswer('What came is not JSON.');
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw badAnswer('What came is no JSON object.');
  return value as Loose;
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

/** Null when neither is told; one that is not told counts as none. */
export const usageOf = (prompt: number | null, completion: number | null): TokenUsage | null =>
  prompt === null && completion === null ? null : { prompt_tokens: prompt ?? 0, completion_tokens: completion ?? 0 };

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
