import type { FinishReason, TokenUsage } from '#domain/ai/chat.ts';
import type { DialectName } from '#domain/ai/providers/providers.ts';
import type { PlayedTool } from './ai-upstream-behaviour.ts';

/** The played provider's answer, before it is put in a dialect's form. */
export interface Said {
  readonly model: string;
  readonly pieces: readonly string[];
  readonly tools: readonly PlayedTool[];
  readonly finish: FinishReason;
  readonly usage: TokenUsage | null;
}

/** The events of a stream; each without its blank line, lines parted by `\n`. */
export interface Frames {
  readonly head: readonly string[];
  readonly pieces: readonly string[];
  readonly tail: readonly string[];
  readonly error: string;
}

interface Wire {
  readonly chat: (said: Said) => unknown;
  readonly frames: (said: Said) => Frames;
  readonly error: (status: number, message: string, code: string | null) => unknown;
}

const dataLine = (value: unknown): string => `data: ${JSON.stringify(value)}`;
const named = (type: string, fields: object): string => `event: ${type}\n${dataLine({ type, ...fields })}`;

const openAiTools = (said: Said) =>
  said.tools.map((tool, index) => ({
    index,
    id: `call_${index}`,
    type: 'function',
    function: { name: tool.name, arguments: tool.arguments },
  }));

const openAiUsage = (usage: TokenUsage) => ({ ...usage, total_tokens: usage.prompt_tokens + usage.completion_tokens });

const openAiFrames = (said: Said): Frames => {
  const common = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1_760_000_000, model: said.model };
  const chunk = (delta: object, finish: string | null = null): string =>
    dataLine({ ...common, choices: [{ index: 0, delta, finish_reason: finish }] });
  const calls = openAiTools(said).flatMap((call) => [
    { tool_calls: [{ ...call, function: { name: call.function.name, arguments: '' } }] },
    { tool_calls: [{ index: call.index, function: { arguments: call.function.arguments.slice(0, 9) } }] },
    { tool_calls: [{ index: call.index, function: { arguments: call.function.arguments.slice(9) } }] },
  ]);
  return {
    head: [chunk({ role: 'assistant', content: '' })],
    pieces: said.pieces.map((content) => chunk({ content })),
    tail: [
      ...calls.map((delta) => chunk(delta)),
      chunk({}, said.finish),
      ...(said.usage ? [dataLine({ ...common, choices: [], usage: openAiUsage(said.usage) })] : []),
      'data: [DONE]',
    ],
    error: dataLine({ error: { message: 'The server had an error while it answered.', type: 'server_error' } }),
  };
};

const openAi: Wire = {
  chat: (said) => ({
    id: 'chatcmpl-1',
    object: 'chat.completion',
    created: 1_760_000_000,
    model: said.model,
    choices: [
      {
        index: 0,
        message: {
          role: 'assistant',
          content: said.pieces.length === 0 ? null : said.pieces.join(''),
          ...(said.tools.length > 0 && { tool_calls: openAiTools(said) }),
        },
        finish_reason: said.finish,
      },
    ],
    ...(said.usage && { usage: openAiUsage(said.usage) }),
  }),
  frames: openAiFrames,
  error: (_status, message, code) => ({ error: { message, type: 'invalid_request_error', param: null, code } }),
};

const anthropicStops: Readonly<Record<FinishReason, string>> = {
  stop: 'end_turn',
  length: 'max_tokens',
  tool_calls: 'tool_use',
  content_filter: 'refusal',
};

const anthropicFrames = (said: Said): Frames => {
  const usage = { input_tokens: said.usage?.prompt_tokens ?? 0, output_tokens: 1 };
  const message = { id: 'msg_1', type: 'message', role: 'assistant', model: said.model, content: [] };
  const tools = said.tools.flatMap((tool, at) => {
    const index = at + 1;
    const block = { type: 'tool_use', id: `toolu_${at}`, name: tool.name, input: {} };
    const delta = (partial_json: string) =>
      named('content_block_delta', { index, delta: { type: 'input_json_delta', partial_json } });
    return [
      named('content_block_start', { index, content_block: block }),
      delta(''),
      delta(tool.arguments.slice(0, 9)),
      delta(tool.arguments.slice(9)),
      named('content_block_stop', { index }),
    ];
  });
  return {
    head: [
      named('message_start', { message: { ...message, stop_reason: null, ...(said.usage && { usage }) } }),
      named('content_block_start', { index: 0, content_block: { type: 'text', text: '' } }),
      named('ping', {}),
    ],
    pieces: said.pieces.map((text) => named('content_block_delta', { index: 0, delta: { type: 'text_delta', text } })),
    tail: [
      named('content_block_stop', { index: 0 }),
      ...tools,
      named('message_delta', {
        delta: { stop_reason: anthropicStops[said.finish], stop_sequence: null },
        ...(said.usage && { usage: { output_tokens: said.usage.completion_tokens } }),
      }),
      named('message_stop', {}),
    ],
    error: named('error', { error: { type: 'overloaded_error', message: 'Overloaded' } }),
  };
};

const anthropicErrors: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  429: 'rate_limit_error',
  500: 'api_error',
  503: 'overloaded_error',
};

const anthropic: Wire = {
  chat: (said) => ({
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: said.model,
    content: [
      ...(said.pieces.length === 0 ? [] : [{ type: 'text', text: said.pieces.join('') }]),
      ...said.tools.map((tool, at) => ({
        type: 'tool_use',
        id: `toolu_${at}`,
        name: tool.name,
        input: JSON.parse(tool.arguments) as unknown,
      })),
    ],
    stop_reason: anthropicStops[said.finish],
    stop_sequence: null,
    ...(said.usage && {
      usage: { input_tokens: said.usage.prompt_tokens, output_tokens: said.usage.completion_tokens },
    }),
  }),
  frames: anthropicFrames,
  error: (status, message) => ({ type: 'error', error: { type: anthropicErrors[status] ?? 'api_error', message } }),
};

const googleFinish: Readonly<Record<FinishReason, string>> = {
  stop: 'STOP',
  length: 'MAX_TOKENS',
  tool_calls: 'STOP',
  content_filter: 'SAFETY',
};

const googlePart = (said: Said, parts: readonly object[], finish: boolean) => ({
  candidates: [
    {
      content: { role: 'model', parts },
      index: 0,
      ...(finish && { finishReason: googleFinish[said.finish] }),
    },
  ],
  ...(said.usage && {
    usageMetadata: {
      promptTokenCount: said.usage.prompt_tokens,
      candidatesTokenCount: said.usage.completion_tokens,
      totalTokenCount: said.usage.prompt_tokens + said.usage.completion_tokens,
    },
  }),
  modelVersion: said.model,
});

const googleTools = (said: Said) =>
  said.tools.map((tool) => ({ functionCall: { name: tool.name, args: JSON.parse(tool.arguments) as unknown } }));

const googleStatuses: Readonly<Record<number, string>> = {
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  429: 'RESOURCE_EXHAUSTED',
  503: 'UNAVAILABLE',
};

const googleError = (status: number, message: string) => ({
  error: { code: status, message, status: googleStatuses[status] ?? 'INTERNAL' },
});

const google: Wire = {
  chat: (said) => googlePart(said, [...said.pieces.map((text) => ({ text })), ...googleTools(said)], true),
  frames: (said) => ({
    head: [],
    pieces: said.pieces.map((text) => dataLine(googlePart(said, [{ text }], false))),
    tail: [dataLine(googlePart(said, said.tools.length > 0 ? googleTools(said) : [{ text: '' }], true))],
    error: dataLine(googleError(503, 'The model is overloaded. Please try again later.')),
  }),
  error: (status, message) => googleError(status, message),
};

export const wires: Readonly<Record<DialectName, Wire>> = { openai: openAi, anthropic, google };
