import type { ChatOutcome, StreamEnd, TimedPiece } from '#domain/ai/gateway/types.ts';
import type { ToolCallPart } from '#domain/ai/chat.ts';
import type { z } from 'zod';
import type { chatAnswer } from './shapes.ts';
import { ownUsage } from './usage-form.ts';
import type { OpeningForm, StreamForm } from './stream.ts';

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

const pieceText = (piece: TimedPiece): string =>
  `data: {"chunk":${JSON.stringify(piece.text)},${toolsText(piece.toolCalls)}"elapsed_ms":${Math.round(piece.elapsedMs)}}\n\n`;

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
