import { anthropic } from './anthropic.ts';
import { type ProviderName, providerFacts, providerNames } from './catalog.ts';
import type { Dialect } from './dialect.ts';
import { google } from './google.ts';
import { createOpenAi } from './openai.ts';

const create = (provider: ProviderName): Dialect => {
  const { dialect } = providerFacts[provider];
  if (dialect === 'anthropic') return anthropic;
  return dialect === 'google' ? google : createOpenAi(provider);
};

const dialects = new Map(providerNames.map((provider) => [provider, create(provider)]));

/** How a provider is spoken to. */
export const dialectOf = (provider: ProviderName): Dialect => dialects.get(provider) ?? create(provider);
