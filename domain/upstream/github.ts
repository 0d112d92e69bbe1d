import { createHash } from 'node:crypto';
import type { Egress } from '#lib/egress.ts';
import { type UpstreamRequest, type UpstreamUser, storableText } from './openid.ts';
import { type SealedProvider, scopesOf } from './providers.ts';

/*
 * GitHub is no OpenID provider: OAuth 2.0 with PKCE, and an API that says who it is. `issuer` names another address for
 * a server of one's own.
 */

type Fetches = Pick<Egress, 'fetch'>;

interface Addresses {
  readonly web: string;
  readonly api: string;
}

const addressesOf = ({ issuer }: SealedProvider): Addresses =>
  issuer === null
    ? { web: 'https://github.com', api: 'https://api.github.com' }
    : { web: issuer.replace(/\/$/, ''), api: `${issuer.replace(/\/$/, '')}/api/v3` };

export const githubAddress = (provider: SealedProvider, { state, verifier, callback }: UpstreamRequest): string => {
  const query = new URLSearchParams({
    client_id: provider.client_id,
    redirect_uri: callback,
    scope: scopesOf(provider),
    state,
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
  });
  return `${addressesOf(provider).web}/login/oauth/authorize?${query.toString()}`;
};

const timeoutMs = 5000;
const maxBytes = 1024 * 1024;

const ask = async (
  egress: Fetches,
  url: string,
  { token, form }: { readonly token?: string; readonly form?: Readonly<Record<string, string>> },
): Promise<unknown> => {
  const { status, body } = await egress.fetch(url, {
    for: 'platform',
    method: form === undefined ? 'GET' : 'POST',
    headers: {
      accept: 'application/json',
      'user-agent': 'plinth',
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...(form !== undefined && { 'content-type': 'application/x-www-form-urlencoded' }),
    },
    body: form === undefined ? null : new URLSearchParams(form).toString(),
    timeoutMs,
    maxBytes,
  });
  if (status !== 200) throw new Error(`GitHub answered ${status}`);
  return JSON.parse(body.toString());
};

interface Profile {
  readonly id: number;
  readonly login: string;
  readonly name: string | null;
  readonly avatar_url: string | null;
}

interface Address {
  readonly email: string;
  readonly primary: boolean;
  readonly verified: boolean;
}

export const githubUser = async (
  egress: Fetches,
  provider: SealedProvider,
  secret: string,
  { request, parameters }: { readonly request: UpstreamRequest; readonly parameters: URLSearchParams },
): Promise<UpstreamUser> => {
  const { web, api } = addressesOf(provider);
  const granted = (await ask(egress, `${web}/login/oauth/access_token`, {
    form: {
      client_id: provider.client_id,
      client_secret: secret,
      code: parameters.get('code') ?? '',
      redirect_uri: request.callback,
      code_verifier: request.verifier,
    },
  })) as { access_token?: unknown };
  if (typeof granted.access_token !== 'string') throw new Error('GitHub answered no access token');
  const token = granted.access_token;
  const profile = (await ask(egress, `${api}/user`, { token })) as Profile;
  const addresses = (await ask(egress, `${api}/user/emails`, { token })) as Address[];
  const primary = addresses.find((one) => one.primary);
  const email = storableText(primary?.email, 320) ?? null;
  const verified = email !== null && primary?.verified === true;
  if (!Number.isSafeInteger(profile.id)) throw new Error('GitHub named no user');
  const texts = { preferred_username: profile.login, name: profile.name, picture: profile.avatar_url };
  const known = Object.entries(texts).flatMap(([name, given]) => {
    const value = storableText(given, 1000);
    return value === undefined ? [] : [[name, value]];
  });
  return {
    subject: String(profile.id),
    email,
    emailVerified: verified,
    data: {
      ...Object.fromEntries(known),
      sub: String(profile.id),
      ...(email !== null && { email, email_verified: verified }),
    },
  };
};
