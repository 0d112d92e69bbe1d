import { once } from 'node:events';
import { createRequire } from 'node:module';
import { Worker } from 'node:worker_threads';
import type { MatchLogic, ModelInfo, ModelPrice, Provider } from '@pydantic/genai-prices';
import { type ProviderName, providerNames } from '../providers/providers.ts';
import type { Price, TokenPrice } from './prices.ts';

/** The package's data of a model, and no more: its own form of all providers takes 20 MB. */
export interface ListedModel {
  readonly id: string;
  readonly contextWindow: number | null;
  /** With what restricts them to a time, the default first; the last that applies counts. */
  readonly prices: readonly TimedPrice[];
}

interface TimedPrice {
  readonly appliesAt: (ms: number) => boolean;
  readonly price: Price | null;
}

type Matches = (name: string) => boolean;

export interface ListedModels {
  /** By a name in small letters. */
  readonly named: ReadonlyMap<string, ListedModel>;
  readonly matching: readonly (readonly [Matches, ListedModel])[];
}

const packageName = '@pydantic/genai-prices';
/** The package's names where they are not ours. */
const idsThere: Partial<Record<ProviderName, string>> = { xai: 'x-ai' };
/** Under Google it lists what Google resells elsewhere, too. */
const notOfTheApi = /^claude/;

/** A price for a million tokens in USD is one for a token in millionths: 1,000 billionths. */
export const nanoPerUsdPerMillion = 1000;

type TokenRate = ModelPrice[string];

const baseOf = (rate: TokenRate): number => (typeof rate === 'object' ? rate.base : (rate ?? 0)) * nanoPerUsdPerMillion;

const rateAbove = (rate: TokenRate, tokens: number): number => {
  if (typeof rate !== 'object') return baseOf(rate);
  const tier = rate.tiers.findLast(({ start }) => start <= tokens);
  return tier === undefined ? baseOf(rate) : tier.price * nanoPerUsdPerMillion;
};

/** Null: it is not paid by the token of text. */
const priceOf = (of: ModelPrice): Price | null => {
  const { input_mtok: input, output_mtok: output, cache_read_mtok: cached, cache_write_mtok: written } = of;
  if (input === undefined) return null;
  const priceBy = (rateOf: (rate: TokenRate) => number): TokenPrice => ({
    input: rateOf(input),
    output: rateOf(output),
    ...(cached !== undefined && { cached: rateOf(cached) }),
    ...(written !== undefined && { written: rateOf(written) }),
  });
  const starts = [input, output, cached, written].flatMap((rate) =>
    typeof rate === 'object' ? rate.tiers.map(({ start }) => start) : [],
  );
  const longer = [...new Set(starts)]
    .toSorted((a, b) => a - b)
    .map((start) => ({ thanTokens: start, ...priceBy((rate) => rateAbove(rate, start)) }));
  return { ...priceBy(baseOf), ...(longer.length > 0 && { longer }) };
};

const dayMs = 86_400_000;
const minutesOf = (time: string): number => Number(time.slice(0, 2)) * 60 + Number(time.slice(3, 5));

/** `00:30:00Z` to `16:30:00Z`, or over midnight. */
const isBetween = (from: string, to: string) => {
  const [begins, ends] = [minutesOf(from), minutesOf(to)];
  return (ms: number): boolean => {
    const minute = Math.floor((ms % dayMs) / 60_000);
    return begins <= ends ? minute >= begins && minute < ends : minute >= begins || minute < ends;
  };
};

const timedPrices = (prices: ModelInfo['prices']): TimedPrice[] => {
  if (!Array.isArray(prices)) return [{ appliesAt: () => true, price: priceOf(prices) }];
  return prices.map(({ constraint, prices: given }) => {
    const price = priceOf(given);
    if (constraint === undefined) return { appliesAt: () => true, price };
    if (constraint.type === 'time_of_date')
      return { appliesAt: isBetween(constraint.start_time, constraint.end_time), price };
    const from = Date.parse(constraint.start_date);
    return { appliesAt: (ms) => ms >= from, price };
  });
};

export const priceAt = (model: ListedModel, ms: number): Price | null =>
  model.prices.findLast(({ appliesAt }) => appliesAt(ms))?.price ?? null;

const namesIn = (match: MatchLogic): string[] => {
  if ('or' in match) return match.or.flatMap(namesIn);
  return 'equals' in match ? [match.equals.toLowerCase()] : [];
};

const wordRule = (match: MatchLogic): Matches | null => {
  if ('starts_with' in match) return (name) => name.startsWith(match.starts_with.toLowerCase());
  if ('ends_with' in match) return (name) => name.endsWith(match.ends_with.toLowerCase());
  if ('contains' in match) return (name) => name.includes(match.contains.toLowerCase());
  if (!('regex' in match)) return null;
  const regex = new RegExp(match.regex);
  return (name) => regex.test(name);
};

/** Null: names say all. */
const ruleOf = (match: MatchLogic): Matches | null => {
  if ('or' in match) {
    const rules = match.or.flatMap((one) => ruleOf(one) ?? []);
    return rules.length === 0 ? null : (name) => rules.some((rule) => rule(name));
  }
  if ('and' in match) {
    const rules = match.and.map((one) => ruleOf(one) ?? ((name: string) => namesIn(one).includes(name)));
    return (name) => rules.every((rule) => rule(name));
  }
  return wordRule(match);
};

const listed = (models: readonly ModelInfo[]): ListedModels => {
  const named = new Map<string, ListedModel>();
  const matching: [Matches, ListedModel][] = [];
  for (const { id, match, context_window: contextWindow, prices } of models) {
    const model = { id, contextWindow: contextWindow ?? null, prices: timedPrices(prices) };
    for (const name of namesIn(match)) if (!named.has(name)) named.set(name, model);
    const rule = ruleOf(match);
    if (rule !== null) matching.push([rule, model]);
  }
  return { named, matching };
};

interface PricesPackage {
  readonly findProvider: (by: { readonly providerId: string }) => Provider | undefined;
}

/** The package's own form of the models of our providers: some 100 KB of plain data. */
export type PackagedModels = readonly (readonly [ProviderName, readonly ModelInfo[]])[];

/**
 * Reads the package's own table and releases it; it takes some 40 ms. The package uses the network only on request,
 * which never happens here.
 */
export const readPackagedModels = (): PackagedModels => {
  const require = createRequire(import.meta.url);
  const { findProvider } = require(packageName) as PricesPackage;
  const models = providerNames.map((name) => {
    const known = findProvider({ providerId: idsThere[name] ?? name })?.models ?? [];
    return [name, known.filter(({ id }) => name !== 'google' || !notOfTheApi.test(id))] as const;
  });
  delete require.cache[require.resolve(packageName)];
  return models;
};

export type ModelTable = ReadonlyMap<ProviderName, ListedModels>;

const tableOf = (models: PackagedModels): ModelTable => new Map(models.map(([name, known]) => [name, listed(known)]));

/** Where the table of models comes from. */
export interface ModelSource {
  /** At once, at the cost of some 40 ms of the event loop. */
  readonly read: () => ModelTable;
  /** By a thread, which leaves 1 or 2 ms for the event loop. */
  readonly load: () => Promise<ModelTable>;
}

const loadByThread = async (): Promise<ModelTable> => {
  const thread = new Worker(new URL('package-thread.ts', import.meta.url), { name: 'prices' });
  thread.unref();
  // Rejects when the thread fails.
  const [models] = (await once(thread, 'message')) as [PackagedModels];
  return tableOf(models);
};

let loading: Promise<ModelTable> | undefined;
/** The table never changes: an API and a worker in one process share it. A load that failed is tried again. */
const loadOnce = (): Promise<ModelTable> =>
  (loading ??= loadByThread().catch((error: unknown) => {
    loading = undefined;
    throw error;
  }));

export const packagedModels: ModelSource = { read: () => tableOf(readPackagedModels()), load: loadOnce };
