import { z } from 'zod';
import type { ChatRequest } from '#domain/ai/chat.ts';
import type { EmbeddingRequest } from '#domain/ai/providers/dialect.ts';
import {
  calledFunction,
  choiceError,
  functionFields,
  hasContent,
  input,
  maxInputs,
  maxMessages,
  maxParts,
  maxToolCalls,
  model,
  noContent,
  parts,
  schemaFields,
  stop,
  temperature,
  tokenCount,
  toolCallFields,
  toolName,
  topP,
} from './shapes.ts';
import { namedObject } from '#api/fields.ts';

/**
 * Requests as OpenAI's clients write them: what they know and we do not goes on to providers that speak the same
 * dialect, and null stands for what was left out.
 */

const part = z.discriminatedUnion('type', [
  z.looseObject(parts.text),
  z.looseObject({ ...parts.image, image_url: z.looseObject(parts.imageUrl) }),
]);
const isKnownPart = (type: string): boolean => type === 'text' || type === 'image_url';
/** Sound, files and whatever comes: the provider is the one to say what it takes. */
const otherPart = z.looseObject({
  type: z
    .string()
    .min(1)
    .refine((type) => !isKnownPart(type)),
});
const content = z.union(
  [
    z.string(),
    z
      .array(z.union([part, otherPart]))
      .min(1)
      .max(maxParts),
  ],
  {
    error: 'must be text, or a list of parts, such as {type: "text", text}',
  },
);

const toolCall = z.looseObject({ ...toolCallFields, function: z.looseObject(calledFunction) });

const message = z.discriminatedUnion('role', [
  z.looseObject({ role: z.enum(['system', 'developer', 'user']), content }),
  z
    .looseObject({
      role: z.literal('assistant'),
      content: content.nullable().default(null),
      tool_calls: z.array(toolCall).min(1).max(maxToolCalls).optional(),
      function_call: z.looseObject(calledFunction).nullish(),
    })
    .refine((one) => hasContent(one) || (one.function_call ?? null) !== null, noContent),
  z.looseObject({ role: z.literal('tool'), content, tool_call_id: z.string().min(1) }),
  // The predecessor of tool calls.
  z.looseObject({ role: z.literal('function'), content: content.nullable(), name: z.string().min(1) }),
]);

const tool = z.looseObject({ type: z.literal('function'), function: z.looseObject(functionFields) });

const toolChoice = z.union(
  [
    z.enum(['none', 'auto', 'required']),
    z.looseObject({ type: z.literal('function'), function: z.looseObject({ name: toolName }) }),
  ],
  choiceError,
);

const responseFormat = z.discriminatedUnion('type', [
  z.looseObject({ type: z.literal('text') }),
  z.looseObject({ type: z.literal('json_object') }),
  z.looseObject({ type: z.literal('json_schema'), json_schema: z.looseObject(schemaFields) }),
]);

export const completionBody = z.looseObject({
  model,
  messages: z.array(message).min(1).max(maxMessages),
  temperature: temperature.nullish(),
  max_tokens: tokenCount.nullish(),
  max_completion_tokens: tokenCount.nullish(),
  top_p: topP.nullish(),
  n: z.int().min(1).max(128).nullish(),
  stop: stop.nullish(),
  tools: z.array(tool).min(1).max(512).nullish(),
  tool_choice: toolChoice.nullish(),
  response_format: responseFormat.nullish(),
  stream: z.boolean().nullish(),
  stream_options: z.looseObject({ include_usage: z.boolean().nullish() }).nullish(),
});

export type CompletionBody = z.output<typeof completionBody>;

type Message = CompletionBody['messages'][number];

const foreignInMessage = (message: Message): string | undefined => {
  if (message.role === 'function') return 'messages of the role function';
  if (message.role === 'assistant' && (message.function_call ?? null) !== null) return 'function_call';
  const all = typeof message.content === 'string' ? [] : (message.content ?? []);
  const other = all.find(({ type }) => !isKnownPart(type));
  return other && `parts of the type ${JSON.stringify(other.type.slice(0, 50))}`;
};

/** Returns the first field that only OpenAI's dialect knows and that would be lost elsewhere; undefined: none. */
const foreignIn = (body: CompletionBody): string | undefined => {
  if (typeof body['n'] === 'number' && body['n'] > 1) return 'more than one answer (n)';
  const field = ['functions', 'function_call'].find((name) => (body[name] ?? null) !== null);
  if (field !== undefined) return field;
  for (const message of body.messages) {
    const foreign = foreignInMessage(message);
    if (foreign !== undefined) return foreign;
  }
  return undefined;
};

/**
 * Returns the request to the model; the form of the answer (`stream`, `stream_options`) is between the client and us.
 */
export const requestOf = (body: CompletionBody): ChatRequest => {
  const { max_tokens, max_completion_tokens, stream: _stream, stream_options: _options, ...fields } = body;
  const { model: name, messages, temperature: heat, top_p, stop: stops, tools, tool_choice, ...rest } = fields;
  const { response_format, ...extra } = rest;
  return {
    model: name,
    // Fields that are not among its types are named in `onlyOpenAi`.
    messages: messages as ChatRequest['messages'],
    onlyOpenAi: foreignIn(body),
    temperature: heat ?? undefined,
    max_tokens: max_completion_tokens ?? max_tokens ?? undefined,
    top_p: top_p ?? undefined,
    stop: stops ?? undefined,
    tools: tools ?? undefined,
    tool_choice: tool_choice ?? undefined,
    response_format: response_format ?? undefined,
    extra,
  };
};

const tokens = z.array(z.int().min(0)).min(1).max(300_000);
const tokensError = {
  error: `must be text, a list of the numbers of tokens, or a list of 1 to ${maxInputs} of these, none of them empty`,
} as const;
const openAiInput = z.union([input, tokens, z.array(tokens).min(1).max(maxInputs)], tokensError);

const isTokens = (value: z.output<typeof openAiInput>): value is number[] => typeof value[0] === 'number';

/** One text or one list of tokens stands for a list of one. */
export const inputsOf = (value: z.output<typeof openAiInput>): EmbeddingRequest['input'] =>
  typeof value === 'string' || isTokens(value) ? [value] : value;

export const embeddingsRequest = z.looseObject({
  model,
  input: openAiInput,
  dimensions: tokenCount.nullish(),
  encoding_format: z.enum(['float', 'base64']).nullish(),
});

export const completionAnswer = z
  .looseObject({
    id: z.string(),
    object: z.enum(['chat.completion', 'chat.completion.chunk']),
    created: z.int(),
    model: z.string(),
    choices: z.array(z.looseObject({ index: z.int() })),
  })
  .describe('As OpenAI answers; with `stream` its chunks as server-sent events.');

export const modelAnswer = namedObject('OpenAiModel', {
  id: z.string(),
  object: z.literal('model'),
  created: z.int(),
  owned_by: z.string(),
});

export const modelsAnswer = z.object({ object: z.literal('list'), data: z.array(modelAnswer) });

export const embeddingsList = z.object({
  object: z.literal('list'),
  data: z.array(
    z.object({
      object: z.literal('embedding'),
      index: z.int(),
      embedding: z.union([z.array(z.number()), z.string()]).describe('In base64: 32-bit floats, little-endian.'),
    }),
  ),
  model: z.string(),
  usage: z.object({ prompt_tokens: z.int(), total_tokens: z.int() }),
});
