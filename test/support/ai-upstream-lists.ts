import { createHash } from 'node:crypto';
import type { DialectName } from '#domain/ai/providers/providers.ts';

/** Numbers between -1 and 1 that hang on the text alone: the same text, the same vector, of length 1. */
export const vectorOf = (text: string, dimensions: number): number[] => {
  const vector: number[] = [];
  let bytes = createHash('sha256').update(text).digest();
  while (vector.length < dimensions) {
    for (let at = 0; at + 4 <= bytes.length && vector.length < dimensions; at += 4) {
      vector.push(bytes.readInt32LE(at) / 2 ** 31);
    }
    bytes = createHash('sha256').update(bytes).digest();
  }
  const length = Math.hypot(...vector);
  return vector.map((value) => value / length);
};

const base64Of = (vector: unknown): unknown =>
  Array.isArray(vector) ? Buffer.from(new Float32Array(vector as number[]).buffer).toString('base64') : vector;

/** Embeddings as OpenAI or Google answer them. */
export const embeddingsBody = (
  dialect: DialectName,
  model: string,
  vectors: readonly unknown[],
  base64: boolean,
): unknown => {
  if (dialect === 'google') return { embeddings: vectors.map((values) => ({ values })) };
  const data = vectors.map((vector, index) => ({
    object: 'embedding',
    index,
    embedding: base64 ? base64Of(vector) : vector,
  }));
  return {
    object: 'list',
    data,
    model,
    usage: { prompt_tokens: vectors.length * 3, total_tokens: vectors.length * 3 },
  };
};

/** The models that the played provider lists. */
export const listedModels: Readonly<Record<DialectName, { chat: readonly string[]; embedding: readonly string[] }>> = {
  openai: { chat: ['gpt-4o', 'gpt-4o-mini'], embedding: ['text-embedding-3-small', 'text-embedding-3-large'] },
  anthropic: { chat: ['claude-sonnet-4-5', 'claude-haiku-4-5'], embedding: [] },
  google: { chat: ['gemini-2.5-flash', 'gemini-2.5-pro'], embedding: ['gemini-embedding-001'] },
};

const googleModel = (id: string, method: string) => ({
  name: `models/${id}`,
  displayName: id,
  inputTokenLimit: 1_048_576,
  outputTokenLimit: 8192,
  supportedGenerationMethods: [method, 'countTokens'],
});

/** The list in a dialect's form; Google's and Anthropic's come in two pages. */
export const modelsBody = (dialect: DialectName, after: string | null): unknown => {
  const { chat, embedding } = listedModels[dialect];
  if (dialect === 'openai') {
    return { object: 'list', data: [...chat, ...embedding].map((id) => ({ id, object: 'model', owned_by: 'them' })) };
  }
  const [first = '', ...rest] = chat;
  if (dialect === 'anthropic') {
    const page = after === null ? [first] : rest;
    const data = page.map((id) => ({ type: 'model', id, display_name: id }));
    return { data, has_more: after === null, first_id: page[0], last_id: page.at(-1) };
  }
  return after === null
    ? { models: [googleModel(first, 'generateContent')], nextPageToken: 'page 2' }
    : {
        models: [
          ...rest.map((id) => googleModel(id, 'generateContent')),
          ...embedding.map((id) => googleModel(id, 'embedContent')),
        ],
      };
};
