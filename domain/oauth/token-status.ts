import { readRefreshToken, refreshKey } from '#domain/end-users/refresh-tokens.ts';
import { type ClientRequest, authenticateClient } from './client-auth.ts';
import { keepsSecret } from './clients.ts';
import { OAuthError } from './errors.ts';
import type { Issuer, OAuthDeps } from './oauth.ts';
import { type FoundSession, endClientSession, findClientSession, sessionExists } from './sessions.ts';

/** The claims of an access token that calls of clients look at. */
interface AccessClaims {
  readonly sub: string;
  readonly client_id: string;
  readonly session_id?: string;
  readonly scope?: string;
  readonly exp: number;
  readonly iat: number;
  readonly jti: string;
}

/** An access token of a client, whose sign-in lasts. */
export interface LiveToken {
  readonly claims: AccessClaims;
  /** Null: of the grant `client_credentials`, without a user. */
  readonly session: FoundSession | null;
}

const jwtForm = /^[\w-]+\.[\w-]+\.[\w-]+$/;

/**
 * Reads an access token, and checks that its sign-in lasts right now; nothing is remembered.
 * @returns null when it is not one of a client of this project, or is over
 */
export const readAccessToken = async (
  deps: OAuthDeps,
  { project }: Issuer,
  token: string,
): Promise<LiveToken | null> => {
  if (!jwtForm.test(token)) return null;
  const claims = (await deps.tokens.verifyClaims(project.id, token)) as AccessClaims | null;
  if (claims === null || typeof claims.client_id !== 'string') return null;
  if (claims.session_id === undefined) return claims.sub === claims.client_id ? { claims, session: null } : null;
  const session = await findClientSession(deps, project.id, { sessionId: claims.session_id, userId: claims.sub });
  return session?.client_id === claims.client_id ? { claims, session } : null;
};

const tokenOf = ({ form }: ClientRequest): string => {
  const token = form.get('token');
  if (token) return token;
  throw new OAuthError('invalid_request', 'The parameter token is missing.');
};

/** The sign-in of a token, and the client that got it where the token itself says so. */
interface Owned {
  readonly sessionId: string;
  readonly clientId: string | null;
}

const ownerOf = async (deps: OAuthDeps, issuer: Issuer, token: string): Promise<Owned | null> => {
  const refresh = readRefreshToken(refreshKey(deps.endUsers, issuer.project), token);
  if (refresh !== null) return { sessionId: refresh.id, clientId: null };
  const access = await readAccessToken(deps, issuer, token);
  if (access?.claims.session_id === undefined) return null;
  return { sessionId: access.claims.session_id, clientId: access.claims.client_id };
};

const ofAnother = (): OAuthError => new OAuthError('invalid_request', 'The token is one of another client.');

/**
 * Revocation (RFC 7009): either token ends the sign-in, and with it both. Unknown ones are no error.
 * @throws {OAuthError} `invalid_client`; `invalid_request`, also for a token of another client
 */
export const revokeToken = async (deps: OAuthDeps, issuer: Issuer, request: ClientRequest): Promise<void> => {
  const { client_id: clientId } = await authenticateClient(deps, issuer, request);
  const owned = await ownerOf(deps, issuer, tokenOf(request));
  if (owned === null) return;
  if (owned.clientId !== null && owned.clientId !== clientId) throw ofAnother();
  const { sessionId } = owned;
  const isEnded = await endClientSession(deps, issuer.project.id, { sessionId, clientId });
  if (!isEnded && (await sessionExists(deps, issuer.project.id, sessionId))) throw ofAnother();
};

/** Introspection (RFC 7662). A token that is over, foreign or unknown is not active, and nothing else is said of it. */
export const introspectToken = async (
  deps: OAuthDeps,
  issuer: Issuer,
  request: ClientRequest,
): Promise<Readonly<Record<string, unknown>>> => {
  const client = await authenticateClient(deps, issuer, request);
  if (!keepsSecret(client)) throw new OAuthError('unauthorized_client', 'Only a client with a secret may ask this.');
  const token = await readAccessToken(deps, issuer, tokenOf(request));
  if (token === null || token.claims.client_id !== client.client_id) return { active: false };
  const { sub, client_id: clientId, scope, exp, iat, jti } = token.claims;
  return {
    active: true,
    sub,
    client_id: clientId,
    ...(scope !== undefined && { scope }),
    exp,
    iat,
    jti,
    iss: issuer.url,
    aud: issuer.audience,
    token_type: 'Bearer',
  };
};
