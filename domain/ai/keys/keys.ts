import { LRUCache } from 'lru-cache';
import type { Project } from '#domain/projects/store.ts';
import type { Queryable } from '#lib/control-db.ts';
import type { Sealer } from '#lib/secrets.ts';
import { type KeyRow, keysOf } from './store.ts';
import { type ProviderName, providerFacts, providerNames } from '../providers/providers.ts';
import type { Target } from '../providers/dialect.ts';

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

export interface ProviderKeysOptions {
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
