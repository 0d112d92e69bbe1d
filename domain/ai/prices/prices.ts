import type { TokenUsage } from '../chat.ts';
import type { ProviderName } from '../providers/providers.ts';

/** In billionths of a US dollar for a single token; may be fractions of one. */
export interface TokenPrice {
  readonly input: number;
  readonly output: number;
  /** The price of prompt tokens that are read from the provider's cache; left out: the price of the others. */
  readonly cached?: number | undefined;
  /** The price of prompt tokens that are written to it; left out: the price of the others. */
  readonly written?: number | undefined;
}

/** By how much tiers of service change the price of a call; a tier that is not there changes nothing. */
export type Tiers = Readonly<Record<string, number>>;

const factorOf = (tiers: Tiers, tier: string | undefined): number =>
  tier !== undefined && Object.hasOwn(tiers, tier) ? (tiers[tier] ?? 1) : 1;

export interface Price extends TokenPrice {
  /** The prices of the whole call when its prompt has more than so many tokens, the highest threshold last. */
  readonly longer?: readonly (TokenPrice & { readonly thanTokens: number })[] | undefined;
}

/** Returns the cost of a call in whole billionths of a US dollar: the cost is rounded, not the price. */
export const costOf = (price: Price, usage: TokenUsage, tiers: Tiers = {}): number => {
  const { prompt_tokens: prompt, completion_tokens: completion, service_tier: tier } = usage;
  const { input, output, ...of } = price.longer?.findLast(({ thanTokens }) => prompt > thanTokens) ?? price;
  // Whatever a provider says, no more is read or written than there is.
  const cached = Math.min(usage.cached_tokens ?? 0, prompt);
  const written = Math.min(usage.cache_write_tokens ?? 0, prompt - cached);
  const plain = prompt - cached - written;
  const promptCost = input * plain + (of.cached ?? input) * cached + (of.written ?? input) * written;
  return Math.round((promptCost + output * completion) * factorOf(tiers, tier));
};

/** The most that a call may cost: as if all of its prompt was written to the cache, where that is dearer. */
export const maxCostOf = (price: Price, usage: TokenUsage, tiers: Tiers = {}): number =>
  Math.max(costOf(price, usage, tiers), costOf(price, { ...usage, cache_write_tokens: usage.prompt_tokens }, tiers));

/** Facts about a model beyond its provider's list. */
export interface KnownModel {
  readonly provider: ProviderName;
  readonly id: string;
  readonly type: 'chat' | 'embedding';
  readonly contextWindow: number | null;
  /** In tokens, of one answer. */
  readonly maxOutput: number | null;
  /** The dimensions of an embedding model's vectors. */
  readonly dimensions: number | null;
  /** Null: not known. */
  readonly price: Price | null;
  readonly tiers?: Tiers | undefined;
}

/** The table of models and prices: a package's, and before it what the operator's file says. */
export interface Prices {
  /** Also for dated and aliased ids of a known model; undefined when nothing is known of it. */
  readonly find: (provider: ProviderName, model: string) => KnownModel | undefined;
  /** Every provider that has a model of exactly this name. */
  readonly providersOf: (model: string) => readonly ProviderName[];
}
