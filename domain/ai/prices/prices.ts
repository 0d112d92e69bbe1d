import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { ConfigError } from '#lib/config.ts';
import type { TokenUsage } from '../chat.ts';
import { type ProviderName, providerNames } from '../providers/providers.ts';
import {
  type ListedModel,
  type ListedModels,
  type ModelSource,
  type ModelTable,
  nanoPerUsdPerMillion,
  packagedModels,
  priceAt,
} from './package.ts';

/*
 * The prices and limits of models: the operator's file, and what it leaves out from the table of a package, which
 * `package.ts` reads, in a thread (`package-thread.ts`) unless it is needed at once.
 */

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

const usd = z.number().min(0).max(1_000_000);
const count = z.int().min(1);

const model = z
  .strictObject({
    input_usd_per_million: usd.optional(),
    /** Left out: 0, as for embeddings. */
    output_usd_per_million: usd.optional(),
    /**
     * Prices of prompt tokens that are read from the provider's cache, and written to it. Left out: the price of the
     * others.
     */
    cached_usd_per_million: usd.optional(),
    cache_write_usd_per_million: usd.optional(),
    /** By how much a tier of service changes the price of a call. */
    tiers: z.record(z.string().regex(/^[a-z][a-z_]{0,30}$/), z.number().min(0).max(100)).optional(),
    context_window: count.optional(),
    max_output: count.optional(),
    type: z.enum(['chat', 'embedding']).optional(),
    dimensions: count.max(16_000).optional(),
  })
  .refine((given) => given.output_usd_per_million === undefined || given.input_usd_per_million !== undefined, {
    error: 'needs input_usd_per_million beside output_usd_per_million',
  });

const priceFile = z.partialRecord(z.enum(providerNames), z.record(z.string().min(1), model));

/** The operator's entry for a model; fields that are left out are as in the package. */
type GivenModel = Partial<Omit<KnownModel, 'provider' | 'id'>>;
type GivenModels = Partial<Record<ProviderName, ReadonlyMap<string, GivenModel>>>;

/** The fields that are there. */
const defined = <Fields extends object>(fields: Fields) =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    readonly [Name in keyof Fields]?: Exclude<Fields[Name], undefined>;
  };

const nanoOf = (usdPerMillion: number | undefined): number | undefined =>
  usdPerMillion === undefined ? undefined : usdPerMillion * nanoPerUsdPerMillion;

const priceOf = (given: z.output<typeof model>): Price | undefined => {
  const input = nanoOf(given.input_usd_per_million);
  if (input === undefined) return undefined;
  const output = nanoOf(given.output_usd_per_million) ?? 0;
  const [cached, written] = [nanoOf(given.cached_usd_per_million), nanoOf(given.cache_write_usd_per_million)];
  return { input, output, ...defined({ cached, written }) };
};

const givenModel = (given: z.output<typeof model>): GivenModel => {
  const { context_window: contextWindow, max_output: maxOutput, tiers, type, dimensions } = given;
  return defined({ price: priceOf(given), contextWindow, maxOutput, tiers, type, dimensions });
};

const faultOf = (error: unknown): string => {
  if (error instanceof z.ZodError)
    return error.issues.map(({ path, message }) => `${path.join('.')} ${message}`).join('; ');
  return error instanceof Error ? error.message : String(error);
};

/**
 * Reads the operator's own table: by provider and model, prices in USD for a million tokens.
 * @throws {ConfigError} when it cannot be read or says something else
 */
export const readPriceFile = async (file: string): Promise<GivenModels> => {
  try {
    const given = priceFile.parse(JSON.parse(await readFile(file, 'utf8')));
    return Object.fromEntries(
      Object.entries(given).map(([provider, models]) => [
        provider,
        new Map(Object.entries(models).map(([id, one]) => [id.toLowerCase(), givenModel(one)])),
      ]),
    );
  } catch (error) {
    throw new ConfigError(`PLINTH_AI_PRICES: ${file} cannot be used: ${faultOf(error)}`);
  }
};

/** From the providers' pages on embeddings; by default, where shorter vectors can be asked for. */
const dimensionsByModel: ReadonlyMap<string, number> = new Map([
  ['openai/text-embedding-3-small', 1536],
  ['openai/text-embedding-3-large', 3072],
  ['openai/text-embedding-ada-002', 1536],
  ['google/gemini-embedding-001', 3072],
  ['google/gemini-embedding-2', 3072],
  ['google/text-embedding-004', 768],
  ['google/embedding-001', 768],
]);
const dimensionsOf = (provider: ProviderName, name: string): number | undefined =>
  dimensionsByModel.get(`${provider}/${name}`);

const isEmbedding = /(^|[-/])embed(ding)?s?([-.]|$)/;

/** `-2026-05-01`, `-20260501`, `-latest`: dated editions and the newest one of a known model. */
const edition = /-(\d{4}-\d{2}-\d{2}|20\d{6}|latest)$/;
const dashed = (name: string): string => name.replace(/-(20\d\d)(\d\d)(\d\d)$/, '-$1-$2-$3');

interface LoadedPrices extends Prices {
  /**
   * Loads the table beside the event loop; without that it is read when it is first asked, at the cost of some 40 ms.
   */
  readonly load: () => Promise<void>;
}

interface Found {
  /** Its name without what is only its edition. */
  readonly name: string;
  readonly listed: ListedModel | undefined;
  readonly given: GivenModel | undefined;
}

const listedAs = (models: ListedModels | undefined, name: string): ListedModel | undefined =>
  models?.named.get(name) ?? models?.matching.find(([matches]) => matches(name))?.[1];

/** `ft:gpt-4.1-mini:company:name:id`: a fine-tuned model, after its base. */
const baseOf = (name: string): string[] => {
  const base = /^ft:([^:]+):/.exec(name)?.[1];
  return base === undefined ? [] : [base];
};

/**
 * As it is named, as its date is written elsewhere, and without its date; at last as the model that it was made from.
 */
const candidateNames = (model: string): string[] => {
  const named = model.toLowerCase().replace(/^models\//, '');
  return [...new Set([named, ...baseOf(named)].flatMap((name) => [name, dashed(name), name.replace(edition, '')]))];
};

/** Names are what callers write: as many as are asked for are kept, within reason. */
const maxCached = 2000;
/** No model has so long a name. */
const maxNameLength = 200;

/**
 * From OpenAI's page of prices: flex and batch cost half, priority 1.7 to 2 times as much, which differs by model; the
 * most of it is taken, and the operator's file can say it exactly. Tiers of the other vendors do not change the price.
 */
const tiersOf: Partial<Record<ProviderName, Tiers>> = { openai: { flex: 0.5, batch: 0.5, priority: 2 } };

const knownModel = (provider: ProviderName, id: string, { name, listed, given }: Found, now: number): KnownModel => {
  const dimensions = dimensionsOf(provider, name) ?? null;
  return {
    provider,
    id,
    type: dimensions !== null || isEmbedding.test(name) ? 'embedding' : 'chat',
    contextWindow: listed?.contextWindow ?? null,
    maxOutput: null,
    dimensions,
    price: listed === undefined ? null : priceAt(listed, now),
    ...(tiersOf[provider] && { tiers: tiersOf[provider] }),
    ...given,
  };
};

const createTable = (given: GivenModels, source: ModelSource): LoadedPrices => {
  let listed: ModelTable | undefined;
  const cachedPrices = new Map<string, Found | null>();

  const findPrice = (provider: ProviderName, model: string): Found | null => {
    listed ??= source.read();
    for (const name of candidateNames(model)) {
      const found = { name, listed: listedAs(listed.get(provider), name), given: given[provider]?.get(name) };
      const isKnown = found.listed ?? found.given ?? dimensionsOf(provider, name);
      if (isKnown !== undefined) return found;
    }
    return null;
  };

  const find = (provider: ProviderName, model: string): KnownModel | undefined => {
    if (model.length > maxNameLength) return undefined;
    const key = `${provider}/${model}`;
    let found = cachedPrices.get(key);
    if (found === undefined) {
      found = findPrice(provider, model);
      if (cachedPrices.size >= maxCached) cachedPrices.clear();
      cachedPrices.set(key, found);
    }
    return found === null ? undefined : knownModel(provider, model, found, Date.now());
  };

  return {
    find,
    providersOf: (model) => providerNames.filter((provider) => find(provider, model) !== undefined),
    load: async () => {
      const loaded = listed ?? (await source.load());
      listed ??= loaded;
    },
  };
};

/**
 * Models and prices: the operator's file, and what it does not say from the package's table.
 * @param file undefined: there is none
 * @throws {ConfigError} when the file is not what it should be
 */
export const openPrices = async (file: string | undefined, source = packagedModels): Promise<LoadedPrices> =>
  createTable(file === undefined ? {} : await readPriceFile(file), source);
