import { LRUCache } from 'lru-cache';
import { faultOfAddress, isMasked, maskSecret } from '#domain/integrations/config.ts';
import type { Project } from '#domain/projects/store.ts';
import { type Queryable, maybeOne, one } from '#lib/control-db.ts';
import type { Egress } from '#lib/egress.ts';
import { EgressFailed, EgressRefused } from '#lib/egress/failures.ts';
import { notFound, ServiceError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { Sealer } from '#lib/secrets.ts';
import type { Target } from '../providers/dialect.ts';
import { type ProviderName, isProviderName, providerFacts, providerNames } from '../providers/providers.ts';

/*
 * The keys of projects for providers: the rows, the opened keys that calls use, cached for 5 s, and then the changes
 * that the project's people make.
 */

interface KeyRow {
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
const keysOf = (db: Queryable, projectId: string): Promise<(KeyRow & { readonly hard_budget: boolean })[]> =>
  db.query(
    `select ${columns}, exists (select from ai_budgets b where b.project_id = $1 and b.hard) as hard_budget
     from ai_provider_keys where project_id = $1`,
    [projectId],
    'ai-keys',
  );

/** Until the transaction ends no other one changes it, or creates it when it does not exist. */
const lockKey = async (db: Queryable, projectId: string, provider: ProviderName): Promise<KeyRow | undefined> => {
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
const saveKey = (db: Queryable, key: NewKey): Promise<KeyRow[]> =>
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
const deleteKey = async (db: Queryable, projectId: string, provider: ProviderName): Promise<boolean> => {
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
const maxCached = 5000;

/** The associated data of a sealed provider key: it opens in no other row. */
const aboutKey = (provider: ProviderName): string => `ai_key:${provider}`;

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
  const cache = new LRUCache<string, ProjectKeys>({ max: maxCached, ttl: cacheTtlMs });
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

/** A provider as a project has it (contract, section 8). */
export interface KeyEntry {
  readonly provider: ProviderName;
  readonly configured: boolean;
  /** Null: it is not configured; the times too. */
  readonly masked_key: string | null;
  /** Null: the provider's own. */
  readonly base_url: string | null;
  readonly supports: { readonly chat: boolean; readonly stream: boolean; readonly embeddings: boolean };
  readonly created_at: Date | null;
  readonly updated_at: Date | null;
  /** Null: the key was not tested since it was changed. */
  readonly last_tested_at: Date | null;
  readonly last_test_ok: boolean | null;
}

const noRow: { readonly [Column in keyof KeyRow]?: KeyRow[Column] | null } = {};

const entryOf = (provider: ProviderName, row: KeyRow | undefined): KeyEntry => {
  const { masked_key = null, base_url = null, created_at = null, updated_at = null } = row ?? noRow;
  const { last_tested_at = null, last_test_ok = null } = row ?? noRow;
  const { supports } = providerFacts[provider];
  const times = { created_at, updated_at, last_tested_at, last_test_ok };
  return { provider, configured: row !== undefined, masked_key, base_url, supports, ...times };
};

/** @throws {ServiceError} `not_found` */
export const requireAiProvider = (name: string): ProviderName => {
  if (isProviderName(name)) return name;
  throw notFound('provider');
};

/** The error of a call to a provider without a key. */
export const notConfigured = (provider: ProviderName): ServiceError =>
  new ServiceError('provider_not_configured', `${providerFacts[provider].label} has no key in this project.`, {
    hint: `POST …/ai/providers {"provider": "${provider}", "api_key": "…"} adds one.`,
  });

/** All providers, configured or not. */
export const listKeys = async (db: Queryable, projectId: string): Promise<readonly KeyEntry[]> => {
  const rows = new Map((await keysOf(db, projectId)).map((row) => [row.provider, row]));
  return providerNames.map((provider) => entryOf(provider, rows.get(provider)));
};

const invalid = (path: string, message: string): ServiceError =>
  new ServiceError('validation_failed', `The request is not valid: ${path}: ${message}`, {
    details: [{ path, message }],
  });

/** A URL that others are put behind: without a slash at the end, a query or a fragment. */
const normalized = (text: string): string => {
  const url = URL.parse(text);
  if (url === null) throw invalid('base_url', 'must be a URL');
  if (url.search !== '' || url.hash !== '') throw invalid('base_url', 'must have neither a query nor a fragment');
  return `${url.origin}${url.pathname}`.replace(/\/+$/, '');
};

/**
 * Checks a base URL before it is kept: https, or http to where the operator alone lets anybody, since the key goes
 * there.
 * @returns as it is kept
 * @throws {ServiceError} `validation_failed`
 */
export const checkBaseUrl = async (egress: Pick<Egress, 'check' | 'lookup'>, text: string): Promise<string> => {
  const fault = await faultOfAddress(egress, text).catch((error: unknown) => {
    if (error instanceof EgressRefused || error instanceof EgressFailed) return error.message;
    throw error;
  });
  if (fault !== null) throw invalid('base_url', fault);
  return normalized(text);
};

export interface KeyRequest {
  readonly provider: ProviderName;
  /** Masked, as an answer showed it, or left out: the one that is there. */
  readonly apiKey: string | undefined;
  /** Checked. Null: the provider's own; left out: as it is. */
  readonly baseUrl: string | null | undefined;
}

// The characters that may stand in a header: no space, no control character, nothing beyond ASCII.
const sendable = /^[\x21-\x7E]+$/;

/** The key as it is sent; null: the one that is there is meant. */
const newKeyOf = ({ apiKey, baseUrl }: KeyRequest, present: KeyRow | undefined): string | null => {
  if (apiKey === undefined && (present === undefined || baseUrl === undefined)) throw invalid('api_key', 'is required');
  if (apiKey === undefined) return null;
  if (isMasked(apiKey)) {
    if (apiKey === present?.masked_key) return null;
    throw invalid('api_key', 'is masked: send the key itself');
  }
  if (!sendable.test(apiKey)) throw invalid('api_key', 'must be visible ASCII characters without spaces');
  return apiKey;
};

const keyChanged = (baseUrl: string | null, present: KeyRow): void => {
  if (baseUrl === present.base_url) return;
  throw new ServiceError('secret_required', 'Another base_url needs the key again.', {
    details: [{ path: 'api_key', message: 'is required with another base_url' }],
    hint: 'A key is sent only to where its owner has sent it together with the address.',
  });
};

/**
 * Adds a key, or changes the one that is there.
 * @throws {ServiceError} `validation_failed`, `secret_required`
 */
export const configureKey = async (
  db: Queryable,
  { projectId, sealer }: { readonly projectId: string; readonly sealer: Sealer },
  request: KeyRequest,
): Promise<{ readonly added: boolean; readonly entry: KeyEntry }> => {
  const { provider } = request;
  const present = await lockKey(db, projectId, provider);
  const apiKey = newKeyOf(request, present);
  const baseUrl = request.baseUrl === undefined ? (present?.base_url ?? null) : request.baseUrl;
  if (apiKey === null && present) {
    keyChanged(baseUrl, present);
    return { added: false, entry: entryOf(provider, present) };
  }
  const key = apiKey ?? '';
  const sealed = sealer.seal(aboutKey(provider), key);
  const row = await one(saveKey(db, { id: newId(), projectId, provider, sealed, masked: maskSecret(key), baseUrl }));
  return { added: present === undefined, entry: entryOf(provider, row) };
};

/** @throws {ServiceError} `not_found` when it is not configured */
export const removeKey = async (db: Queryable, projectId: string, provider: ProviderName): Promise<void> => {
  await lockKey(db, projectId, provider);
  if (!(await deleteKey(db, projectId, provider))) throw notFound('provider key');
};
