import { LRUCache } from 'lru-cache';
import type { Egress } from '#lib/egress.ts';
import { ServiceError } from '#lib/errors.ts';
import { type FairPermits, createFairPermits } from '#lib/fair-permits.ts';
import { type ProviderResponse, basicAuth, callProvider, isSuccess, objectIn } from './http.ts';
import { signedPartsOf } from './paypal-headers.ts';
import type { ConfigOf } from './providers.ts';

const bases = { live: 'https://api-m.paypal.com', sandbox: 'https://api-m.sandbox.paypal.com' } as const;

export const paypalBase = ({ environment, base_url }: ConfigOf<'paypal'>): string => base_url ?? bases[environment];

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

export interface PaypalCall {
  readonly header: (name: string) => string;
  /** JSON text; it goes to PayPal as it came, since it was signed so. */
  readonly text: string;
  /** Whence it comes. */
  readonly network: string;
}

/** The config behind the call: a changed config has other tokens. */
export interface PaypalAccount {
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

// Anyone can make us ask: so much at a time for a project, so that nobody's flood holds up other projects, and of that so
// much for one network, so that PayPal's own calls are not held up by a stranger's.
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
