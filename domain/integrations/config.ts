import type { Egress } from '#lib/egress.ts';
import { EgressFailed, EgressRefused } from '#lib/egress/failures.ts';
import { isOpen, parseRanges } from '#lib/egress/ranges.ts';
import { ServiceError } from '#lib/errors.ts';
import { type ProviderName, configSchemas, providerFacts } from './providers.ts';

const dots = '••••';
// The hidden part of a secret has at least so many characters.
const minHidden = 12;
const shown = 4;

// Prefixes of model keys.
const modelPrefix = /^(?:sk-(?:ant-|proj-|svcacct-)?|xai-|AIza)/;

/** The prefix of a kind of secret, which reveals nothing of it: `sk_live_`, `whsec_`, `https://hooks.slack.com/`. */
const prefixOf = (secret: string): string =>
  (/^https?:\/\//i.test(secret) ? URL.parse(secret)?.origin.concat('/') : undefined) ??
  /^[a-z]{2,6}_(?:[a-z]{3,5}_)?/.exec(secret)?.[0] ??
  modelPrefix.exec(secret)?.[0] ??
  '';

/** Masks a secret for answers: its prefix and its last four characters; of a short one nothing. */
export const maskSecret = (secret: string): string => {
  const prefix = prefixOf(secret);
  if (secret.length - prefix.length - shown < minHidden) return dots.repeat(2);
  return `${prefix}${dots}${secret.slice(-shown)}`;
};

/** Recognizes a secret that was sent back as an answer showed it: no secret has such characters. */
export const isMasked = (value: unknown): value is string => typeof value === 'string' && value.includes('•');

/** The config of a provider: texts, and lists of texts. */
export type Config = Readonly<Record<string, unknown>>;

interface Detail {
  readonly path: string;
  readonly message: string;
}

export const invalidConfig = (details: readonly Detail[]): ServiceError =>
  new ServiceError('validation_failed', 'The body is not valid.', {
    details: details.map(({ path, message }) => ({ path: path === '' ? 'config' : `config.${path}`, message })),
  });

const secretRequired = (fields: readonly string[]): ServiceError =>
  new ServiceError('secret_required', 'With another base_url the secrets have to be given again.', {
    details: fields.map((field) => ({ path: `config.${field}`, message: 'is required with another base_url' })),
    hint: 'A secret that was kept goes only where it was given for.',
  });

const maxIssues = 20;
const maxTextLength = 300;

/** @throws {ServiceError} `validation_failed` */
const checked = (provider: ProviderName, config: Config): Config => {
  const parsed = configSchemas[provider].safeParse(config);
  if (parsed.success) return parsed.data;
  throw invalidConfig(
    parsed.error.issues.slice(0, maxIssues).map(({ path, message }) => ({
      path: path.join('.').slice(0, maxTextLength),
      message: message.slice(0, maxTextLength),
    })),
  );
};

/** A secret that was left out or sent back as it was shown stays what it was. */
const keptSecret = (field: string, given: unknown, present: Config | null): unknown => {
  const before = present?.[field];
  if (given === undefined) return before;
  if (!isMasked(given)) return given;
  if (typeof before === 'string' && maskSecret(before) === given) return before;
  throw invalidConfig([{ path: field, message: 'is masked, and there is no such value to keep' }]);
};

const isGiven = (value: unknown): boolean => value !== undefined && !isMasked(value);

/**
 * Merges a config: secrets that were left out or masked are kept, other fields are taken as given.
 * @param present null: there is none yet
 * @throws {ServiceError} `validation_failed`; `secret_required` when kept secrets would go to another address
 */
export const mergeConfig = (provider: ProviderName, present: Config | null, given: Config): Config => {
  const { secrets } = providerFacts[provider];
  const kept = secrets.map((field) => [field, keptSecret(field, given[field], present)] as const);
  const wanted = checked(provider, {
    ...given,
    ...Object.fromEntries(kept.filter(([, value]) => value !== undefined)),
  });
  const missing = secrets.filter((field) => !isGiven(given[field]));
  if (present && missing.length > 0 && wanted['base_url'] !== present['base_url']) throw secretRequired(missing);
  return wanted;
};

/** A config as answers show it. */
export const maskConfig = (provider: ProviderName, config: Config): Config => {
  const { secrets } = providerFacts[provider];
  return Object.fromEntries(
    Object.entries(config).map(([field, value]) => [
      field,
      secrets.includes(field) && typeof value === 'string' ? maskSecret(value) : value,
    ]),
  );
};

const nothingMore = parseRanges('');

const isPublic = (address: string): boolean => isOpen(address, nothingMore);

// Each takes what it is sent in its own form only.
const foreignHosts: Readonly<Partial<Record<ProviderName, RegExp>>> = {
  slack: /(^|\.)discord(app)?\.com$/,
  discord: /(^|\.)slack(-gov)?\.com$/,
};

type Ways = Pick<Egress, 'check' | 'lookup'>;

/**
 * Returns the problem of an address that receives secrets, or that is one: they are sent unencrypted only to hosts that
 * the operator has allowed. Null: none.
 * @throws {EgressRefused | EgressFailed}
 */
export const faultOfAddress = async (egress: Ways, address: string): Promise<string | null> => {
  const url = egress.check(address);
  if (url.protocol === 'https:') return null;
  const found = await egress.lookup(url.hostname);
  return found.some(({ address: at }) => isPublic(at)) ? 'must begin with https://' : null;
};

/** Null: nothing is wrong. */
const faultOf = async (egress: Ways, provider: ProviderName, address: string): Promise<string | null> => {
  const url = egress.check(address);
  if (foreignHosts[provider]?.test(url.hostname)) return `is not an address for ${provider}`;
  return faultOfAddress(egress, address);
};

const isAddress = (value: unknown): value is string => typeof value === 'string' && URL.canParse(value);

/** A value that was sent back as it was shown is kept, and was checked before; only secrets are masked. */
const isKept = (provider: ProviderName, field: string, value: unknown): boolean =>
  providerFacts[provider].secrets.includes(field) && isMasked(value);

/**
 * Checks the addresses in a config before it is kept: https, or http to an address that is not public and that the
 * platform may reach all the same (`PLINTH_EGRESS_ALLOW`; loopback in local development).
 * @throws {ServiceError} `validation_failed`
 */
export const checkAddresses = async (egress: Ways, provider: ProviderName, config: Config): Promise<void> => {
  for (const field of ['webhook_url', 'base_url']) {
    const address = config[field];
    if (!isAddress(address) || isKept(provider, field, address)) continue;
    const fault = await faultOf(egress, provider, address).catch((error: unknown) => {
      if (error instanceof EgressRefused || error instanceof EgressFailed) return error.message;
      throw error;
    });
    if (fault !== null) throw invalidConfig([{ path: field, message: fault }]);
  }
};
