import { LRUCache } from 'lru-cache';
import type { Egress } from '#lib/egress.ts';
import { type ProviderResponse, basicAuth, callProvider, isSuccess, objectIn } from '#lib/egress/json-api.ts';
import { ServiceError } from '#lib/errors.ts';
import { type FairPermits, createFairPermits } from '#lib/fair-permits.ts';
import type { ConfigOf } from './providers.ts';

/** The headers by which a call proves to be PayPal's, under the names of its API. */
interface SignedParts {
  readonly auth_algo: string;
  readonly cert_url: string;
  readonly transmission_id: string;
  readonly transmission_sig: string;
  readonly transmission_time: string;
}

interface HeaderRule {
  readonly name: string;
  /** PayPal's own limit (developer.paypal.com, "Verify webhook signature"). */
  readonly longest: number;
}

const headerRules: Readonly<Record<keyof SignedParts, HeaderRule>> = {
  auth_algo: { name: 'paypal-auth-algo', longest: 100 },
  cert_url: { name: 'paypal-cert-url', longest: 500 },
  transmission_id: { name: 'paypal-transmission-id', longest: 50 },
  transmission_sig: { name: 'paypal-transmission-sig', longest: 500 },
  transmission_time: { name: 'paypal-transmission-time', longest: 100 },
};

const maxPastDays = 29;
const dayMs = 86_400_000;

/** Beyond that time a repeat would no longer be known as one. */
const isRecent = (time: string, now: number): boolean => {
  if (!/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d/.test(time)) return false;
  const age = now - Date.parse(time);
  return age < maxPastDays * dayMs && age > -dayMs;
};

/** Where PayPal keeps its certificates; one that stands in for it, where a config says it is. */
const isCertUrl = (text: string, base: string): boolean => {
  const url = URL.parse(text);
  if (url === null || url.username !== '' || url.password !== '') return false;
  const isPaypals = url.protocol === 'https:' && url.port === '' && /(^|\.)paypal\.com$/.test(url.hostname);
  return isPaypals || url.origin === URL.parse(base)?.origin;
};

/**
 * Reads the headers of a call that claims to be PayPal's. Everybody can write them so that they pass; what does not
 * pass is not worth a question to PayPal.
 * @param base where PayPal is
 * @param now in ms
 * @returns null when PayPal cannot have written them
 */
export const signedPartsOf = (header: (name: string) => string, base: string, now: number): SignedParts | null => {
  const parts = Object.entries(headerRules).map(([field, rule]) => [field, header(rule.name), rule.longest] as const);
  if (!parts.every(([, value, longest]) => /^[\x20-\x7e]+$/.test(value) && value.length <= longest)) return null;
  const read = Object.fromEntries(parts) as Record<keyof SignedParts, string>;
  const isLikely =
    read.auth_algo === 'SHA256withRSA' && isRecent(read.transmission_time, now) && isCertUrl(read.cert_url, base);
  return isLikely ? read : null;
};

const bases = { live: 'https://api-m.paypal.com', sandbox: 'https://api-m.sandbox.paypal.com' } as const;

const paypalBase = ({ environment, base_url }: ConfigOf<'paypal'>): string => base_url ?? bases[environment];

/** Asks for an access token with the app's credentials. */
export const fetchPaypalToken = (
  egress: Pick<Egress, 'fetch'>,
  config: ConfigOf<'paypal'>,
): Promise<ProviderResponse> =>
  callProvider(egress, {
    method: 'POST',
    base: paypalBase(config),
    path: '/v1/oauth2/token',
    headers: {
      authorization: basicAuth(config.client_id, config.client_secret),
      'content-type': 'application/x-www-form-urlencoded',
    },
    body: 'grant_type=client_credentials',
  });

interface PaypalCall {
  readonly header: (name: string) => string;
  /** JSON text; it goes to PayPal as it came, since it was signed so. */
  readonly text: string;
  /** Whence it comes. */
  readonly network: string;
}

/** The config behind the call: a changed config has other tokens. */
interface PaypalAccount {
  readonly id: string;
  readonly config_version: number;
  readonly config: ConfigOf<'paypal'>;
}

export interface Paypal {
  /**
   * Asks PayPal whether a call is its own.
   * @throws {ServiceError} `provider_unavailable` when it cannot be asked, `rate_limited` when too many are
   */
  readonly isGenuine: (account: PaypalAccount, call: PaypalCall) => Promise<boolean>;
}

const unavailable = (why: string): ServiceError =>
  new ServiceError('provider_unavailable', `PayPal could not confirm that this event is its own: ${why}`, {
    hint: 'Send it again later.',
    headers: { 'Retry-After': '30' },
  });

const busy = (): ServiceError =>
  new ServiceError('rate_limited', 'Too many calls of PayPal are being looked at for this project.', {
    headers: { 'Retry-After': '5' },
  });

// Anyone can cause verifications: their number per project is bounded, so that a flood delays no other project, and
// within it the number per network, so that PayPal's own calls are not delayed by a stranger's.
const questions = { total: 16, each: 4, maxWaiting: 64, waitMs: 5000, refusal: busy };
const maxKept = 1000;
/** A token is not used in its last minute. */
const marginSeconds = 60;
const maxTokenSeconds = 9 * 3600;

interface Token {
  readonly text: string;
  readonly seconds: number;
}

const fetchToken = async (egress: Pick<Egress, 'fetch'>, config: ConfigOf<'paypal'>): Promise<Token> => {
  const { response, error } = await fetchPaypalToken(egress, config);
  if (response === null) throw unavailable(error);
  const { access_token: text, expires_in: seconds } = objectIn(response);
  if (!isSuccess(response) || typeof text !== 'string' || !/^[\x21-\x7e]+$/.test(text)) {
    throw unavailable(`it gives no token for these credentials (${response.status}).`);
  }
  return { text, seconds: typeof seconds === 'number' && seconds > 0 ? Math.min(seconds, maxTokenSeconds) : 0 };
};

export const createPaypal = (egress: Pick<Egress, 'fetch'>): Paypal => {
  // Promises, so that a large number asks for one token.
  const tokens = new LRUCache<string, Promise<Token>>({ max: maxKept });
  const permits = new LRUCache<string, FairPermits>({ max: maxKept });

  const keepFor = (name: string, pendingToken: Promise<Token>, ms: number): void => {
    if (tokens.get(name) !== pendingToken) return;
    if (ms > 0) tokens.set(name, pendingToken, { ttl: ms });
    else tokens.delete(name);
  };

  const tokenOf = (name: string, config: ConfigOf<'paypal'>): Promise<Token> => {
    const present = tokens.get(name);
    if (present) return present;
    const pendingToken = fetchToken(egress, config);
    tokens.set(name, pendingToken);
    pendingToken.then(
      ({ seconds }) => keepFor(name, pendingToken, (seconds - marginSeconds) * 1000),
      () => keepFor(name, pendingToken, 0),
    );
    return pendingToken;
  };

  const verify = async (config: ConfigOf<'paypal'>, { text: token }: Token, body: string): Promise<ProviderResponse> =>
    callProvider(egress, {
      method: 'POST',
      base: paypalBase(config),
      path: '/v1/notifications/verify-webhook-signature',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body,
    });

  const verifyWithRetry = async (name: string, config: ConfigOf<'paypal'>, body: string): Promise<ProviderResponse> => {
    const token = await tokenOf(name, config);
    const first = await verify(config, token, body);
    if (first.response?.status !== 401) return first;
    // It was taken back before its time.
    if ((await tokens.get(name)) === token) tokens.delete(name);
    return verify(config, await tokenOf(name, config), body);
  };

  const permitsOf = (id: string): FairPermits => {
    const present = permits.get(id) ?? createFairPermits(questions);
    permits.set(id, present);
    return present;
  };

  return {
    isGenuine: async ({ id, config_version, config }, call) => {
      const parts = signedPartsOf(call.header, paypalBase(config), Date.now());
      if (parts === null) return false;
      const signed = JSON.stringify({ ...parts, webhook_id: config.webhook_id });
      const body = `${signed.slice(0, -1)},"webhook_event":${call.text}}`;
      const own = permitsOf(id);
      await own.acquire(call.network);
      try {
        const { response, error } = await verifyWithRetry(`${id} ${config_version}`, config, body);
        if (response === null) throw unavailable(error);
        if (!isSuccess(response)) throw unavailable(`it answered ${response.status}.`);
        return objectIn(response)['verification_status'] === 'SUCCESS';
      } finally {
        own.release(call.network);
      }
    },
  };
};
