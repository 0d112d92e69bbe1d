import { createHash } from 'node:crypto';
import type { ExecutionContext } from 'ava';
import { type Answering, type ProviderServer, type Requested, serveProvider } from './provider-server.ts';

export const paypalApp = { client_id: 'app-id-0123456789', client_secret: 'app-secret-0123456789abcdef' } as const;

export interface PaypalServer extends ProviderServer {
  /** How often a token was asked for. */
  readonly tokensGiven: () => number;
  /** From now on earlier tokens are refused. */
  readonly takeTokensBack: () => void;
}

export interface PaypalOptions {
  /** Stands in for the answer to one path. */
  readonly instead?: (requested: Requested) => Answering | 'cut' | undefined;
  readonly expiresIn?: number;
}

/** The signature that this PayPal makes of an event, so that it knows its own again. */
const paypalSignature = (event: string): string => createHash('sha256').update(event).digest('base64');

/** The headers of a call of PayPal. */
export const paypalHeaders = (event: string, at = new Date()): Record<string, string> => ({
  'paypal-auth-algo': 'SHA256withRSA',
  'paypal-cert-url': 'https://api.paypal.com/v1/notifications/certs/CERT-1',
  'paypal-transmission-id': crypto.randomUUID(),
  'paypal-transmission-sig': paypalSignature(event),
  'paypal-transmission-time': at.toISOString(),
});

// The event as its sender wrote it: parsed and put together again it would be another text.
const eventIn = (body: string): string => /"webhook_event":(.*)\}$/s.exec(body)?.[1] ?? '';

/** PayPal's API as far as calls of webhooks are verified with it. */
export const servePaypal = async (t: ExecutionContext, options: PaypalOptions = {}): Promise<PaypalServer> => {
  let [given, oldest] = [0, 1];

  const token = ({ headers }: Requested): Answering => {
    const expected = `Basic ${Buffer.from(`${paypalApp.client_id}:${paypalApp.client_secret}`).toString('base64')}`;
    if (headers.authorization !== expected) return { status: 401, body: { error: 'invalid_client' } };
    given += 1;
    return { body: { access_token: `token-${given}`, token_type: 'Bearer', expires_in: options.expiresIn ?? 32_400 } };
  };

  const verify = ({ headers, body }: Requested): Answering => {
    const number = Number(/^Bearer token-(\d+)$/.exec(headers.authorization ?? '')?.[1] ?? 0);
    if (number < oldest) return { status: 401, body: { error: 'invalid_token' } };
    const { transmission_sig: signature } = JSON.parse(body) as { transmission_sig: string };
    const genuine = signature === paypalSignature(eventIn(body));
    return { body: { verification_status: genuine ? 'SUCCESS' : 'FAILURE' } };
  };

  const server = await serveProvider(t, (requested) => {
    const instead = options.instead?.(requested);
    if (instead === 'cut') return undefined;
    if (instead !== undefined) return instead;
    return requested.path === '/v1/oauth2/token' ? token(requested) : verify(requested);
  });
  return {
    ...server,
    tokensGiven: () => given,
    takeTokensBack: () => {
      oldest = given + 1;
    },
  };
};
