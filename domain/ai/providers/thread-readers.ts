import type { Reader, ReaderResult } from '#lib/json-thread.ts';
import { type ProviderName, dialectOf } from './providers.ts';
import { type EmbeddingRequest, type FaultKind, ProviderFault } from './dialect.ts';

/** Readers of large answers that run in a thread of the JSON parser: what they give back is small, or typed arrays. */

export const threadReaders = import.meta.url;

/** An error whose class cannot cross threads. */
export interface ThreadFault {
  readonly kind: FaultKind;
  readonly message: string;
  readonly status: number | null;
  readonly retryAfterMs: number | null;
}

export type ThreadResult = { readonly read: unknown } | { readonly fault: ThreadFault };

const faultOf = (error: unknown): ThreadFault => {
  if (error instanceof RangeError) {
    return { kind: 'bad_answer', message: 'The answer is nested too deep.', status: null, retryAfterMs: null };
  }
  if (!(error instanceof ProviderFault)) throw error;
  const { kind, message, status, retryAfterMs } = error;
  return { kind, message, status, retryAfterMs };
};

const reading = (read: () => ReaderResult): ReaderResult => {
  try {
    const { value, transfer = [] } = read();
    return { value: { read: value } satisfies ThreadResult, transfer };
  } catch (error) {
    return { value: { fault: faultOf(error) } satisfies ThreadResult };
  }
};

interface ReaderCall {
  readonly provider: ProviderName;
}

/** A ChatAnswer; `raw` is true in place of the text, which need not cross. */
export const chat: Reader = (text, args) =>
  reading(() => {
    const answer = dialectOf((args as ReaderCall).provider).readChat(text);
    return { value: { ...answer, raw: answer.raw !== null } };
  });

export interface ThreadEmbeddings {
  readonly model: string;
  readonly promptTokens: number | null;
  readonly dimensions: number;
  /** One vector after the other. */
  readonly numbers: Float64Array;
}

export interface EmbeddingsReaderCall extends ReaderCall {
  readonly model: string;
  readonly inputs: number;
}

export const embeddings: Reader = (text, args) =>
  reading(() => {
    const { provider, model, inputs } = args as EmbeddingsReaderCall;
    // Only their number matters to the reader.
    const request: EmbeddingRequest = { model, input: Array.from({ length: inputs }, () => '') };
    const { vectors, ...rest } = dialectOf(provider).readEmbeddings(text, request);
    const dimensions = vectors[0]?.length ?? 0;
    const numbers = new Float64Array(vectors.length * dimensions);
    for (const [at, vector] of vectors.entries()) numbers.set(vector, at * dimensions);
    const { promptTokens } = rest;
    const value: ThreadEmbeddings = { model: rest.model, promptTokens, dimensions, numbers };
    return { value, transfer: [numbers.buffer] };
  });

export const models: Reader = (text, args) =>
  reading(() => ({ value: dialectOf((args as ReaderCall).provider).readModels(text) }));
