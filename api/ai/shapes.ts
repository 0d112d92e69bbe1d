import { z } from 'zod';
import { providerNames } from '#domain/ai/providers/providers.ts';
import { namedObject, namedBody, text } from '../fields.ts';

/** Chats and embeddings as clients send them (interface, AI; contract, section 8). */

/** A model's name goes into tables and addresses. */
export const model = z
  .string()
  .min(1)
  .max(200)
  .regex(/^[^\s\p{Cc}]+$/u, { error: 'must be the name of a model, without spaces' })
  .refine((value) => value.isWellFormed(), { error: 'must be well-formed Unicode' })
  .describe('`provider/id`, or `id` where only one provider has it.');

export const maxMessages = 1000;
export const maxInputs = 2048;

/** The fields of the parts of a chat; how strictly they are held is each surface's own. */
export const parts = {
  text: { type: z.literal('text'), text: z.string() },
  image: { type: z.literal('image_url') },
  imageUrl: { url: z.string().min(1), detail: z.string().optional() },
} as const;

export const toolName = z.string().regex(/^[\w.:-]{1,128}$/, { error: 'must be the name of a tool' });

export const toolCallFields = { id: z.string().min(1), type: z.literal('function') } as const;
export const calledFunction = { name: z.string().min(1), arguments: z.string() } as const;

export const functionFields = {
  name: toolName,
  description: z.string().optional(),
  parameters: z.record(z.string(), z.unknown()).optional().describe('A JSON Schema.'),
  strict: z.boolean().nullish(),
} as const;

export const schemaFields = {
  name: z.string().min(1).max(128),
  description: z.string().optional(),
  schema: z.record(z.string(), z.unknown()).optional().describe('A JSON Schema.'),
  strict: z.boolean().nullish(),
} as const;

export const temperature = z.number().min(0).max(2);
export const topP = z.number().min(0).max(1);
/** More than any model takes or gives. */
export const tokenCount = z.int().min(1).max(10_000_000);
export const stop = z.union([z.string().min(1), z.array(z.string().min(1)).min(1).max(16)], {
  error: 'must be text, or a list of 1 to 16 texts',
});
/** The limit for one message: more than any model takes, and checking 10 MB of them stays below 50 ms. */
export const maxParts = 2000;
export const maxToolCalls = 256;
const contentError = { error: 'must be text, or a list of parts of the types text and image_url' } as const;
export const choiceError = { error: 'must be none, auto, required or {type: "function", function: {name}}' } as const;

const part = z.discriminatedUnion('type', [
  z.strictObject(parts.text),
  z.strictObject({ ...parts.image, image_url: z.strictObject(parts.imageUrl) }),
]);
const content = z.union([z.string(), z.array(part).min(1).max(maxParts)], contentError);

const name = z.string().min(1).max(128).optional();

const toolCall = namedBody('ToolCall', { ...toolCallFields, function: z.strictObject(calledFunction) });

/** An assistant's message has text, tool calls, or both. */
export const hasContent = (message: { content?: unknown; tool_calls?: unknown }): boolean =>
  (message.content ?? message.tool_calls ?? null) !== null;
export const noContent = { error: 'needs content or tool_calls', path: ['content'] };

const message = z.discriminatedUnion('role', [
  z.strictObject({ role: z.enum(['system', 'developer', 'user']), content, name }),
  z
    .strictObject({
      role: z.literal('assistant'),
      content: content.nullable().default(null),
      name,
      tool_calls: z.array(toolCall).min(1).max(maxToolCalls).optional(),
    })
    .refine(hasContent, noContent),
  z.strictObject({ role: z.literal('tool'), content, name, tool_call_id: z.string().min(1) }),
]);

const tool = z.strictObject({ type: z.literal('function'), function: z.strictObject(functionFields) });

const toolChoice = z.union(
  [
    z.enum(['none', 'auto', 'required']),
    z.strictObject({ type: z.literal('function'), function: z.strictObject({ name: toolName }) }),
  ],
  choiceError,
);

const responseFormat = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('text') }),
  z.strictObject({ type: z.literal('json_object') }),
  z.strictObject({ type: z.literal('json_schema'), json_schema: z.strictObject(schemaFields) }),
]);

const chatMessages = z.array(message).min(1).max(maxMessages);

export const chatBody = namedBody('ChatRequest', {
  model,
  messages: chatMessages,
  temperature: temperature.optional(),
  max_tokens: tokenCount.optional(),
  top_p: topP.optional(),
  stop: stop.optional(),
  tools: z.array(tool).min(1).max(512).optional(),
  tool_choice: toolChoice.optional(),
  response_format: responseFormat.optional(),
});

const inputError = { error: `must be text, or a list of 1 to ${maxInputs} texts, none of them empty` } as const;
export const input = z.union([z.string().min(1), z.array(z.string().min(1)).min(1).max(maxInputs)], inputError);

export const embeddingsBody = z.strictObject({
  input,
  model,
  dimensions: tokenCount.optional().describe('Of the vectors, where the model lets one choose.'),
});

const provider = z.enum(providerNames);

const usage = namedObject('AiUsage', {
  prompt_tokens: z.int(),
  completion_tokens: z.int(),
  prompt_tokens_details: z
    .object({ cached_tokens: z.int(), cache_write_tokens: z.int() })
    .optional()
    .describe('Of the prompt: read from the provider’s cache, and written to it. Left out when there are none.'),
  completion_tokens_details: z
    .object({ reasoning_tokens: z.int() })
    .optional()
    .describe('Of the answer: thoughts. Left out when there are none.'),
  service_tier: z.string().optional().describe('As the provider named it.'),
});

const finishReason = z.enum(['stop', 'length', 'tool_calls', 'content_filter']);

export const chatAnswer = namedObject('ChatAnswer', {
  content: z.string(),
  model: z.string(),
  provider,
  usage,
  latency_ms: z.int(),
  finish_reason: finishReason,
  tool_calls: z.array(toolCall).optional().describe('Left out when the model calls none.'),
});

export const embeddingsAnswer = z.object({
  embeddings: z.array(z.array(z.number())),
  dimensions: z.int(),
  model: z.string(),
  provider,
  usage: z.object({ prompt_tokens: z.int() }),
});

export const eventsAnswer = z
  .string()
  .describe(
    '`data: {chunk,elapsed_ms}` for each piece (`tool_calls` where it is of one), at last ' +
      '`data: {done:true,ttft_ms,total_tokens,usage,model,provider,finish_reason}`, or ' +
      '`data: {error:{code,message},done:true}`.',
  );

export const generateBody = z.strictObject({
  prompt: text(10_000, 1).describe('What is wished, in plain words.'),
  model: model.optional().describe('Left out: a model of the first configured provider.'),
});

export const applyBody = z.strictObject({
  sql: text(64 * 1024).describe('One statement.'),
  approved: z.unknown().optional().describe('Has to be true: a person has seen the statement and wants it.'),
});

const reason = namedObject('RefusedStatement', {
  rule: z.string(),
  message: z.string(),
  at: z.int().optional().describe('Where in the text, in characters from 1 on.'),
});

const judged = {
  sql: z.string(),
  allowed: z.boolean().describe('Whether it would be run as it is.'),
  reasons: z.array(reason).describe('Why it would not.'),
};

const statements = z
  .array(z.object(judged))
  .describe('Each statement by itself, as they are applied; empty if unreadable.');
const names = z.array(z.string());
const explanation = z.string();

export const generatedSchema = z.object({ ...judged, tables: names, explanation, statements });
export const generatedRls = z.object({ ...judged, policies: names, explanation, statements });
export const generatedSql = z.object({
  ...judged,
  explanation,
  results: z.array(z.record(z.string(), z.unknown())).optional().describe('With execute: at most 1,000 rows.'),
  row_count: z.int().optional(),
  truncated: z.boolean().optional().describe('There are more rows than these.'),
  execution_error: z
    .object({ code: z.string(), message: z.string(), details: z.unknown(), hint: z.string().nullable() })
    .optional()
    .describe('Why there are no results.'),
});

const applied = { applied: z.literal(true), command: z.string(), sql: z.string() };
export const appliedSchema = z.object({ ...applied, tables: names });
export const appliedRls = z.object({ ...applied, policies: names });
