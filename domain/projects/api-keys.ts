import { answersWithin } from '#lib/answers-within.ts';
import { type Queryable, maybeOne, one } from '#lib/control-db.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import { hashToken, newId, newToken } from '#lib/ids.ts';
import { LRUCache } from 'lru-cache';
import { type Project, projectColumns } from './store.ts';

type KeyKind = 'secret' | 'publishable';

const prefixes = { secret: 'plinth_sk', publishable: 'plinth_pk' } as const satisfies Record<KeyKind, string>;

/** Returns the possible kind of a presented text, by its prefix alone. */
export const looksLikeApiKey = (text: string): boolean =>
  Object.values(prefixes).some((prefix) => text.startsWith(`${prefix}_`));

/** A key as it may be shown: never the key itself. */
export interface ApiKey {
  readonly id: string;
  readonly project_id: string;
  readonly name: string;
  readonly kind: KeyKind;
  readonly prefix: string;
  readonly last_four: string;
  readonly expires_at: Date | null;
  readonly created_at: Date;
}

/** With its last use, exact to the minute; null: none is known. */
export interface UsedApiKey extends ApiKey {
  readonly last_used_at: Date | null;
}

const columns = 'id, project_id, name, kind, prefix, last_four, expires_at, created_at';

interface NewApiKey {
  readonly name: string;
  readonly kind: KeyKind;
  readonly expiresAt: Date | null;
}

/** Makes a key; `api_key` is its only appearance. */
export const createApiKey = async (
  db: Queryable,
  projectId: string,
  { name, kind, expiresAt }: NewApiKey,
): Promise<ApiKey & { api_key: string }> => {
  const key = newToken(prefixes[kind]);
  const row = await one(
    db.query<ApiKey>(
      `insert into api_keys (id, project_id, name, kind, hash, prefix, last_four, expires_at)
       values ($1, $2, $3, $4, $5, $6, $7, $8) returning ${columns}`,
      [
        newId(),
        projectId,
        name,
        kind,
        hashToken(key),
        `${prefixes[kind]}_${key.slice(10, 14)}`,
        key.slice(-4),
        expiresAt,
      ],
    ),
  );
  return { ...row, api_key: key };
};

export const listApiKeys = async (
  db: Queryable,
  projectId: string,
  { limit, offset }: { readonly limit: number; readonly offset: number },
): Promise<{ api_keys: UsedApiKey[]; total: number }> => {
  const rows = await db.query<UsedApiKey>(
    `select k.id, k.project_id, k.name, k.kind, k.prefix, k.last_four, k.expires_at, k.created_at, u.last_used_at
     from api_keys k left join api_key_uses u on u.key_id = k.id
     where k.project_id = $1 order by k.created_at, k.id limit $2 offset $3`,
    [projectId, limit, offset],
  );
  const { total } = await one(
    db.query<{ total: number }>('select count(*) as total from api_keys where project_id = $1', [projectId]),
  );
  return { api_keys: rows, total };
};

/** @throws {ServiceError} `not_found` */
export const deleteApiKey = async (db: Queryable, projectId: string, id: string): Promise<ApiKey> => {
  const gone = await maybeOne(
    db.query<ApiKey>(`delete from api_keys where project_id = $1 and id = $2 returning ${columns}`, [projectId, id]),
  );
  if (gone === undefined) throw notFound('API key');
  return gone;
};

/**
 * A new key in the place of an old one, with its name, kind and expiry.
 * @param overlapSeconds how long the old key still works; 0: not at all
 * @throws {ServiceError} `not_found`, `expired`
 */
export const rollApiKey = async (
  db: Queryable,
  projectId: string,
  id: string,
  overlapSeconds: number,
): Promise<ApiKey & { api_key: string }> => {
  const old = await maybeOne(
    db.query<ApiKey>(`select ${columns} from api_keys where project_id = $1 and id = $2 for update`, [projectId, id]),
  );
  if (old === undefined) throw notFound('API key');
  if (old.expires_at !== null && old.expires_at <= new Date())
    throw new ServiceError('expired', 'This key has expired.', { hint: 'Make a new one.' });
  if (overlapSeconds === 0) await deleteApiKey(db, projectId, id);
  else
    await db.query(
      'update api_keys set expires_at = least(expires_at, now() + make_interval(secs => $2)) where id = $1',
      [id, overlapSeconds],
    );
  return createApiKey(db, projectId, { name: old.name, kind: old.kind, expiresAt: old.expires_at });
};

/** A key that is valid now, with its project. */
export interface KeyHolder {
  readonly project: Project;
  readonly key: ApiKey;
}

export interface KeyHolders {
  /** Undefined when there is no such key, or it has expired, or its project is deleted. */
  readonly find: (apiKey: string) => Promise<KeyHolder | undefined>;
  /** As `find`; while PostgreSQL is away, the holder as it was last known. */
  readonly findLastKnown: (apiKey: string) => Promise<KeyHolder | undefined>;
  /** A project by id or ref, for callers whose token names it; undefined when it is deleted. */
  readonly findProject: (idOrRef: string) => Promise<Project | undefined>;
  /** Keys of a project, or the project, were changed. */
  readonly forget: (projectId: string) => void;
}

interface KeyHoldersOptions {
  readonly db: Queryable;
  /** Whether this process is subscribed to other processes' changes: only then is anything cached. */
  readonly isSubscribed: () => boolean;
}

const uuid = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/;
const cacheTtlMs = 5000;
/** Longer outages are not bridged: a key may have been revoked meanwhile. */
const lastKnownMs = 24 * 3600_000;
/** PostgreSQL that does not answer for so long counts as away. */
const awayAfterMs = 1000;
const retryAfterMs = 500;
const maxKept = 20_000;

type KeyRow = Project & {
  readonly key_id: string;
  readonly key_name: string;
  readonly kind: ApiKey['kind'];
  readonly prefix: string;
  readonly last_four: string;
  readonly key_expires_at: Date | null;
  readonly key_created_at: Date;
};

const holderOf = (row: KeyRow): KeyHolder => {
  const { key_id, key_name, kind, prefix, last_four, key_expires_at, key_created_at, ...project } = row;
  return {
    project,
    key: {
      id: key_id,
      project_id: project.id,
      name: key_name,
      kind,
      prefix,
      last_four,
      expires_at: key_expires_at,
      created_at: key_created_at,
    },
  };
};

const isOver = ({ key }: KeyHolder): boolean => key.expires_at !== null && key.expires_at.getTime() <= Date.now();

const forgetIn = (kept: LRUCache<string, KeyHolder>, projectId: string): void => {
  for (const [hash, { project }] of kept.entries()) if (project.id === projectId) kept.delete(hash);
};

type FindByHash = (hash: Buffer, name: string) => Promise<KeyHolder | undefined>;

/** The holders of keys for what is answered while PostgreSQL is away. Only keys that were used for that are kept. */
const createLastKnown = (findByHash: FindByHash, present: (name: string) => KeyHolder | undefined) => {
  const kept = new LRUCache<string, KeyHolder>({ max: maxKept, ttl: lastKnownMs });
  /** Until then PostgreSQL is not asked again. */
  let awayUntil = 0;
  const findAndKeep: FindByHash = async (hash, name) => {
    const holder = await findByHash(hash, name);
    if (holder === undefined) kept.delete(name);
    else if (kept.peek(name) !== holder) kept.set(name, holder);
    return holder;
  };
  return {
    find: async (apiKey: string): Promise<KeyHolder | undefined> => {
      const hash = hashToken(apiKey);
      const name = hash.toString('latin1');
      const known = kept.get(name);
      if (known === undefined || isOver(known)) return findAndKeep(hash, name);
      if (performance.now() < awayUntil || present(name) === known) return known;
      const finding = findAndKeep(hash, name);
      if (await answersWithin(finding, awayAfterMs)) return finding;
      awayUntil = performance.now() + retryAfterMs;
      return known;
    },
    forget: (projectId: string): void => forgetIn(kept, projectId),
  };
};

/**
 * Caches the holder of each key for 5 s: the query costs a data API request as much as its own work. Only valid keys
 * are cached, so that guesses take no memory; a revoked key is forgotten at once in all processes (`forget`, of which
 * they notify each other).
 */
export const createKeyHolders = ({ db, isSubscribed }: KeyHoldersOptions): KeyHolders => {
  const holders = new LRUCache<string, KeyHolder>({ max: maxKept, ttl: cacheTtlMs });
  const projects = new LRUCache<string, Project>({ max: maxKept, ttl: cacheTtlMs });
  /** Rises with each change: what was read before one must not be kept after it. */
  let changes = 0;

  const readHolder = async (hash: Buffer): Promise<KeyHolder | undefined> => {
    const row = await maybeOne(
      db.query<KeyRow>(
        `select k.id as key_id, k.name as key_name, k.kind, k.prefix, k.last_four, k.expires_at as key_expires_at,
           k.created_at as key_created_at, ${projectColumns}
         from api_keys k join projects p on p.id = k.project_id
         where k.hash = $1 and (k.expires_at is null or k.expires_at > now()) and p.deleted_at is null`,
        [hash],
        'api-key',
      ),
    );
    return row && holderOf(row);
  };

  const cached = async <T extends object>(
    cache: LRUCache<string, T>,
    name: string,
    read: () => Promise<T | undefined>,
  ): Promise<T | undefined> => {
    const wasSubscribed = isSubscribed();
    const present = wasSubscribed ? cache.get(name) : undefined;
    if (present) return present;
    const before = changes;
    const found = await read();
    if (found && wasSubscribed && before === changes) cache.set(name, found);
    return found;
  };

  const findByHash = async (hash: Buffer, name: string): Promise<KeyHolder | undefined> => {
    const present = isSubscribed() ? holders.get(name) : undefined;
    const holder = present ?? (await cached(holders, name, () => readHolder(hash)));
    return holder && !isOver(holder) ? holder : undefined;
  };

  const lastKnown = createLastKnown(findByHash, (name) => (isSubscribed() ? holders.get(name) : undefined));

  return {
    find: (apiKey) => {
      const hash = hashToken(apiKey);
      return findByHash(hash, hash.toString('latin1'));
    },
    findLastKnown: lastKnown.find,
    findProject: (idOrRef) =>
      cached(projects, idOrRef, () =>
        maybeOne(
          db.query<Project>(
            `select ${projectColumns} from projects p where (p.id = $2 or p.ref = $1) and p.deleted_at is null`,
            [idOrRef, uuid.test(idOrRef) ? idOrRef : null],
          ),
        ),
      ),
    forget: (projectId) => {
      changes += 1;
      forgetIn(holders, projectId);
      lastKnown.forget(projectId);
      for (const [name, { id }] of projects.entries()) if (id === projectId) projects.delete(name);
    },
  };
};
