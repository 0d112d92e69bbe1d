import type { TokenUsage } from '../chat.ts';
import type { ProviderName } from '../providers/catalog.ts';

/** In billionths of a US dollar for a single token; may be fractions of one. */
export interface TokenPrice {
  readonly input: number;
  readonly output: number;
}

export interface Price extends TokenPrice {
  /** What the whole call costs when its prompt has more than so many tokens, the highest last. */
  readonly longer?: readonly (TokenPrice & { readonly thanTokens: number })[] | undefined;
}

/** What a call costs, in whole billionths of a US dollar: it is the cost that is rounded, not the price. */
export const costOf = (price: Price, usage: TokenUsage): number => {
  const { input, output } = price.longer?.findLast(({ thanTokens }) => usage.prompt_tokens > thanTokens) ?? price;
  return Math.round(input * usage.prompt_tokens + output * usage.completion_tokens);
};

/** What is known of a model beside what its provider's list says. */
export interface KnownModel {
  readonly provider: ProviderName;
  readonly id: string;
  readonly type: 'chat' | 'embedding';
  readonly contextWindow: number | null;
  /** In tokens, of one answer. */
  readonly mostOutput: number | null;
  /** Of an embedding model's vectors. */
  readonly dimensions: number | null;
  /** Null: not known. */
  readonly price: Price | null;
}

/** The table of models and prices: a package's, and before it what the operator's file says. */
export interface Prices {
  /** Also for dated and aliased ids of a known model; undefined when nothing is known of it. */
  readonly find: (provider: ProviderName, model: string) => KnownModel | undefined;
  /** Every provider that has a model of exactly this name. */
  readonly providersOf: (model: string) => readonly ProviderName[];
}
