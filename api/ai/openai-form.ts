import type { ChatPiece, FinishReason, TokenUsage, ToolCallPart } from '#domain/ai/chat.ts';
import type { AiModel, ChatOutcome, ChatStream, EmbeddingOutcome, TimedPiece } from '#domain/ai/gateway/types.ts';
import type { Vector } from '#domain/ai/providers/dialect.ts';
import { providerFacts } from '#domain/ai/providers/providers.ts';
import type { ErrorCode, ServiceError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import { type VectorText, numbersText, usageAnswer, vectorText } from './own-form.ts';
import type { OpeningForm, StreamForm } from './stream.ts';

const types: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  403: 'permission_error',
  424: 'provider_error',
  429: 'rate_limit_error',
};

const typeOf = ({ status }: ServiceError): string =>
  types[status] ?? (status >= 500 ? 'server_error' : 'invalid_request_error');

interface Issue {
  readonly path: string;
  readonly message: string;
}

const firstIssue = ({ code, details }: ServiceError): Issue | undefined =>
  code === 'validation_failed' && Array.isArray(details) ? (details as Issue[])[0] : undefined;

/** `messages.0.role` as OpenAI writes it: `messages[0].role`. */
const bracketed = (path: string): string => path.replaceAll(/\.(\d+)(?=\.|$)/g, '[$1]');

const ofModel: ReadonlySet<ErrorCode> = new Set(['model_not_found', 'model_ambiguous', 'provider_not_configured']);

const messageOf = (error: ServiceError, issue: Issue | undefined): string => {
  if (issue) return `${error.message} ${bracketed(issue.path)}: ${issue.message}`;
  return error.hint === null ? error.message : `${error.message} ${error.hint}`;
};

/** A failure as OpenAI's clients read it: one line of text has to say all of it. */
export const openAiErrorBody = (
  error: ServiceError,
): { error: { message: string; type: string; code: string; param: string | null } } => {
  const issue = firstIssue(error);
  const param = ofModel.has(error.code) ? 'model' : null;
  return {
    error: {
      message: messageOf(error, issue),
      type: typeOf(error),
      code: error.code,
      param: issue === undefined ? param : bracketed(issue.path) || null,
    },
  };
};

// OpenAI's clients retry after any 409, 429 and 5xx unless a header says that it is futile.
const notRetryable: ReadonlySet<ErrorCode> = new Set([
  'provider_not_configured',
  'project_not_ready',
  'budget_exceeded',
  'feature_unavailable',
  'provider_bad_output',
]);

export const openAiErrorHeaders = ({ code }: ServiceError): Record<string, string> =>
  notRetryable.has(code) ? { 'X-Should-Retry': 'false' } : {};

/** Answers as OpenAI's clients read them: as they came where the provider speaks so, otherwise made. */

const completionId = (): string => `chatcmpl-${newId().replaceAll('-', '')}`;

const now = (): number => Math.floor(Date.now() / 1000);

const withTotal = (usage: TokenUsage) => ({
  ...usageAnswer(usage),
  total_tokens: usage.prompt_tokens + usage.completion_tokens,
});

/** JSON text of a whole answer. */
export const completionText = ({ answer, usage }: ChatOutcome): string => {
  if (answer.raw !== null) return answer.raw;
  const { content, toolCalls, finish, model } = answer;
  const message = {
    role: 'assistant',
    content: content === '' && toolCalls.length > 0 ? null : content,
    refusal: null,
    ...(toolCalls.length > 0 && { tool_calls: toolCalls }),
  };
  return JSON.stringify({
    id: completionId(),
    object: 'chat.completion',
    created: now(),
    model,
    choices: [{ index: 0, message, logprobs: null, finish_reason: finish }],
    usage: withTotal(usage),
  });
};

// A text of several lines is several lines of data.
const dataText = (text: string): string =>
  `data: ${text.includes('\n') ? text.replaceAll('\n', '\ndata: ') : text}\n\n`;

const doneText = 'data: [DONE]\n\n';

const toolDelta = ({ index, id, name, arguments: more }: ToolCallPart) => ({
  index,
  ...(id !== undefined && { id, type: 'function' }),
  function: { ...(name !== undefined && { name }), ...(more !== undefined && { arguments: more }) },
});

/** Writes chunks with one id, as those of one answer have it. */
const chunkWriter = (model: string) => {
  const common = { id: completionId(), object: 'chat.completion.chunk', created: now(), model };
  const head = JSON.stringify(common).slice(0, -1);
  let role = '"role":"assistant",';
  const choice = (delta: string, finish: FinishReason | null): string =>
    `data: ${head},"choices":[{"index":0,"delta":{${delta}},"logprobs":null,` +
    `"finish_reason":${JSON.stringify(finish)}}]}\n\n`;
  return {
    piece: ({ text, toolCalls }: ChatPiece): string => {
      if (text === '' && toolCalls.length === 0) return '';
      const tools = toolCalls.length === 0 ? '' : `,"tool_calls":${JSON.stringify(toolCalls.map(toolDelta))}`;
      const written = choice(`${role}"content":${text === '' ? 'null' : JSON.stringify(text)}${tools}`, null);
      role = '';
      return written;
    },
    finish: (reason: FinishReason): string => choice('', reason),
    usage: (usage: TokenUsage): string => `data: ${head},"choices":[],"usage":${JSON.stringify(withTotal(usage))}}\n\n`,
  };
};

/**
 * Returns the usage in a provider's chunk: absent, beside a choice, or alone, which only clients get that requested it.
 */
const usageIn = ({ text, toolCalls, raw }: ChatPiece): 'none' | 'beside' | 'alone' => {
  if (raw === null || text !== '' || toolCalls.length > 0 || !raw.includes('"usage"')) return 'none';
  const { choices, usage } = JSON.parse(raw) as { choices?: unknown[]; usage?: unknown };
  if ((usage ?? null) === null) return 'none';
  return (choices ?? []).length === 0 ? 'alone' : 'beside';
};

const broken: StreamForm['broken'] = (error) => dataText(JSON.stringify(openAiErrorBody(error)));

/** @param withUsage the client asked for `stream_options.include_usage` */
export const openAiStream = ({ provider, model }: ChatStream, withUsage: boolean): StreamForm => {
  const passes = providerFacts[provider].dialect === 'openai';
  const chunks = chunkWriter(model);
  let isUsageSent = false;

  const pass = (piece: TimedPiece): string => {
    if (piece.raw === null) return chunks.piece(piece);
    const reported = usageIn(piece);
    if (reported === 'alone' && !withUsage) return '';
    isUsageSent ||= reported !== 'none';
    return dataText(piece.raw);
  };

  return {
    pieces: (pieces) => {
      let text = '';
      for (const piece of pieces) text += pass(piece);
      return text;
    },
    end: ({ finish, usage }) =>
      (passes ? '' : chunks.finish(finish)) + (withUsage && !isUsageSent ? chunks.usage(usage) : '') + doneText,
    broken,
  };
};

/** See `openAiStream`. */
export const openAiOpening = (withUsage: boolean): OpeningForm => ({
  of: (stream) => openAiStream(stream, withUsage),
  broken,
});

const base64Of = (vector: Vector): string => Buffer.from(Float32Array.from(vector).buffer).toString('base64');

/** JSON text of vectors, as numbers or as little-endian 32-bit floats in base64. */
export const embeddingsText = ({ vectors, model, usage }: EmbeddingOutcome, base64: boolean): VectorText => {
  const { prompt_tokens } = usage;
  const tail = JSON.stringify({ model, usage: { prompt_tokens, total_tokens: prompt_tokens } });
  return vectorText({
    head: '{"object":"list","data":[',
    vectors,
    write: (vector, index) =>
      `{"object":"embedding","index":${index},"embedding":${base64 ? `"${base64Of(vector)}"` : numbersText(vector)}}`,
    tail: `],${tail.slice(1)}`,
  });
};

/** A model by the name under which it is always found. When it was made no list of all providers says. */
export const openAiModel = ({ id, provider }: Pick<AiModel, 'id' | 'provider'>) => ({
  id: `${provider}/${id}`,
  object: 'model' as const,
  created: 0,
  owned_by: provider,
});
