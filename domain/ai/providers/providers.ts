import { anthropic } from './anthropic.ts';
import type { Dialect } from './dialect.ts';
import { google } from './google.ts';
import { createOpenAi } from './openai.ts';

/*
 * How requests and answers of providers are written and read: `dialect.ts` has the types, `openai.ts`, `anthropic.ts`
 * and `google.ts` the three dialects, which share `turns.ts` for requests and `json.ts` and `faults.ts` for answers.
 * `transport.ts` sends requests, `event-stream.ts` reads streams, and `thread-readers.ts` reads large answers in a
 * thread.
 */

/** The providers of the interface, in the order in which they are listed. */
export const providerNames = ['openai', 'anthropic', 'google', 'groq', 'deepseek', 'xai'] as const;
export type ProviderName = (typeof providerNames)[number];

export const isProviderName = (name: string): name is ProviderName =>
  (providerNames as readonly string[]).includes(name);

export type DialectName = 'openai' | 'anthropic' | 'google';

interface ProviderFacts {
  /** For people. */
  readonly label: string;
  readonly dialect: DialectName;
  /** As the vendor's own SDK takes it, without a slash at the end. */
  readonly baseUrl: string;
  readonly supports: { readonly chat: boolean; readonly stream: boolean; readonly embeddings: boolean };
}

const chatOnly = { chat: true, stream: true, embeddings: false } as const;
const all = { chat: true, stream: true, embeddings: true } as const;

/** The fixed facts about each provider. */
export const providerFacts: Readonly<Record<ProviderName, ProviderFacts>> = {
  openai: { label: 'OpenAI', dialect: 'openai', baseUrl: 'https://api.openai.com/v1', supports: all },
  anthropic: { label: 'Anthropic', dialect: 'anthropic', baseUrl: 'https://api.anthropic.com', supports: chatOnly },
  google: {
    label: 'Google',
    dialect: 'google',
    baseUrl: 'https://generativelanguage.googleapis.com',
    supports: all,
  },
  groq: { label: 'Groq', dialect: 'openai', baseUrl: 'https://api.groq.com/openai/v1', supports: chatOnly },
  deepseek: { label: 'DeepSeek', dialect: 'openai', baseUrl: 'https://api.deepseek.com', supports: chatOnly },
  xai: { label: 'xAI', dialect: 'openai', baseUrl: 'https://api.x.ai/v1', supports: chatOnly },
};

const dialects: Readonly<Record<ProviderName, Dialect>> = {
  openai: createOpenAi('openai'),
  anthropic,
  google,
  groq: createOpenAi('groq'),
  deepseek: createOpenAi('deepseek'),
  xai: createOpenAi('xai'),
};

/** How requests to a provider are written, and its answers read. */
export const dialectOf = (provider: ProviderName): Dialect => dialects[provider];
