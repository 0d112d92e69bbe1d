import { sign } from 'node:crypto';
import * as oidc from 'openid-client';
import type { Egress } from '#lib/egress.ts';
import { type SealedProvider, presetOf, scopesOf } from './providers.ts';

/** A user as another provider names them. */
export interface UpstreamUser {
  /** Never changes, and is nobody else's at that provider. */
  readonly subject: string;
  readonly email: string | null;
  /** Says the provider itself, and in so many words. */
  readonly emailVerified: boolean;
  /** Claims for `identity_data`. */
  readonly data: Readonly<Record<string, unknown>>;
}

/** A request to a provider, as it is when it comes back. */
export interface UpstreamRequest {
  readonly state: string;
  readonly nonce: string;
  readonly verifier: string;
  /** The platform's own address for answers. */
  readonly callback: string;
}

type Fetches = Pick<Egress, 'fetch'>;

const timeoutMs = 5000;
const maxBytes = 1024 * 1024;

/** The library's requests, through the egress guard. */
const fetchBy =
  (egress: Fetches): oidc.CustomFetch =>
  async (url, { method, headers, body }) => {
    const answer = await egress.fetch(url, {
      for: 'platform',
      method,
      headers,
      body: body instanceof URLSearchParams ? body.toString() : typeof body === 'string' ? body : null,
      timeoutMs,
      maxBytes,
    });
    const given = Object.entries(answer.headers).flatMap(([name, value]) =>
      typeof value === 'string' ? [[name, value] as [string, string]] : [],
    );
    const hasBody = ![204, 205, 304].includes(answer.status);
    return new Response(hasBody ? answer.body.toString() : null, { status: answer.status, headers: given });
  };

interface AppleSecret {
  readonly team_id: string;
  readonly key_id: string;
  readonly private_key: string;
}

const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');

const appleSecretSeconds = 300;

/** Apple's clients have a key in place of a secret: JSON with team_id, key_id and private_key (PKCS #8 in PEM). */
const appleSecret = (clientId: string, text: string): string => {
  const { team_id: team, key_id: key, private_key: pem } = JSON.parse(text) as AppleSecret;
  const iat = Math.floor(Date.now() / 1000);
  const claims = { iss: team, sub: clientId, aud: 'https://appleid.apple.com', iat, exp: iat + appleSecretSeconds };
  const signed = `${part({ alg: 'ES256', kid: key })}.${part(claims)}`;
  const signature = sign('sha256', Buffer.from(signed), { key: pem, dsaEncoding: 'ieee-p1363' });
  return `${signed}.${signature.toString('base64url')}`;
};

/** Finds out where the provider is; its keys are read when a token is to be verified. */
const discover = (egress: Fetches, provider: SealedProvider, secret: string): Promise<oidc.Configuration> => {
  const issuer = new URL(provider.issuer ?? presetOf(provider.provider)?.issuer ?? '');
  const isApple = provider.provider === 'apple' && provider.issuer === null;
  const shown = isApple ? appleSecret(provider.client_id, secret) : secret;
  return oidc.discovery(issuer, provider.client_id, undefined, oidc.ClientSecretPost(shown), {
    [oidc.customFetch]: fetchBy(egress),
    execute: [
      // The signature of an id token is checked, whatever way it came.
      oidc.enableNonRepudiationChecks,
      // The egress guard decides which addresses are open; loopback is one on a developer's machine alone.
      ...(issuer.protocol === 'http:' ? [oidc.allowInsecureRequests] : []),
    ],
  });
};

/** The address that a user is sent to. */
export const upstreamAddress = async (
  egress: Fetches,
  provider: SealedProvider,
  secret: string,
  { state, nonce, verifier, callback }: UpstreamRequest,
): Promise<string> => {
  const config = await discover(egress, provider, secret);
  return oidc.buildAuthorizationUrl(config, {
    redirect_uri: callback,
    scope: scopesOf(provider),
    state,
    nonce,
    code_challenge: await oidc.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
    ...(presetOf(provider.provider)?.postsForm === true && { response_mode: 'form_post' }),
  }).href;
};

/** A text that PostgreSQL can hold; anything else is undefined. */
export const storableText = (value: unknown, maxLength: number): string | undefined =>
  typeof value === 'string' && value.length <= maxLength && value.isWellFormed() && !value.includes('\0')
    ? value
    : undefined;

/** OpenID Connect Core 1.0, section 2. */
const maxSubjectLength = 255;

/** @throws {Error} for a subject that is none */
const userOf = (claims: Readonly<Record<string, unknown>>): UpstreamUser => {
  const { email_verified: verified } = claims;
  const sub = storableText(claims['sub'], maxSubjectLength);
  if (sub === undefined) throw new Error('the subject is none');
  const address = storableText(claims['email'], 320) ?? null;
  const names = ['name', 'given_name', 'family_name', 'preferred_username', 'picture', 'locale'];
  const known = Object.fromEntries(
    names.flatMap((name) => {
      const value = storableText(claims[name], 1000);
      return value === undefined ? [] : [[name, value]];
    }),
  );
  return {
    subject: sub,
    email: address,
    // Apple writes it as a text.
    emailVerified: address !== null && (verified === true || verified === 'true'),
    data: { ...known, sub, ...(address !== null && { email: address, email_verified: verified === true }) },
  };
};

/** Trades the answer for the user, whose id token is verified. @param parameters of the answer */
export const upstreamUser = async (
  egress: Fetches,
  provider: SealedProvider,
  secret: string,
  { request, parameters }: { readonly request: UpstreamRequest; readonly parameters: URLSearchParams },
): Promise<UpstreamUser> => {
  const config = await discover(egress, provider, secret);
  const answer = new URL(request.callback);
  answer.search = parameters.toString();
  const tokens = await oidc.authorizationCodeGrant(config, answer, {
    pkceCodeVerifier: request.verifier,
    expectedState: request.state,
    expectedNonce: request.nonce,
    idTokenExpected: true,
  });
  const claims = tokens.claims();
  if (claims === undefined) throw new Error('the provider answered no id token');
  if (claims['email'] !== undefined || config.serverMetadata().userinfo_endpoint === undefined) return userOf(claims);
  const info = await oidc.fetchUserInfo(config, tokens.access_token, claims.sub);
  return userOf({ ...info, ...claims });
};
