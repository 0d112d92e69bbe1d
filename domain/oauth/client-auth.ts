import { type KnownClient, isSecretOf, keepsSecret } from './clients.ts';
import { OAuthError } from './errors.ts';
import type { Issuer, OAuthDeps } from './oauth.ts';

/** A request of a client: its form, and its header `Authorization`; empty: none. */
export interface ClientRequest {
  readonly form: URLSearchParams;
  readonly authorization: string;
}

interface Shown {
  readonly clientId: string | null;
  /** Null: a client that has none. */
  readonly secret: string | null;
}

const basicForm = /^basic ([A-Za-z0-9+/]+={0,2})$/i;

/** RFC 6749, 2.3.1: both halves are form-encoded. */
const decoded = (text: string): string => {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    throw new OAuthError('invalid_request', 'The Authorization header is not encoded as it must be.');
  }
};

const readBasic = (authorization: string): Shown => {
  const pair = Buffer.from(basicForm.exec(authorization)?.[1] ?? '', 'base64').toString();
  const end = pair.indexOf(':');
  if (end === -1) throw new OAuthError('invalid_request', 'The Authorization header is not of the form Basic.');
  return { clientId: decoded(pair.slice(0, end)), secret: decoded(pair.slice(end + 1)) };
};

const readShown = ({ form, authorization }: ClientRequest): Shown => {
  const inForm = { clientId: form.get('client_id'), secret: form.get('client_secret') || null };
  if (authorization === '') return inForm;
  if (inForm.secret !== null) throw new OAuthError('invalid_request', 'The client shows its secret in two ways.');
  const basic = readBasic(authorization);
  if (inForm.clientId !== null && inForm.clientId !== basic.clientId) {
    throw new OAuthError('invalid_request', 'The request names two clients.');
  }
  return basic;
};

/** @throws {OAuthError} `invalid_request` for a parameter that comes twice (RFC 6749, 3.2) */
const requireSingle = ({ form }: Pick<ClientRequest, 'form'>): void => {
  const names = [...form.keys()];
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  if (twice !== undefined) throw new OAuthError('invalid_request', `The parameter ${twice.slice(0, 100)} comes twice.`);
};

const isRight = (client: KnownClient, secret: string | null): boolean =>
  keepsSecret(client) ? secret !== null && isSecretOf(client, secret) : secret === null;

/**
 * The client of a request, which has shown that it is that one.
 * @throws {OAuthError} `invalid_request`; `invalid_client`, alike for a wrong secret and an unknown client
 */
export const authenticateClient = async (
  { clients }: Pick<OAuthDeps, 'clients'>,
  { project }: Issuer,
  request: ClientRequest,
): Promise<KnownClient> => {
  requireSingle(request);
  const { clientId, secret } = readShown(request);
  if (clientId === null) throw new OAuthError('invalid_request', 'The client is not named.');
  const client = await clients.of(project.id, clientId);
  if (client === undefined || !isRight(client, secret)) {
    throw new OAuthError('invalid_client', 'client authentication failed');
  }
  return client;
};
