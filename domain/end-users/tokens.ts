import {
  type CryptoKey,
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
 * Access tokens of a project's users. The platform signs them with a key of the project, publishes its public half, and
 * verifies what comes with a request; the database role and the claims follow from the token.
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

type SigningProject = Pick<Project, 'id' | 'data_key'>;

/** Signs access tokens with projects' keys. */
export interface TokenSigner {
  readonly sign: (project: SigningProject, order: TokenOrder) => Promise<string>;
}

interface ImportedKey {
  readonly id: string;
  readonly key: CryptoKey;
}

const keyCacheTtlMs = 60_000;

/** @param sealer opens the secrets of a project */
export const createTokenSigner = (db: Queryable, sealer: (project: SigningProject) => Sealer): TokenSigner => {
  // To open and import a key takes 0.3 ms, half of what a signature does.
  const imported = new LRUCache<string, Promise<ImportedKey>>({ max: 2000, ttl: keyCacheTtlMs });

  const importKey = async (project: SigningProject): Promise<ImportedKey> => {
    const { id, privateKey } = await signingKeyOf(db, project, sealer(project));
    return { id, key: await importPKCS8(privateKey, signingAlgorithm) };
  };

  const keyOf = (project: SigningProject): Promise<ImportedKey> => {
    const present = imported.get(project.id);
    if (present) return present;
    const importing = importKey(project);
    imported.set(project.id, importing);
    importing.catch(() => imported.delete(project.id));
    return importing;
  };

  return {
    sign: async (project, { claims, issuer, audience, subject, expiresIn, issuedAt = new Date(), jti = newId() }) => {
      const { id, key } = await keyOf(project);
      const seconds = Math.floor(issuedAt.getTime() / 1000);
      return new SignJWT({ ...claims, role: 'authenticated' })
        .setProtectedHeader({ alg: signingAlgorithm, typ: accessTokenType, kid: id })
        .setIssuer(issuer)
        .setAudience(audience)
        .setSubject(subject)
        .setJti(jti)
        .setIssuedAt(seconds)
        .setExpirationTime(seconds + expiresIn)
        .sign(key);
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

const roleOf = (payload: JWTPayload): EndUser['role'] => (payload['role'] === 'anon' ? 'anon' : 'authenticated');

/** The user that a token stands for, and the sign-in that it belongs to. */
export interface TokenOwner {
  /** The user's id. */
  readonly subject: string;
  /** Null: the project made the token without a sign-in. */
  readonly sessionId: string | null;
}

const uuidForm = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/;

const ownerOf = ({ sub = '', session_id: sessionId }: JWTPayload): TokenOwner => ({
  subject: sub,
  sessionId: typeof sessionId === 'string' && uuidForm.test(sessionId) ? sessionId : null,
});

/** @returns the claims of a token whose signature, kind, project and times are right; else null */
const createSignatureCheck = (db: Queryable): ((projectId: string, token: string) => Promise<JWTPayload | null>) => {
  const keySets = new LRUCache<string, JWTVerifyGetKey>({ max: 2000, ttl: keyCacheTtlMs });

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

  return (projectId, token) => (projectOf(token) === projectId ? check(projectId, token) : Promise.resolve(null));
};

/**
 * Remembers valid tokens for 30 s, so that the end of a sign-in, a ban or a deletion takes effect within that time.
 * @param isLive whether the user may still act, and the sign-in lasts
 */
export const createTokenVerifier = (
  db: Queryable,
  isLive: (projectId: string, owner: TokenOwner) => Promise<boolean>,
): TokenVerifier => {
  const payloadOf = createSignatureCheck(db);
  /** A signature costs 60 µs to check; a token comes with each of its user's requests. */
  const known = new LRUCache<string, { readonly user: EndUser; readonly expires: number }>({
    max: 10_000,
    ttl: tokenCacheTtlMs,
  });

  const verifyNew = async (projectId: string, token: string, id: string): Promise<EndUser | null> => {
    const payload = await payloadOf(projectId, token);
    if (payload === null) return null;
    const owner = ownerOf(payload);
    // The project may make tokens for whatever subject; users of ours have a UUID.
    if (uuidForm.test(owner.subject) && !(await isLive(projectId, owner))) return null;
    const user: EndUser = { role: roleOf(payload), claims: payloadText(token) };
    known.set(id, { user, expires: (payload.exp ?? 0) * 1000 });
    return user;
  };

  /** A page asks for many things at once with a token that is new here: one of them finds out. */
  const verifying = new Map<string, Promise<EndUser | null>>();

  return {
    projectOf,
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
