import {
  type JWK,
  type JWTPayload,
  type JWTVerifyGetKey,
  SignJWT,
  createLocalJWKSet,
  errors,
  exportJWK,
  exportPKCS8,
  generateKeyPair,
  importPKCS8,
  jwtVerify,
} from 'jose';
import type { Project } from '#domain/projects/store.ts';
import { type Queryable, maybeOne } from '#lib/control-db.ts';
import { hashToken, newId } from '#lib/ids.ts';
import type { Sealer } from '#lib/secrets.ts';
import { LRUCache } from 'lru-cache';
import type { DataRole } from '#domain/data-api/data-api.ts';

/**
 * The users of a project's own application. The platform signs their tokens with a key of the project, publishes its
 * public half, and verifies what comes with a request; the database role and the claims follow from the token.
 */

export const signingAlgorithm = 'RS256';
const privateKeyAbout = 'signing-key';

interface SigningKey {
  readonly id: string;
  /** PKCS #8 in PEM. */
  readonly privateKey: string;
}

interface KeyRow {
  readonly id: string;
  readonly private_sealed: Buffer;
}

const newest = (db: Queryable, projectId: string): Promise<KeyRow | undefined> =>
  maybeOne(
    db.query<KeyRow>(
      `select id, private_sealed from project_signing_keys where project_id = $1
       order by created_at desc, id desc limit 1`,
      [projectId],
    ),
  );

/** When two keys are made at once both exist, and both verify. */
const makeKey = async (db: Queryable, projectId: string, sealer: Sealer): Promise<SigningKey> => {
  const { publicKey, privateKey } = await generateKeyPair(signingAlgorithm, { extractable: true });
  const id = newId();
  const pem = await exportPKCS8(privateKey);
  const jwk: JWK = { ...(await exportJWK(publicKey)), kid: id, alg: signingAlgorithm, use: 'sig' };
  await db.query(
    'insert into project_signing_keys (id, project_id, public_jwk, private_sealed) values ($1, $2, $3, $4)',
    [id, projectId, JSON.stringify(jwk), sealer.seal(privateKeyAbout, pem)],
  );
  return { id, privateKey: pem };
};

/** The key that a project signs with; made when it is asked for the first time. */
export const signingKeyOf = async (
  db: Queryable,
  project: Pick<Project, 'id'>,
  sealer: Sealer,
): Promise<SigningKey> => {
  const row = await newest(db, project.id);
  if (row === undefined) return makeKey(db, project.id, sealer);
  return { id: row.id, privateKey: sealer.open(privateKeyAbout, row.private_sealed) };
};

/** The public keys of a project's tokens; empty for a project that has signed nothing, or does not exist. */
export const publicKeysOf = async (db: Queryable, projectId: string): Promise<JWK[]> => {
  const rows = await db.query<{ public_jwk: JWK }>(
    `select k.public_jwk from project_signing_keys k join projects p on p.id = k.project_id
     where k.project_id = $1 and p.deleted_at is null order by k.created_at desc, k.id desc`,
    [projectId],
    'public-keys',
  );
  return rows.map(({ public_jwk }) => public_jwk);
};

/** RFC 9068, section 2.1: the header that distinguishes an access token from an id token, which the same key signs. */
const accessTokenType = 'at+jwt';

/** The database role and claims that a valid token stands for. */
interface EndUser {
  readonly role: Exclude<DataRole, 'service'>;
  /** The claims as they were signed, JSON text. */
  readonly claims: string;
}

interface TokenOrder {
  /** As tokens name it: `{base_url}/oauth/{project_id}`. */
  readonly issuer: string;
  /** The project's `rest_url`. */
  readonly audience: string;
  readonly subject: string;
  readonly expiresIn: number;
  /** Further claims, for policies. Those that are registered cannot be set. */
  readonly claims: Readonly<Record<string, unknown>>;
}

/** An access token for a user of the project (contract, section 9). */
export const signAccessToken = async (
  db: Queryable,
  project: Pick<Project, 'id'>,
  sealer: Sealer,
  order: TokenOrder,
): Promise<string> => {
  const key = await signingKeyOf(db, project, sealer);
  return new SignJWT({ ...order.claims, role: 'authenticated' })
    .setProtectedHeader({ alg: signingAlgorithm, typ: accessTokenType, kid: key.id })
    .setIssuer(order.issuer)
    .setAudience(order.audience)
    .setSubject(order.subject)
    .setJti(newId())
    .setIssuedAt()
    .setExpirationTime(Math.floor(Date.now() / 1000) + order.expiresIn)
    .sign(await importPKCS8(key.privateKey, signingAlgorithm));
};

/** Verifies tokens of projects' own users: the one place that says whom a token stands for. */
export interface TokenVerifier {
  /**
   * @param token of the JWT form
   * @returns null when it is not valid (any more), or another project's
   */
  readonly verify: (projectId: string, token: string) => Promise<EndUser | null>;
  /** The project that a token says it is of, unverified; null when it says none. */
  readonly projectOf: (token: string) => string | null;
}

const keyCacheTtlMs = 60_000;
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

const roleOf = (payload: JWTPayload): EndUser['role'] => (payload['role'] === 'anon' ? 'anon' : 'authenticated');

export const createTokenVerifier = (db: Queryable): TokenVerifier => {
  const keySets = new LRUCache<string, JWTVerifyGetKey>({ max: 2000, ttl: keyCacheTtlMs });
  /** A signature costs 60 µs to check; a token comes with each of its user's requests. */
  const known = new LRUCache<string, { readonly user: EndUser; readonly expires: number }>({
    max: 10_000,
    ttl: tokenCacheTtlMs,
  });

  const keySetOf = async (projectId: string, isRetry: boolean): Promise<JWTVerifyGetKey> => {
    const present = isRetry ? undefined : keySets.get(projectId);
    if (present) return present;
    const made = createLocalJWKSet({ keys: await publicKeysOf(db, projectId) });
    keySets.set(projectId, made);
    return made;
  };

  const check = async (projectId: string, token: string, isRetry = false): Promise<JWTPayload | null> => {
    const keySet = await keySetOf(projectId, isRetry);
    try {
      const { payload } = await jwtVerify(token, keySet, {
        algorithms: [signingAlgorithm],
        typ: accessTokenType,
        requiredClaims: ['exp', 'sub'],
        clockTolerance: 5,
      });
      return payload;
    } catch (error) {
      // Signed with a key that is newer than what is kept here.
      if (error instanceof errors.JWKSNoMatchingKey && !isRetry) return check(projectId, token, true);
      if (error instanceof errors.JOSEError) return null;
      throw error;
    }
  };

  return {
    projectOf,
    verify: async (projectId, token) => {
      const id = `${projectId} ${hashToken(token).toString('base64')}`;
      const present = known.get(id);
      if (present && present.expires > Date.now()) return present.user;
      if (projectOf(token) !== projectId) return null;
      const payload = await check(projectId, token);
      if (payload === null) return null;
      const user: EndUser = { role: roleOf(payload), claims: payloadText(token) };
      known.set(id, { user, expires: (payload.exp ?? 0) * 1000 });
      return user;
    },
  };
};
