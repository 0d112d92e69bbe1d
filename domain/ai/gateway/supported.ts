import { ServiceError } from '#lib/errors.ts';
import { type ProviderName, providerFacts } from '../providers/providers.ts';
import type { GatewayChatRequest, GatewayEmbeddingRequest } from './types.ts';

/**
 * A field that the provider's dialect cannot express would be lost on the way: the request is refused instead.
 * @throws {ServiceError} `not_supported`
 */
export const requireSupported = (
  provider: ProviderName,
  request: GatewayChatRequest | GatewayEmbeddingRequest,
): void => {
  const { dialect, label } = providerFacts[provider];
  if (dialect === 'openai') return;
  const foreign = 'messages' in request ? request.onlyOpenAi : tokensIn(request);
  if (foreign === undefined) return;
  throw new ServiceError('not_supported', `${label} does not take ${foreign}.`, {
    hint: 'Providers that speak OpenAI’s dialect do.',
  });
};

const tokensIn = ({ input }: GatewayEmbeddingRequest): string | undefined =>
  input.some((one) => typeof one !== 'string') ? 'the numbers of tokens in place of text' : undefined;
