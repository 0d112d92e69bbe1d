import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { ConfigError } from '#lib/config.ts';
import { type ProviderName, providerNames } from '../providers/providers.ts';
import type { KnownModel } from './prices.ts';
import { nanoPerUsdPerMillion } from './package.ts';

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
export type GivenModel = Partial<Omit<KnownModel, 'provider' | 'id'>>;
export type GivenModels = Partial<Record<ProviderName, ReadonlyMap<string, GivenModel>>>;

const givenModel = (given: z.output<typeof model>): GivenModel => ({
  ...(given.input_usd_per_million !== undefined && {
    price: {
      input: given.input_usd_per_million * nanoPerUsdPerMillion,
      output: (given.output_usd_per_million ?? 0) * nanoPerUsdPerMillion,
      ...(given.cached_usd_per_million !== undefined && {
        cached: given.cached_usd_per_million * nanoPerUsdPerMillion,
      }),
      ...(given.cache_write_usd_per_million !== undefined && {
        written: given.cache_write_usd_per_million * nanoPerUsdPerMillion,
      }),
    },
  }),
  ...(given.context_window !== undefined && { contextWindow: given.context_window }),
  ...(given.max_output !== undefined && { maxOutput: given.max_output }),
  ...(given.tiers !== undefined && { tiers: given.tiers }),
  ...(given.type !== undefined && { type: given.type }),
  ...(given.dimensions !== undefined && { dimensions: given.dimensions }),
});

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
