import { LRUCache } from 'lru-cache';
import type { Project } from '#domain/projects/store.ts';
import { type Queryable, maybeOne } from '#lib/control-db.ts';
import type { Sealer } from '#lib/secrets.ts';
import { type ProviderName, providerFacts, providerNames } from '../providers/providers.ts';
import type { Target } from '../providers/dialect.ts';

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

interface NewKey {
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

type KeyOwner = Pick<Project, 'id' | 'data_key'>;

/** A key of a project as it is used: opened, in memory only. */
export interface ProviderKey {
  readonly id: string;
  readonly provider: ProviderName;
  /** Rises with each change. */
  readonly version: number;
  readonly target: Target;
}

/** The keys and defaults that a project's calls use. */
export interface ProjectKeys {
  /** By provider, in the order in which they are listed; those without a key are not there. */
  readonly byProvider: ReadonlyMap<ProviderName, ProviderKey>;
  /** The project has a budget that calls are refused by: none is made before it was granted. */
  readonly hardBudget: boolean;
}

export interface ProviderKeys {
  readonly all: (project: KeyOwner) => Promise<ProjectKeys>;
  /** Undefined: the provider is not configured. */
  readonly find: (project: KeyOwner, provider: ProviderName) => Promise<ProviderKey | undefined>;
  /** A project's keys or its budget were changed. */
  readonly forget: (projectId: string) => void;
}

interface ProviderKeysOptions {
  readonly db: Queryable;
  readonly sealer: (project: KeyOwner) => Sealer;
  /** Whether this process is subscribed to other processes' changes: only then is anything cached. */
  readonly isSubscribed: () => boolean;
}

const cacheTtlMs = 5000;
const maxKept = 5000;

/** The associated data of a sealed provider key: it opens in no other row. */
export const aboutKey = (provider: ProviderName): string => `ai_key:${provider}`;

const opened = (row: KeyRow, sealer: Sealer): ProviderKey => {
  const { provider, base_url: ownUrl } = row;
  const target: Target = {
    baseUrl: ownUrl ?? providerFacts[provider].baseUrl,
    apiKey: sealer.open(aboutKey(provider), row.api_key_sealed),
    isVendor: ownUrl === null,
  };
  return { id: row.id, provider, version: row.key_version, target };
};

/**
 * The keys of projects for use, cached for 5 s: reading and opening them would cost more than all other work of a call.
 * An opened key is cached no longer than the row that it comes from, and a revoked key is forgotten at once in all
 * processes (`forget`, of which they notify each other).
 */
export const createProviderKeys = ({ db, sealer, isSubscribed }: ProviderKeysOptions): ProviderKeys => {
  const cache = new LRUCache<string, ProjectKeys>({ max: maxKept, ttl: cacheTtlMs });
  /** Rises with each change: what was read before one must not be kept after it. */
  let changes = 0;

  const read = async (project: KeyOwner): Promise<ProjectKeys> => {
    const rows = await keysOf(db, project.id);
    const byProvider = new Map<ProviderName, ProviderKey>();
    for (const provider of providerNames) {
      const row = rows.find((one) => one.provider === provider);
      if (row) byProvider.set(provider, opened(row, sealer(project)));
    }
    return { byProvider, hardBudget: rows.some((row) => row.hard_budget) };
  };

  const all: ProviderKeys['all'] = async (project) => {
    const wasSubscribed = isSubscribed();
    const present = wasSubscribed ? cache.get(project.id) : undefined;
    if (present) return present;
    const before = changes;
    const found = await read(project);
    if (wasSubscribed && before === changes) cache.set(project.id, found);
    return found;
  };

  return {
    all,
    find: async (project, provider) => (await all(project)).byProvider.get(provider),
    forget: (projectId) => {
      changes += 1;
      cache.delete(projectId);
    },
  };
};
