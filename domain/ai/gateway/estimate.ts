import type { ChatMessage, ChatRequest, TokenUsage } from '../chat.ts';
import { type KnownModel, type Price, costOf as costAt } from '../prices/prices.ts';

/** A token of English is some four characters, in all tokenizers of ours. */
const charactersPerToken = 4;
/** An image of 1024 × 1024 is 765 tokens at OpenAI, 1400 at Anthropic. */
const tokensPerImage = 1000;
/** Other languages and code have more tokens to a character: what is kept free of a budget is so much more. */
const caution = 2;
/** Where nothing is known of how long an answer may be; models that think count their thoughts in it. */
const assumedOutput = 8192;
/** What a stream takes of a budget at a time, in tokens of its answer. */
const outputStep = 1000;

export const tokensIn = (characters: number): number => Math.ceil(characters / charactersPerToken);

const charactersOf = ({ content, tool_calls: calls }: ChatMessage): number => {
  let sum = 0;
  if (typeof content === 'string') sum += content.length;
  else {
    for (const part of content ?? []) {
      sum += part.type === 'text' ? part.text.length : tokensPerImage * charactersPerToken;
    }
  }
  for (const call of calls ?? []) sum += call.function.name.length + call.function.arguments.length;
  return sum;
};

/** What a prompt is in tokens, as far as its length tells. */
export const promptTokens = ({ messages, tools, response_format: format }: ChatRequest): number => {
  let characters = 0;
  for (const message of messages) characters += charactersOf(message);
  if (tools) characters += JSON.stringify(tools).length;
  if (format) characters += JSON.stringify(format).length;
  return tokensIn(characters);
};

export const inputTokens = (input: readonly string[]): number =>
  input.reduce((sum, text) => sum + tokensIn(text.length), 0);

/** In nano-USD; null: the model has no price. */
export const costOf = (price: Price | null, usage: TokenUsage): number | null =>
  price === null ? null : costAt(price, usage);

/** How many answers one request asks for. */
const answersOf = ({ extra }: ChatRequest): number => {
  const n = extra?.['n'];
  return typeof n === 'number' && n > 1 ? n : 1;
};

const mostOutput = (request: ChatRequest, known: KnownModel | undefined): number =>
  request.max_tokens ?? known?.mostOutput ?? assumedOutput;

/** The same request with an end to its answer, which a hard budget has to be asked for before. */
export const bounded = (request: ChatRequest, known: KnownModel | undefined): ChatRequest =>
  known?.price ? { ...request, max_tokens: mostOutput(request, known) } : request;

/** The most that a whole answer may cost; null: the model has no price. */
export const reserveFor = (request: ChatRequest, prompt: number, known: KnownModel | undefined): number | null => {
  const most = mostOutput(request, known);
  const usage = { prompt_tokens: prompt * caution, completion_tokens: most * answersOf(request) };
  return costOf(known?.price ?? null, usage);
};

/** What a stream takes at first: its prompt and the first step of its answer. */
export const reserveForStream = (request: ChatRequest, prompt: number, known: KnownModel | undefined): number | null =>
  reserveFor({ ...request, max_tokens: Math.min(request.max_tokens ?? outputStep, outputStep) }, prompt, known);

export const reserveForInput = (prompt: number, known: KnownModel | undefined): number | null =>
  costOf(known?.price ?? null, { prompt_tokens: prompt * caution, completion_tokens: 0 });

/** What a stream takes of a budget when it goes on beyond what it had. */
export const stepOf = (price: Price): number => Math.ceil(price.output * outputStep);

/** What a stream has cost until now, on the safe side. */
export const spentBy = (price: Price, { prompt_tokens, completion_tokens }: TokenUsage): number =>
  costAt(price, { prompt_tokens: prompt_tokens * caution, completion_tokens: completion_tokens * caution });
