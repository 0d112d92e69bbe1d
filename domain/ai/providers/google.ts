import type { ChatMessage, ChatRequest, ContentPart, ToolChoice } from '../chat.ts';
import { readDataUrl } from './data-url.ts';
import type { Dialect, EmbeddingRequest, Outgoing, Target } from './dialect.ts';
import { readFault } from './faults.ts';
import { openStream, readChat, readEmbeddings, readModels } from './google-answers.ts';
import { argumentsOf, instructionsOf, partsOf, plainText, turnsOf } from './turns.ts';

// In a header: a URL is logged on its way.
const headers = ({ apiKey }: Target): Record<string, string> => ({
  'content-type': 'application/json',
  'x-goog-api-key': apiKey,
});

/** Google's own SDK takes the base URL without the version, others take it with it. */
const urlOf = ({ baseUrl }: Target, path: string): string =>
  /\/v1(?:beta\d*|alpha)?$/.test(baseUrl) ? `${baseUrl}/${path}` : `${baseUrl}/v1beta/${path}`;

/** As a part of a path; ids come with `models/` and without it. Tuned models have a list of their own. */
const modelPath = (model: string): string => {
  const [, list = 'models', id = model] = /^(models|tunedModels)\/(.*)$/s.exec(model) ?? [];
  return `${list}/${encodeURIComponent(id)}`;
};

const imageTypes: Readonly<Record<string, string>> = {
  png: 'image/png',
  webp: 'image/webp',
  gif: 'image/gif',
  heic: 'image/heic',
  heif: 'image/heif',
};

/** Google wants the type of the file behind a URL; only the name tells it. */
const typeByName = (url: string): string => {
  const extension = /\.(\w+)(?:[?#]|$)/.exec(url.slice(url.lastIndexOf('/')))?.[1]?.toLowerCase() ?? '';
  return imageTypes[extension] ?? 'image/jpeg';
};

const contentPart = (part: ContentPart): object => {
  if (part.type === 'text') return { text: part.text };
  const { url } = part.image_url;
  const inline = readDataUrl(url);
  return inline
    ? { inlineData: { mimeType: inline.mediaType, data: inline.base64 } }
    : { fileData: { mimeType: typeByName(url), fileUri: url } };
};

/**
 * Since Gemini 3 each function call in the talk has to carry the signature of the thought behind it, which OpenAI's form
 * has no place for; this one stands for "it came from elsewhere" (Gemini API, "Thought signatures").
 */
const foreignSignature = 'skip_thought_signature_validator';
const wantsSignature = (model: string): boolean => !/gemini-[12]\.|gemma/.test(model);

/** Answers of tools name the function here; in OpenAI's form they name the call. */
const functionNames = (messages: readonly ChatMessage[]): ReadonlyMap<string, string> =>
  new Map(messages.flatMap(({ tool_calls: calls = [] }) => calls.map((call) => [call.id, call.function.name])));

const createPartsOf = ({ model, messages }: ChatRequest) => {
  const names = functionNames(messages);
  const signed = wantsSignature(model) ? { thoughtSignature: foreignSignature } : {};
  return (message: ChatMessage): readonly object[] => {
    if (message.role === 'tool') {
      const id = message.tool_call_id ?? '';
      const name = names.get(id) ?? message.name ?? id;
      return [{ functionResponse: { name, response: argumentsOf(plainText(message.content)) } }];
    }
    const calls = (message.tool_calls ?? []).map(({ function: made }) => ({
      functionCall: { name: made.name, args: argumentsOf(made.arguments) },
      ...signed,
    }));
    return [...partsOf(message.content).map(contentPart), ...calls];
  };
};

const callingConfig = (choice: ToolChoice): object => {
  if (typeof choice !== 'string') return { mode: 'ANY', allowedFunctionNames: [choice.function.name] };
  return { mode: choice === 'required' ? 'ANY' : choice.toUpperCase() };
};

const toolFields = ({ tools, tool_choice: choice }: ChatRequest): object => {
  if (!tools || tools.length === 0) return {};
  const functionDeclarations = tools.map(({ function: { name, description, parameters } }) => ({
    name,
    description,
    // `parameters` knows a part of JSON Schema only.
    parametersJsonSchema: parameters,
  }));
  return {
    tools: [{ functionDeclarations }],
    ...(choice !== undefined && { toolConfig: { functionCallingConfig: callingConfig(choice) } }),
  };
};

const formatFields = ({ response_format: format }: ChatRequest): object => {
  if (format === undefined || format.type === 'text') return {};
  const schema = format.type === 'json_schema' ? format.json_schema.schema : undefined;
  return { responseMimeType: 'application/json', responseJsonSchema: schema };
};

const bodyOf = (request: ChatRequest): object => {
  const system = instructionsOf(request);
  const { temperature, top_p: topP, max_tokens: maxOutputTokens, stop } = request;
  return {
    ...(system !== '' && { systemInstruction: { parts: [{ text: system }] } }),
    contents: turnsOf(request.messages, createPartsOf(request)).map(({ role, blocks }) => ({
      role: role === 'assistant' ? 'model' : 'user',
      parts: blocks,
    })),
    ...toolFields(request),
    generationConfig: {
      temperature,
      topP,
      maxOutputTokens,
      stopSequences: typeof stop === 'string' ? [stop] : stop,
      ...formatFields(request),
    },
  };
};

const embeddings = (target: Target, { model, input, dimensions }: EmbeddingRequest): Outgoing => {
  const path = modelPath(model);
  const requests = input.map((text) => ({
    model: path,
    content: { parts: [{ text }] },
    outputDimensionality: dimensions,
  }));
  return {
    method: 'POST',
    url: urlOf(target, `${path}:batchEmbedContents`),
    headers: headers(target),
    body: JSON.stringify({ requests }),
  };
};

const listUrl = (target: Target, after: string | null): string =>
  `${urlOf(target, 'models')}?pageSize=1000${after === null ? '' : `&pageToken=${encodeURIComponent(after)}`}`;

export const google: Dialect = {
  // "At most 100 requests can be in one batch."
  maxInputs: 100,
  chat: (target, request, stream) => ({
    method: 'POST',
    url: urlOf(target, `${modelPath(request.model)}:${stream ? 'streamGenerateContent?alt=sse' : 'generateContent'}`),
    headers: headers(target),
    body: JSON.stringify(bodyOf(request)),
  }),
  readChat,
  openStream,
  embeddings,
  readEmbeddings,
  models: (target, after) => ({ method: 'GET', url: listUrl(target, after), headers: headers(target), body: null }),
  readModels,
  fault: readFault,
};
