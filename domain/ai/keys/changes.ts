import { faultOfAddress, isMasked, maskSecret } from '#domain/integrations/config.ts';
import { type Queryable, one } from '#lib/control-db.ts';
import type { Egress } from '#lib/egress.ts';
import { EgressFailed, EgressRefused } from '#lib/egress/failures.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { Sealer } from '#lib/secrets.ts';
import { type KeyRow, aboutKey, deleteKey, keysOf, lockKey, saveKey } from './keys.ts';
import { type ProviderName, isProviderName, providerFacts, providerNames } from '../providers/providers.ts';

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

const nothingKnown = {
  masked_key: null,
  base_url: null,
  created_at: null,
  updated_at: null,
  last_tested_at: null,
  last_test_ok: null,
} as const;

const knownOf = ({ masked_key, base_url, created_at, updated_at, last_tested_at, last_test_ok }: KeyRow) => ({
  masked_key,
  base_url,
  created_at,
  updated_at,
  last_tested_at,
  last_test_ok,
});

const entryOf = (provider: ProviderName, row: KeyRow | undefined): KeyEntry => ({
  provider,
  configured: row !== undefined,
  supports: providerFacts[provider].supports,
  ...(row ? knownOf(row) : nothingKnown),
});

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
 * Checks a base URL before it is kept: https, or http to where the operator alone lets anybody, since the key goes there.
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
