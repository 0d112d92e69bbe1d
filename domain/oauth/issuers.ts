import { LRUCache } from 'lru-cache';
import type Provider from 'oidc-provider';
import type { Issuer, OAuthDeps } from './oauth.ts';
import { type ProviderPages, createProvider } from './provider.ts';

/**
 * Providers that are kept: each takes about 100 KB, with its keys. Another one is made in about a millisecond, beside its
 * keys' row.
 */
const maxKept = 200;

/** Settings and keys that another process changed are seen at the latest then; a notice comes within a second. */
const ttlMs = 60_000;

/** The OpenID providers of projects, as this process keeps them. */
export interface Issuers {
  readonly of: (issuer: Issuer) => Promise<Provider>;
  /** To be called when the project's settings or keys have changed. */
  readonly forget: (projectId: string) => void;
}

export const createIssuers = (deps: OAuthDeps, pagesOf: (issuer: Issuer) => ProviderPages): Issuers => {
  const kept = new LRUCache<string, { readonly url: string; readonly provider: Promise<Provider> }>({
    max: maxKept,
    ttl: ttlMs,
  });
  return {
    of: (issuer) => {
      const { id } = issuer.project;
      const present = kept.get(id);
      // Without a base address in the settings, a project has one issuer for each name that the API is reached by.
      if (present?.url === issuer.url) return present.provider;
      const provider = createProvider(deps, issuer, pagesOf(issuer));
      kept.set(id, { url: issuer.url, provider });
      provider.catch(() => kept.delete(id));
      return provider;
    },
    forget: (projectId) => void kept.delete(projectId),
  };
};
