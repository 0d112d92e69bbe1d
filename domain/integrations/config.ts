import { ServiceError } from '#lib/errors.ts';
import { isMasked, maskSecret } from './mask.ts';
import { type ProviderName, configSchemas, providerFacts } from './providers.ts';

/** The config of a provider: texts, and lists of texts. */
export type Config = Readonly<Record<string, unknown>>;

export interface Detail {
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
