import { KeyObject, createPrivateKey } from 'node:crypto';
import { type JWK, type JWTVerifyGetKey, createLocalJWKSet, exportJWK, exportPKCS8, generateKeyPair } from 'jose';
import { LRUCache } from 'lru-cache';
import type { Project } from '#domain/projects/store.ts';
import type { Queryable } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { Sealer } from '#lib/secrets.ts';

/** The keys that a project's tokens are signed with. The newest of an algorithm signs; all that have not expired verify. */

export const signingAlgorithms = ['RS256', 'ES256'] as const;
export type SigningAlgorithm = (typeof signingAlgorithms)[number];

export type SigningProject = Pick<Project, 'id' | 'data_key'>;

const privateKeyAbout = 'signing-key';

interface KeyRow {
  readonly id: string;
  readonly alg: SigningAlgorithm;
  readonly private_sealed: Buffer;
}

/** A private key, ready to sign. */
interface SigningKey {
  /** The `kid` in tokens. */
  readonly id: string;
  readonly alg: SigningAlgorithm;
  readonly key: KeyObject;
}

/** A key as its project's team sees it. */
export interface SigningKeyInfo {
  readonly id: string;
  readonly alg: SigningAlgorithm;
  readonly created_at: Date;
  /** From then on it verifies nothing. Null: it signs, or is kept until the next rotation. */
  readonly expires_at: Date | null;
}

/** The published keys of a project. */
interface PublicKeys {
  /** JSON text: `{"keys": […]}` (RFC 7517). */
  readonly text: string;
  readonly find: JWTVerifyGetKey;
}

const makeKey = async (
  db: Queryable,
  projectId: string,
  sealer: Sealer,
  alg: SigningAlgorithm,
): Promise<SigningKey> => {
  const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: true });
  const id = newId();
  const jwk: JWK = { ...(await exportJWK(publicKey)), kid: id, alg, use: 'sig' };
  const sealed = sealer.seal(privateKeyAbout, await exportPKCS8(privateKey));
  await db.query(
    'insert into project_signing_keys (id, project_id, alg, public_jwk, private_sealed) values ($1, $2, $3, $4, $5)',
    [id, projectId, alg, JSON.stringify(jwk), sealed],
  );
  return { id, alg, key: KeyObject.from(privateKey) };
};

/** The newest one of an algorithm; made when it is needed for the first time. When two are made at once, both verify. */
const loadKey = async (
  db: Queryable,
  projectId: string,
  sealer: Sealer,
  alg: SigningAlgorithm,
): Promise<SigningKey> => {
  const [row] = await db.query<KeyRow>(
    `select id, alg, private_sealed from project_signing_keys
     where project_id = $1 and alg = $2 and expires_at is null order by created_at desc, id desc limit 1`,
    [projectId, alg],
  );
  if (row === undefined) return makeKey(db, projectId, sealer, alg);
  return { id: row.id, alg, key: createPrivateKey(sealer.open(privateKeyAbout, row.private_sealed)) };
};

const readPublicKeys = async (db: Queryable, projectId: string): Promise<PublicKeys> => {
  const rows = await db.query<{ public_jwk: JWK }>(
    `select k.public_jwk from project_signing_keys k join projects p on p.id = k.project_id
     where k.project_id = $1 and p.deleted_at is null and (k.expires_at is null or k.expires_at > now())
     order by k.created_at desc, k.id desc`,
    [projectId],
    'public-keys',
  );
  const keys = rows.map(({ public_jwk: jwk }) => jwk);
  return { text: JSON.stringify({ keys }), find: createLocalJWKSet({ keys }) };
};

/** The keys of projects as this process keeps them. */
export interface SigningKeys {
  /** The key that signs with an algorithm. */
  readonly of: (project: SigningProject, alg: SigningAlgorithm) => Promise<SigningKey>;
  /** The keys that sign, as private JWKs: for a library that signs by itself. */
  readonly privateJwks: (project: SigningProject) => Promise<JWK[]>;
  /**
   * No keys for a project that has signed nothing, or does not exist.
   * @param isFresh reads them anew: a token names a key that is not among those that are kept
   */
  readonly publicOf: (projectId: string, isFresh?: boolean) => Promise<PublicKeys>;
  readonly forget: (projectId: string) => void;
}

/** Keys that expire, and those of projects that are gone, are given up at the latest then. */
const keyCacheTtlMs = 60_000;
const maxKept = 2000;
/** How long a key that was made by another process may be unknown here. */
const maxStaleMs = 1000;

/** Values that are computed once for callers at the same moment; failures are not kept. */
const createCache = <T>(): LRUCache<string, Promise<T>> =>
  new LRUCache<string, Promise<T>>({ max: maxKept, ttl: keyCacheTtlMs });

const kept = <T>(cache: LRUCache<string, Promise<T>>, key: string, load: () => Promise<T>): Promise<T> => {
  const present = cache.get(key);
  if (present) return present;
  const loading = load();
  cache.set(key, loading);
  loading.catch(() => cache.delete(key));
  return loading;
};

/** @param sealer opens the secrets of a project */
export const createSigningKeys = (db: Queryable, sealer: (project: SigningProject) => Sealer): SigningKeys => {
  // To open and import a key takes 0.3 ms, half of what a signature does.
  const signing = createCache<SigningKey>();
  const published = createCache<PublicKeys>();
  const of: SigningKeys['of'] = (project, alg) =>
    kept(signing, `${alg} ${project.id}`, () => loadKey(db, project.id, sealer(project), alg));
  return {
    of,
    privateJwks: async (project) => {
      const keys = await Promise.all(signingAlgorithms.map((alg) => of(project, alg)));
      return keys.map(({ id, alg, key }) => ({ ...(key.export({ format: 'jwk' }) as JWK), kid: id, alg, use: 'sig' }));
    },
    publicOf: (projectId, isFresh = false) => {
      // Strangers can name keys that do not exist with each request.
      if (isFresh && published.getRemainingTTL(projectId) < keyCacheTtlMs - maxStaleMs) published.delete(projectId);
      return kept(published, projectId, () => readPublicKeys(db, projectId));
    },
    forget: (projectId) => {
      published.delete(projectId);
      for (const alg of signingAlgorithms) signing.delete(`${alg} ${projectId}`);
    },
  };
};

const infoColumns = 'id, alg, created_at, expires_at';

export const listSigningKeys = (db: Queryable, projectId: string): Promise<SigningKeyInfo[]> =>
  db.query<SigningKeyInfo>(
    `select ${infoColumns} from project_signing_keys
     where project_id = $1 and (expires_at is null or expires_at > now()) order by created_at desc, id desc`,
    [projectId],
  );

/** Rotations whose overlap lasts: a project's published keys, and what each token is checked with, stay few. */
const maxKeys = 12;

/**
 * New keys in the place of those that sign; the earlier ones verify for a while. Needs a transaction.
 * @throws {ServiceError} `conflict` when too many keys are in their overlap
 */
export const rotateSigningKeys = async (
  db: Queryable,
  project: SigningProject,
  sealer: Sealer,
  overlapSeconds: number,
): Promise<SigningKeyInfo[]> => {
  await db.query('select from projects where id = $1 for no key update', [project.id]);
  await db.query('delete from project_signing_keys where project_id = $1 and expires_at < now()', [project.id]);
  const present = await listSigningKeys(db, project.id);
  if (present.length + signingAlgorithms.length > maxKeys) {
    throw new ServiceError('conflict', 'Too many earlier keys still verify.', {
      hint: 'Wait until the overlap of some has passed, or rotate with an overlap of 0.',
    });
  }
  await db.query(
    `update project_signing_keys set expires_at = least(expires_at, now() + make_interval(secs => $2))
     where project_id = $1`,
    [project.id, overlapSeconds],
  );
  for (const alg of signingAlgorithms) await makeKey(db, project.id, sealer, alg);
  return listSigningKeys(db, project.id);
};
