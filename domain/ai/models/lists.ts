import { LRUCache } from 'lru-cache';
import type { ProviderKey } from '../keys/keys.ts';
import type { ListedModel } from '../providers/dialect.ts';

/** The model lists of providers, for each key. */
export interface ModelLists {
  /**
   * Kept for an hour; one that is older is better than none when the provider does not answer.
   * @throws what the asking throws, when nothing is kept
   */
  readonly of: (key: ProviderKey) => Promise<readonly ListedModel[]>;
  /** Returns the cached list without a request; undefined when there is none. */
  readonly cached: (key: ProviderKey) => readonly ListedModel[] | undefined;
}

interface CachedList {
  readonly models: readonly ListedModel[];
  readonly at: number;
}

const cacheTtlMs = 3_600_000;
// Room for lists of some 100 models each, and of 5,000 at most.
const maxKept = 500;
const maxModelsKept = 100_000;

/** A changed key is another: it may open other models. */
const nameOf = ({ id, version }: ProviderKey): string => `${id}:${version}`;

/** @param fetchList the whole list, from the provider */
export const createModelLists = (
  fetchList: (key: ProviderKey) => Promise<readonly ListedModel[]>,
  now: () => number = Date.now,
): ModelLists => {
  const lists = new LRUCache<string, CachedList>({
    max: maxKept,
    maxSize: maxModelsKept,
    sizeCalculation: ({ models }) => models.length + 1,
  });
  const pending = new Map<string, Promise<readonly ListedModel[]>>();

  const fetchAndCache = async (key: ProviderKey, name: string): Promise<readonly ListedModel[]> => {
    try {
      const models = await fetchList(key);
      lists.set(name, { models, at: now() });
      return models;
    } catch (error) {
      const stale = lists.get(name);
      if (stale === undefined) throw error;
      return stale.models;
    } finally {
      pending.delete(name);
    }
  };

  return {
    of: (key) => {
      const name = nameOf(key);
      const present = lists.get(name);
      if (present && now() - present.at < cacheTtlMs) return Promise.resolve(present.models);
      // Callers that need a list at the same time share one request.
      const under = pending.get(name) ?? fetchAndCache(key, name);
      if (!pending.has(name)) pending.set(name, under);
      return under;
    },
    cached: (key) => lists.get(nameOf(key))?.models,
  };
};
