import type { Readable } from 'node:stream';
import type { z } from 'zod';
import type { TokenUsage, ToolCallPart } from '#domain/ai/chat.ts';
import type { ChatOutcome, StreamEnd, TimedPiece } from '#domain/ai/gateway/types.ts';
import type { Vector } from '#domain/ai/providers/dialect.ts';
import { HoldingReadable } from '#api/http/holding-readable.ts';
import type { chatAnswer } from './shapes.ts';
import type { OpeningForm, StreamForm } from './stream.ts';

interface UsageAnswer {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly prompt_tokens_details?: { readonly cached_tokens: number; readonly cache_write_tokens: number };
  readonly completion_tokens_details?: { readonly reasoning_tokens: number };
}

/** Token usage in OpenAI's names; details are left out when there are none. */
export const usageAnswer = (usage: TokenUsage): UsageAnswer => {
  const { prompt_tokens, completion_tokens } = usage;
  const { cached_tokens = 0, cache_write_tokens = 0, reasoning_tokens = 0 } = usage;
  return {
    prompt_tokens,
    completion_tokens,
    ...(cached_tokens + cache_write_tokens > 0 && { prompt_tokens_details: { cached_tokens, cache_write_tokens } }),
    ...(reasoning_tokens > 0 && { completion_tokens_details: { reasoning_tokens } }),
  };
};

/** In plinth's own answers the tier stands beside them; in OpenAI's it stands elsewhere. */
const ownUsage = (usage: TokenUsage): UsageAnswer & { readonly service_tier?: string } => ({
  ...usageAnswer(usage),
  ...(usage.service_tier !== undefined && { service_tier: usage.service_tier }),
});

/** Answers in plinth's own form, the same for every provider (interface, AI). */
export const ownAnswer = ({ answer, provider, usage, latencyMs }: ChatOutcome): z.output<typeof chatAnswer> => ({
  content: answer.content,
  model: answer.model,
  provider,
  usage: ownUsage(usage),
  latency_ms: Math.round(latencyMs),
  finish_reason: answer.finish,
  ...(answer.toolCalls.length > 0 && { tool_calls: [...answer.toolCalls] }),
});

const toolsText = (calls: readonly ToolCallPart[]): string =>
  calls.length === 0 ? '' : `"tool_calls":${JSON.stringify(calls)},`;

const says = ({ text, toolCalls }: TimedPiece): boolean => text !== '' || toolCalls.length > 0;

const pieceText = ({ text, toolCalls, elapsedMs }: TimedPiece): string => {
  const chunk = JSON.stringify(text);
  return `data: {"chunk":${chunk},${toolsText(toolCalls)}"elapsed_ms":${Math.round(elapsedMs)}}\n\n`;
};

const endText = ({ usage, ttftMs, model, provider, finish }: StreamEnd): string => {
  const { prompt_tokens, completion_tokens } = usage;
  const end = {
    done: true,
    ttft_ms: Math.round(ttftMs),
    total_tokens: prompt_tokens + completion_tokens,
    usage: ownUsage(usage),
    model,
    provider,
    finish_reason: finish,
  };
  return `data: ${JSON.stringify(end)}\n\n`;
};

export const ownStream: StreamForm = {
  pieces: (pieces) => {
    let text = '';
    // An event with neither text nor a tool (a role, the usage) is no piece.
    for (const piece of pieces) if (says(piece)) text += pieceText(piece);
    return text;
  },
  end: endText,
  broken: ({ code, message }) => `data: ${JSON.stringify({ error: { code, message }, done: true })}\n\n`,
};

export const ownOpening: OpeningForm = { of: () => ownStream, broken: ownStream.broken };

/** Text of a few vectors at once, of many as a stream. */
export type VectorText = string | Readable;

interface VectorParts {
  readonly head: string;
  readonly vectors: readonly Vector[];
  readonly write: (vector: Vector, index: number) => string;
  readonly tail: string;
}

// Some 3 ms of JSON.stringify. 2,048 vectors of 1,536 numbers at once are 60 MB of text and 0.5 s.
const maxNumbersAtOnce = 20_000;
// A double.
const bytesPerNumber = 8;

export const numbersText = (vector: Vector): string => JSON.stringify(Array.isArray(vector) ? vector : [...vector]);

function* partsOf({ head, vectors, write, tail }: VectorParts): Generator<string> {
  let text = head;
  let numbers = 0;
  for (const [index, vector] of vectors.entries()) {
    text += (index === 0 ? '' : ',') + write(vector, index);
    numbers += vector.length;
    if (numbers < maxNumbersAtOnce) continue;
    yield text;
    [text, numbers] = ['', 0];
  }
  yield text + tail;
}

/**
 * A JSON text with vectors in it, written in parts between which other requests are served, at the pace of its reader.
 */
export const vectorText = (parts: VectorParts): VectorText => {
  const numbers = parts.vectors.reduce((sum, { length }) => sum + length, 0);
  if (numbers <= maxNumbersAtOnce) return [...partsOf(parts)].join('');
  return new HoldingReadable(partsOf(parts), numbers * bytesPerNumber);
};
