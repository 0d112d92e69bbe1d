import type { Egress, EgressResponse } from '#lib/egress.ts';
import { type ProviderResponse, basicAuth, callProvider, isSuccess, objectIn } from '#lib/egress/json-api.ts';
import { fetchPaypalToken } from './paypal.ts';
import { type ConfigOf, type ProviderName, providerFacts } from './providers.ts';
import { resendBase } from '#domain/email/resend.ts';

/** Providers whose keys are tried by asking; chats are sent a message instead. */
export type CheckedProvider = Exclude<ProviderName, 'slack' | 'discord'>;

/** Where the providers without a `base_url` are; tests have servers of their own. */
export interface ProviderBases {
  readonly stripe: string;
  readonly razorpay: string;
}

export const providerBases: ProviderBases = { stripe: 'https://api.stripe.com', razorpay: 'https://api.razorpay.com' };

export interface Checked {
  readonly ok: boolean;
  /** Until the provider had answered, or it was clear that it does not. */
  readonly latencyMs: number;
  /** In words, without the key; null when it is ok. */
  readonly error: string | null;
}

interface CheckDeps {
  readonly egress: Pick<Egress, 'fetch'>;
  readonly bases: ProviderBases;
}

type Check<P extends CheckedProvider> = (deps: CheckDeps, config: ConfigOf<P>) => Promise<ProviderResponse>;

// Each asks for the least that needs the key and changes nothing.
const checks: { readonly [P in CheckedProvider]: Check<P> } = {
  resend: ({ egress }, config) =>
    callProvider(egress, {
      method: 'GET',
      base: resendBase(config),
      path: '/domains',
      headers: { authorization: `Bearer ${config.api_key}` },
    }),
  stripe: ({ egress, bases }, { secret_key }) =>
    callProvider(egress, {
      method: 'GET',
      base: bases.stripe,
      path: '/v1/balance',
      headers: { authorization: `Bearer ${secret_key}` },
    }),
  paypal: ({ egress }, config) => fetchPaypalToken(egress, config),
  razorpay: ({ egress, bases }, { key_id, key_secret }) =>
    callProvider(egress, {
      method: 'GET',
      base: bases.razorpay,
      path: '/v1/payments?count=1',
      headers: { authorization: basicAuth(key_id, key_secret) },
    }),
};

/** A key that may send and nothing else is what sending needs. */
const isSendingKey = (provider: CheckedProvider, response: EgressResponse): boolean =>
  provider === 'resend' && response.status === 401 && objectIn(response)['name'] === 'restricted_api_key';

const errorOf = (provider: CheckedProvider, { response, error }: ProviderResponse): string | null => {
  if (response === null) return error;
  if (isSuccess(response) || isSendingKey(provider, response)) return null;
  const { label } = providerFacts[provider];
  const refused = response.status === 401 || response.status === 403;
  return refused ? `${label} refused the key (${response.status}).` : `${label} answered ${response.status}.`;
};

/** Whether a provider takes the keys of a config. What the provider says is not repeated: it may hold the key. */
export const checkProvider = async <P extends CheckedProvider>(
  deps: CheckDeps,
  provider: P,
  config: ConfigOf<P>,
): Promise<Checked> => {
  const began = performance.now();
  // TypeScript does not see that the check of P takes the config of P.
  const check = checks[provider] as unknown as Check<P>;
  const error = errorOf(provider, await check(deps, config));
  return { ok: error === null, latencyMs: Math.round(performance.now() - began), error };
};
