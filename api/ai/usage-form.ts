import type { TokenUsage } from '#domain/ai/chat.ts';

interface UsageAnswer {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly prompt_tokens_details?: { readonly cached_tokens: number; readonly cache_write_tokens: number };
  readonly completion_tokens_details?: { readonly reasoning_tokens: number };
}

/** Token usage in OpenAI's names; details are left out when there are none. */
export const usageAnswer = (usage: TokenUsage): UsageAnswer => {
  const { prompt_tokens, completion_tokens } = usage;
  const { cached_tokens = 0, cache_write_tokens = 0, reasoning_tokens = 0 } = usage;
  return {
    prompt_tokens,
    completion_tokens,
    ...(cached_tokens + cache_write_tokens > 0 && { prompt_tokens_details: { cached_tokens, cache_write_tokens } }),
    ...(reasoning_tokens > 0 && { completion_tokens_details: { reasoning_tokens } }),
  };
};

/** In plinth's own answers the tier stands beside them; in OpenAI's it stands elsewhere. */
export const ownUsage = (usage: TokenUsage): UsageAnswer & { readonly service_tier?: string } => ({
  ...usageAnswer(usage),
  ...(usage.service_tier !== undefined && { service_tier: usage.service_tier }),
});
