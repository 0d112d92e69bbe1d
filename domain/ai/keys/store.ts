import { type Queryable, maybeOne } from '#lib/control-db.ts';
import type { ProviderName } from '../providers/providers.ts';

export interface KeyRow {
  readonly id: string;
  readonly provider: ProviderName;
  readonly api_key_sealed: Buffer;
  readonly masked_key: string;
  /** Null: the provider's own. */
  readonly base_url: string | null;
  /** Rises with each change. */
  readonly key_version: number;
  readonly last_tested_at: Date | null;
  readonly last_test_ok: boolean | null;
  readonly created_at: Date;
  readonly updated_at: Date;
}

const columns = `id, provider, api_key_sealed, masked_key, base_url, key_version, last_tested_at, last_test_ok,
  created_at, updated_at`;

/** All keys of a project, and whether it has a budget that calls are refused by. */
export const keysOf = (db: Queryable, projectId: string): Promise<(KeyRow & { readonly hard_budget: boolean })[]> =>
  db.query(
    `select ${columns}, exists (select from ai_budgets b where b.project_id = $1 and b.hard) as hard_budget
     from ai_provider_keys where project_id = $1`,
    [projectId],
    'ai-keys',
  );

/** Until the transaction ends no other one changes it, or creates it when it does not exist. */
export const lockKey = async (
  db: Queryable,
  projectId: string,
  provider: ProviderName,
): Promise<KeyRow | undefined> => {
  await db.query('select pg_advisory_xact_lock(hashtextextended($1, 0))', [`ai-key:${projectId}:${provider}`]);
  return maybeOne(
    db.query<KeyRow>(`select ${columns} from ai_provider_keys where project_id = $1 and provider = $2`, [
      projectId,
      provider,
    ]),
  );
};

export interface NewKey {
  readonly id: string;
  readonly projectId: string;
  readonly provider: ProviderName;
  readonly sealed: Buffer;
  readonly masked: string;
  readonly baseUrl: string | null;
}

/** Makes it, or changes the one that is there: what a test found of the one before is forgotten. */
export const saveKey = (db: Queryable, key: NewKey): Promise<KeyRow[]> =>
  db.query<KeyRow>(
    `insert into ai_provider_keys as k (id, project_id, provider, api_key_sealed, masked_key, base_url)
     values ($1, $2, $3, $4, $5, $6)
     on conflict (project_id, provider) do update set api_key_sealed = excluded.api_key_sealed,
       masked_key = excluded.masked_key, base_url = excluded.base_url, key_version = k.key_version + 1,
       last_tested_at = null, last_test_ok = null, updated_at = now()
     returning ${columns}`,
    [key.id, key.projectId, key.provider, key.sealed, key.masked, key.baseUrl],
  );

/** False: there was none. */
export const deleteKey = async (db: Queryable, projectId: string, provider: ProviderName): Promise<boolean> => {
  const gone = await db.query('delete from ai_provider_keys where project_id = $1 and provider = $2 returning id', [
    projectId,
    provider,
  ]);
  return gone.length > 0;
};

/** Notes what a test found, unless the key was changed meanwhile. */
export const noteTested = async (
  db: Queryable,
  { id, version }: { readonly id: string; readonly version: number },
  ok: boolean,
): Promise<void> => {
  await db.query(
    `update ai_provider_keys set last_tested_at = now(), last_test_ok = $3 where id = $1 and key_version = $2`,
    [id, version, ok],
  );
};
