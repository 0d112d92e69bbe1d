import { type Queryable, maybeOne, one } from '#lib/control-db.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import { hashToken, newId, newToken } from '#lib/ids.ts';

export type KeyKind = 'secret' | 'publishable';

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

const columns = 'id, project_id, name, kind, prefix, last_four, expires_at, created_at';

export interface NewApiKey {
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
): Promise<{ api_keys: ApiKey[]; total: number }> => {
  const rows = await db.query<ApiKey>(
    `select ${columns} from api_keys where project_id = $1 order by created_at, id limit $2 offset $3`,
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
