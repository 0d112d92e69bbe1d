import { ServiceError } from '#lib/errors.ts';
import type { ChatMessage, ChatRequest, ContentPart, TokenUsage } from '../chat.ts';
import { type KnownModel, costOf as costAt, maxCostOf } from '../prices/prices.ts';
import type { EmbeddingInput } from '../providers/dialect.ts';
import { maxNanoUsd, maxTokens } from '../usage/usage.ts';

/**
 * The tokens that a call may use. A prompt has two counts: the likely one, for the row when its provider reports none,
 * and the largest possible one, which is reserved in a budget.
 */

/** A token of English is some four characters, in all tokenizers of ours. */
const charactersPerToken = 4;
/** No answer has eight characters in every token: a longer one has more tokens than were granted. */
const maxCharactersPerToken = 8;
/** An image of 1024 × 1024 is 765 tokens at OpenAI, 1400 at Anthropic. */
const tokensPerImage = 1000;
/**
 * No vendor counts more of them for an image, except for the small models of OpenAI's: gpt-4o-mini has up to 48,169.
 */
const maxTokensPerImage = 10_000;
const maxTokensPerImageOfMini = 50_000;
const isMini = /(^|[-.])mini\b/;
/** The characters between the parts of a prompt. */
const framing = 20;
/** Instructions that vendors add for tools and forms of answers: some hundred tokens. */
const instructions = 1000;
/** Where nothing is known of how long an answer may be; models that think count their thoughts in it. */
const assumedOutput = 8192;

export const tokensIn = (characters: number): number => Math.ceil(characters / charactersPerToken);

interface Measure {
  readonly text: (text: string) => number;
  readonly image: (url: string) => number;
  readonly framing: number;
}

const sizeOfPart = (part: ContentPart, measure: Measure): number => {
  if (part.type === 'text') return measure.text(part.text);
  // A part that only OpenAI's dialect knows counts by its text: sound and files are inline.
  return part.type === 'image_url' ? measure.image(part.image_url.url) : measure.text(JSON.stringify(part));
};

const sizeOf = (message: ChatMessage, measure: Measure): number => {
  const { content, name = '', tool_calls: calls = [], tool_call_id: id = '' } = message;
  let sum = measure.framing + measure.text(name) + measure.text(id);
  if (typeof content === 'string') sum += measure.text(content);
  else {
    for (const part of content ?? []) {
      sum += measure.framing + sizeOfPart(part, measure);
    }
  }
  for (const call of calls) {
    sum += measure.framing + measure.text(call.id);
    sum += measure.text(call.function.name) + measure.text(call.function.arguments);
  }
  return sum;
};

const sizeOfPrompt = ({ messages, tools, response_format: format }: ChatRequest, measure: Measure): number => {
  let sum = 0;
  for (const message of messages) sum += sizeOf(message, measure);
  if (tools) sum += measure.text(JSON.stringify(tools));
  if (format) sum += measure.text(JSON.stringify(format));
  return sum;
};

const likely: Measure = {
  text: (text) => text.length,
  image: () => tokensPerImage * charactersPerToken,
  framing: 0,
};

/** Returns the likely number of tokens of a prompt. */
export const promptTokens = (request: ChatRequest): number => tokensIn(sizeOfPrompt(request, likely));

// A token is at least a byte. What is inline and no image, such as a document, has at most as many as its text.
const maxFor = (model: string): Measure => ({
  text: (text) => Buffer.byteLength(text),
  image: (url) => {
    const max = isMini.test(model) ? maxTokensPerImageOfMini : maxTokensPerImage;
    return url.startsWith('data:') && !url.startsWith('data:image/') ? Math.max(max, url.length) : max;
  },
  framing,
});

const maxPromptTokens = (request: ChatRequest): number => {
  const { model, tools, response_format: format, extra } = request;
  const instructionTokens = tools || format ? instructions : 0;
  const further = extra === undefined ? 0 : Buffer.byteLength(JSON.stringify(extra));
  return sizeOfPrompt(request, maxFor(model)) + instructionTokens + further;
};

export const inputTokens = (input: readonly EmbeddingInput[]): number =>
  input.reduce((sum, one) => sum + (typeof one === 'string' ? tokensIn(one.length) : one.length), 0);

const maxInputTokens = (input: readonly EmbeddingInput[]): number =>
  input.reduce((sum, one) => sum + framing + (typeof one === 'string' ? Buffer.byteLength(one) : one.length), 0);

/** In nano-USD; null: the model has no price. */
export const costOf = (known: KnownModel | undefined, usage: TokenUsage): number | null => {
  const price = known?.price ?? null;
  return price === null ? null : Math.min(costAt(price, usage, known?.tiers), maxNanoUsd);
};

/** The usage as a provider reports it; it may have any value. */
export const plausible = (usage: TokenUsage): TokenUsage => {
  const prompt = Math.min(usage.prompt_tokens, maxTokens);
  const completion = Math.min(usage.completion_tokens, maxTokens);
  const cached = Math.min(usage.cached_tokens ?? 0, prompt);
  const written = Math.min(usage.cache_write_tokens ?? 0, prompt - cached);
  const reasoning = Math.min(usage.reasoning_tokens ?? 0, completion);
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    ...(cached > 0 && { cached_tokens: cached }),
    ...(written > 0 && { cache_write_tokens: written }),
    ...(reasoning > 0 && { reasoning_tokens: reasoning }),
    ...(usage.service_tier !== undefined && { service_tier: usage.service_tier }),
  };
};

/** The tier of service that a request names; undefined: its provider decides. */
export const tierOf = ({ extra }: ChatRequest): string | undefined => {
  const tier = extra?.['service_tier'];
  return typeof tier === 'string' ? tier : undefined;
};

/** The tier that `auto` may become: the dearest. A cheaper one that is requested need not be granted. */
const dearestTier = (request: ChatRequest, known: KnownModel | undefined): string | undefined => {
  const requested = tierOf(request);
  const tiers = Object.entries(known?.tiers ?? {}).filter(([, factor]) => factor > 1);
  if (requested === 'auto') return tiers.toSorted(([, a], [, b]) => b - a)[0]?.[0];
  return tiers.find(([tier]) => tier === requested)?.[0];
};

/** How many answers one request asks for. */
const answersOf = ({ extra }: ChatRequest): number => {
  const n = extra?.['n'];
  return typeof n === 'number' && n > 1 ? n : 1;
};

const maxOutput = (request: ChatRequest, known: KnownModel | undefined): number =>
  request.max_tokens ?? known?.maxOutput ?? assumedOutput;

/** The facts about a route by which its budget is computed. */
interface Budgeted {
  readonly model: string;
  readonly known: KnownModel | undefined;
  readonly hardBudget: boolean;
  /** Left out: a server of the project's own. */
  readonly key?: { readonly target: { readonly isVendor: boolean } };
}

/**
 * No budget can be reserved for a model without a known price.
 * @throws {ServiceError} `price_unknown`
 */
export const requirePrice = ({ hardBudget, known, model }: Budgeted): void => {
  if (!hardBudget || (known?.price ?? null) !== null) return;
  throw new ServiceError('price_unknown', `The price of ${model} is not known, and the project has a hard budget.`, {
    hint:
      'The operator can set the price in the file that PLINTH_AI_PRICES names; ' +
      'a budget that is not hard allows the call.',
  });
};

/** Without the field, OpenAI uses the tier of its own settings, which is unknown here. */
const withTier = (request: ChatRequest, { known, key }: Budgeted): Pick<ChatRequest, 'extra'> => {
  const isOpenAi = known?.provider === 'openai' && key?.target.isVendor === true;
  return isOpenAi && tierOf(request) === undefined ? { extra: { ...request.extra, service_tier: 'default' } } : {};
};

/** The same request with an end to its answer and a price, which a hard budget has to be asked for before. */
export const bounded = (request: ChatRequest, route: Budgeted): ChatRequest =>
  route.hardBudget ? { ...request, max_tokens: maxOutput(request, route.known), ...withTier(request, route) } : request;

/** More than any budget is: it does not fit, and is still a number for Postgres. */
const maxReserve = 2e15;

const reserveOf = (known: KnownModel | undefined, usage: TokenUsage): number | null => {
  const price = known?.price ?? null;
  return price === null ? null : Math.min(maxCostOf(price, usage, known?.tiers), maxReserve);
};

const withServiceTier = (tier: string | undefined): Pick<TokenUsage, 'service_tier'> =>
  tier === undefined ? {} : { service_tier: tier };

/** The most that an answer may cost; null: the model has no price. */
export const reserveFor = (request: ChatRequest, known: KnownModel | undefined): number | null =>
  reserveOf(known, {
    prompt_tokens: maxPromptTokens(request),
    completion_tokens: maxOutput(request, known) * answersOf(request),
    ...withServiceTier(dearestTier(request, known)),
  });

export const reserveForInput = (input: readonly EmbeddingInput[], known: KnownModel | undefined): number | null =>
  reserveOf(known, { prompt_tokens: maxInputTokens(input), completion_tokens: 0 });

/** Returns the least that a stream can have cost so far. */
export const spentAtLeast = (known: KnownModel, reported: TokenUsage | null, characters: number): number => {
  const completion = Math.floor(characters / maxCharactersPerToken);
  const usage = {
    ...reported,
    prompt_tokens: reported?.prompt_tokens ?? 0,
    completion_tokens: Math.max(reported?.completion_tokens ?? 0, completion),
  };
  return known.price === null ? 0 : costAt(known.price, usage, known.tiers);
};
