import { sign } from 'node:crypto';
import { type JWTPayload, errors, jwtVerify } from 'jose';
import { ServiceError } from '#lib/errors.ts';
import { hashToken, newId } from '#lib/ids.ts';
import { LRUCache } from 'lru-cache';
import { type SigningAlgorithm, type SigningKeys, type SigningProject, signingAlgorithms } from './keys.ts';
import type { DataRole } from '#domain/data-api/data-api.ts';

/**
 * Access tokens of a project's users. The platform signs them with a key of the project, publishes its public half, and
 * verifies what comes with a request; the database role and the claims follow from the token.
 */

/** RFC 9068, section 2.1: the header that distinguishes an access token from an id token, which the same key signs. */
const accessTokenType = 'at+jwt';

/** The database role and claims that a valid token stands for. */
interface EndUser {
  readonly role: Exclude<DataRole, 'service'>;
  /** The claims as they were signed, JSON text. */
  readonly claims: string;
}

/** An access token as it is to be (contract, section 9; RFC 9068). */
interface TokenOrder {
  /** As tokens name it: `{base_url}/oauth/{project_id}`. */
  readonly issuer: string;
  /** The project's `rest_url`. */
  readonly audience: string;
  readonly subject: string;
  /** In seconds. */
  readonly expiresIn: number;
  /** Left out: now. */
  readonly issuedAt?: Date;
  /** Left out: a new one. */
  readonly jti?: string;
  /** Further claims, for policies. Those that are registered cannot be set. */
  readonly claims: Readonly<Record<string, unknown>>;
}

/** A token of any kind: its header's `typ`, and all of its claims. */
interface JwtOrder {
  readonly alg: SigningAlgorithm;
  readonly typ: string;
  readonly claims: JWTPayload;
}

/** Signs with projects' keys. */
export interface TokenSigner {
  /** An access token. */
  readonly sign: (project: SigningProject, order: TokenOrder) => Promise<string>;
  /** Whatever else, such as an id token. */
  readonly signJwt: (project: SigningProject, order: JwtOrder) => Promise<string>;
}

const encoded = (part: object): string => Buffer.from(JSON.stringify(part)).toString('base64url');

/**
 * A signature is made in place (RFC 7515, 7.1): RS256 in 0.22 ms and ES256 in 0.03 ms, where the library's way through the
 * thread pool costs 0.08 ms more of either.
 */
export const createTokenSigner = (keys: SigningKeys): TokenSigner => {
  const signJwt = async (project: SigningProject, { alg, typ, claims }: JwtOrder): Promise<string> => {
    const { id, key } = await keys.of(project, alg);
    const signed = `${encoded({ alg, typ, kid: id })}.${encoded(claims)}`;
    const signature = sign('sha256', Buffer.from(signed), { key, dsaEncoding: 'ieee-p1363' });
    return `${signed}.${signature.toString('base64url')}`;
  };
  return {
    signJwt,
    sign: (project, { claims, issuer, audience, subject, expiresIn, issuedAt = new Date(), jti = newId() }) => {
      const iat = Math.floor(issuedAt.getTime() / 1000);
      const registered = { iss: issuer, aud: audience, sub: subject, jti, iat, exp: iat + expiresIn };
      return signJwt(project, {
        alg: 'RS256',
        typ: accessTokenType,
        claims: { ...claims, role: 'authenticated', ...registered },
      });
    },
  };
};

/** Verifies tokens of projects' own users: the one place that says whom a token stands for. */
export interface TokenVerifier {
  /**
   * @param token of the JWT form
   * @returns null when it is not valid (any more), or another project's
   */
  readonly verify: (projectId: string, token: string) => Promise<EndUser | null>;
  /** As `verify`, for those who find out themselves whether the user may still act and the sign-in lasts. */
  readonly verifySignature: (projectId: string, token: string) => Promise<EndUser | null>;
  /** The claims of an access token of whatever kind, checked as `verifySignature` does. */
  readonly verifyClaims: (projectId: string, token: string) => Promise<JWTPayload | null>;
  /** The project that a token says it is of, unverified; null when it says none. */
  readonly projectOf: (token: string) => string | null;
}

const tokenCacheTtlMs = 30_000;

const issuerForm = /\/oauth\/([0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})$/;

const payloadText = (token: string): string => Buffer.from(token.split('.')[1] ?? '', 'base64url').toString();

const issuerOf = (token: string): string => {
  try {
    const { iss } = JSON.parse(payloadText(token)) as { iss?: unknown };
    return typeof iss === 'string' ? iss : '';
  } catch {
    return '';
  }
};

const projectOf = (token: string): string | null => issuerForm.exec(issuerOf(token))?.[1] ?? null;

/** @throws {ServiceError} `forbidden` for the token of a client, which stands for no user */
const roleOf = ({ role }: JWTPayload): EndUser['role'] => {
  if (role === 'anon' || role === 'authenticated') return role;
  throw new ServiceError('forbidden', 'This token is a client’s own, and stands for no user.');
};

/** The user that a token stands for, and the sign-in that it belongs to. */
export interface TokenOwner {
  /** The user's id. */
  readonly subject: string;
  /** Null: the project made the token without a sign-in. */
  readonly sessionId: string | null;
  /** Signed in with a second factor. */
  readonly hasFactor: boolean;
}

const uuidForm = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/;

const ownerOf = ({ sub = '', session_id: sessionId, aal }: JWTPayload): TokenOwner => ({
  subject: sub,
  sessionId: typeof sessionId === 'string' && uuidForm.test(sessionId) ? sessionId : null,
  hasFactor: aal === 'aal2',
});

/** Clocks of servers differ by some seconds. */
const clockToleranceSeconds = 15;

/** @returns the claims of a token whose signature, kind, project and times are right; else null */
const checkSignature = async (
  keys: SigningKeys,
  projectId: string,
  token: string,
  isRetry = false,
): Promise<JWTPayload | null> => {
  const { find } = await keys.publicOf(projectId, isRetry);
  try {
    const { payload } = await jwtVerify(token, find, {
      algorithms: [...signingAlgorithms],
      typ: accessTokenType,
      requiredClaims: ['exp', 'sub'],
      clockTolerance: clockToleranceSeconds,
    });
    return payload;
  } catch (error) {
    // Signed with a key that is newer than what is kept here.
    if (error instanceof errors.JWKSNoMatchingKey && !isRetry) return checkSignature(keys, projectId, token, true);
    if (error instanceof errors.JOSEError) return null;
    throw error;
  }
};

/**
 * Remembers valid tokens for 30 s, so that the end of a sign-in, a ban or a deletion takes effect within that time.
 * @param isLive whether the user may still act, and the sign-in lasts
 */
export const createTokenVerifier = (
  keys: SigningKeys,
  isLive: (projectId: string, owner: TokenOwner) => Promise<boolean>,
): TokenVerifier => {
  const payloadOf = (projectId: string, token: string): Promise<JWTPayload | null> =>
    projectOf(token) === projectId ? checkSignature(keys, projectId, token) : Promise.resolve(null);
  /** A signature costs 60 µs to check; a token comes with each of its user's requests. */
  const known = new LRUCache<string, { readonly user: EndUser; readonly expires: number }>({
    max: 10_000,
    ttl: tokenCacheTtlMs,
  });

  const verifyNew = async (projectId: string, token: string, id: string): Promise<EndUser | null> => {
    const payload = await payloadOf(projectId, token);
    if (payload === null) return null;
    const role = roleOf(payload);
    const owner = ownerOf(payload);
    // The project may make tokens for whatever subject; users of ours have a UUID.
    if (uuidForm.test(owner.subject) && !(await isLive(projectId, owner))) return null;
    const user: EndUser = { role, claims: payloadText(token) };
    known.set(id, { user, expires: (payload.exp ?? 0) * 1000 });
    return user;
  };

  /** A page asks for many things at once with a token that is new here: one of them finds out. */
  const verifying = new Map<string, Promise<EndUser | null>>();

  return {
    projectOf,
    verifyClaims: payloadOf,
    verifySignature: async (projectId, token) => {
      const payload = await payloadOf(projectId, token);
      return payload && { role: roleOf(payload), claims: payloadText(token) };
    },
    verify: (projectId, token) => {
      const id = `${projectId} ${hashToken(token).toString('base64')}`;
      const present = known.get(id);
      if (present && present.expires > Date.now()) return Promise.resolve(present.user);
      const running = verifying.get(id);
      if (running) return running;
      const mine = verifyNew(projectId, token, id).finally(() => verifying.delete(id));
      verifying.set(id, mine);
      return mine;
    },
  };
};
