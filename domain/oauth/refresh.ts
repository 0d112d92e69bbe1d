import { createHash } from 'node:crypto';
import { type ClientRequest, authenticateClient } from './client-auth.ts';
import { tokenClaims } from '#domain/end-users/custom-claims.ts';
import { accessClaimsOf, claimsOf } from './claims.ts';
import type { KnownClient } from './clients.ts';
import { OAuthError } from './errors.ts';
import { type Issuer, type OAuthDeps, accessSeconds } from './oauth.ts';
import { type RefreshedSession, refreshClientSession } from './sessions.ts';

/** RFC 6749, section 5.1, with the id token of OpenID Connect. */
export interface TokenAnswer {
  readonly access_token: string;
  readonly expires_in: number;
  readonly id_token?: string;
  readonly refresh_token: string;
  readonly scope: string;
  readonly token_type: 'Bearer';
}

/** @throws {OAuthError} `invalid_scope` when more is asked for than was granted (RFC 6749, section 6) */
const narrowed = (granted: string, requested: string | null): string => {
  if (!requested) return granted;
  const known = new Set(granted.split(' '));
  if (requested.split(' ').every((scope) => known.has(scope))) return requested;
  throw new OAuthError('invalid_scope', 'The scope is wider than what was granted.');
};

/** OpenID Connect Core 1.0, 3.1.3.6: the left half of the hash. */
const halfHash = (token: string): string =>
  createHash('sha256').update(token).digest().subarray(0, 16).toString('base64url');

const idTokenOf = (
  { endUsers }: Pick<OAuthDeps, 'endUsers'>,
  issuer: Issuer,
  client: KnownClient,
  session: RefreshedSession & { readonly scope: string; readonly accessToken: string },
): Promise<string> => {
  const { user, facts, scope, accessToken, rotatedAt } = session;
  const iat = Math.floor(rotatedAt.getTime() / 1000);
  return endUsers.signer.signJwt(issuer.project, {
    alg: client.id_token_signed_response_alg,
    typ: 'JWT',
    claims: {
      ...claimsOf(user, scope),
      iss: issuer.url,
      aud: client.client_id,
      iat,
      exp: iat + accessSeconds,
      auth_time: facts.auth_time,
      amr: [...facts.amr],
      at_hash: halfHash(accessToken),
      ...(facts.sid !== undefined && { sid: facts.sid }),
      ...(facts.nonce !== undefined && { nonce: facts.nonce }),
    },
  });
};

/**
 * The grant `refresh_token`: our own, since it is what clients ask for most. The same token again within 30 s gets the
 * same answer; later it was copied, and the sign-in ends (decision 055).
 * @throws {OAuthError} `invalid_client`, `invalid_request`, `invalid_grant`, `invalid_scope`
 */
export const refreshTokens = async (deps: OAuthDeps, issuer: Issuer, request: ClientRequest): Promise<TokenAnswer> => {
  const client = await authenticateClient(deps, issuer, request);
  const token = request.form.get('refresh_token');
  if (!token) throw new OAuthError('invalid_request', 'The parameter refresh_token is missing.');
  const session = await refreshClientSession(deps, issuer, client.client_id, token);
  if (session === undefined)
    throw new OAuthError('invalid_grant', 'The refresh token is not valid, or was used before.');
  const { user, facts, rotatedAt, jti } = session;
  const scope = narrowed(facts.scope, request.form.get('scope'));
  const ofClient = { id: session.id, clientId: client.client_id, scope, amr: facts.amr };
  const accessToken = await deps.endUsers.signer.sign(issuer.project, {
    issuer: issuer.url,
    audience: issuer.audience,
    subject: user.id,
    expiresIn: accessSeconds,
    issuedAt: rotatedAt,
    jti,
    claims: await tokenClaims(deps.endUsers, issuer.project, user, accessClaimsOf(user, ofClient)),
  });
  const hasIdToken = scope.split(' ').includes('openid');
  return {
    access_token: accessToken,
    expires_in: accessSeconds,
    ...(hasIdToken && { id_token: await idTokenOf(deps, issuer, client, { ...session, scope, accessToken }) }),
    refresh_token: session.refreshToken,
    scope,
    token_type: 'Bearer',
  };
};
