/*
 * Integrations: a project's accounts at other providers. The way through this folder: providers.ts (what each
 * provider's settings are), config.ts (checking, masking, addresses), store.ts (rows). Chats are webhooks of their own
 * kind (chats.ts); payment providers call us (inbound.ts, with PayPal's way of proof in paypal.ts); check.ts tries
 * keys.
 */

import { faultOfPattern } from '#domain/events/events.ts';
import { presentVersion } from '#domain/functions/store.ts';
import type { Project } from '#domain/projects/store.ts';
import type { Queryable } from '#lib/control-db.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { Sealer } from '#lib/secrets.ts';
import { removeChat, saveChat, setChatActive } from './chats.ts';
import { type Config, invalidConfig, maskConfig, mergeConfig } from './config.ts';
import {
  type Category,
  type ChatProvider,
  type ConfigOf,
  type ProviderName,
  isChat,
  isProvider,
  providerFacts,
  providerNames,
} from './providers.ts';
import {
  type IntegrationRow,
  deleteIntegration,
  findIntegration,
  integrationsOf,
  lockIntegration,
  openConfig,
  saveIntegration,
  sealConfig,
  setActive,
} from './store.ts';

/** A provider as a project has it; secrets are masked. */
export interface Integration {
  readonly provider: ProviderName;
  readonly category: Category;
  readonly configured: boolean;
  readonly is_active: boolean;
  /** Empty when it is not configured. */
  readonly config: Config;
}

/** The integration's project, and the key that seals its secrets. */
export interface IntegrationOf {
  readonly project: Pick<Project, 'id'>;
  readonly provider: ProviderName;
  readonly sealer: Sealer;
}

/** A change, and the webhook that stands for it when it is a chat. */
export interface Changed {
  readonly integration: Integration;
  readonly webhookId: string | null;
}

/** @throws {ServiceError} `not_found` */
export const requireProvider = (name: string): ProviderName => {
  if (isProvider(name)) return name;
  throw notFound('provider');
};

const shown = (provider: ProviderName, config: Config | null, isActive: boolean): Integration => ({
  provider,
  category: providerFacts[provider].category,
  configured: config !== null,
  is_active: config !== null && isActive,
  config: config === null ? {} : maskConfig(provider, config),
});

const notConfigured = (provider: ProviderName): ServiceError =>
  new ServiceError('provider_not_configured', `${providerFacts[provider].label} is not configured for this project.`, {
    hint: `PUT …/integrations/providers/${provider} configures it.`,
  });

/** All providers, configured or not. */
export const listIntegrations = async (
  db: Queryable,
  sealer: Sealer,
  projectId: string,
): Promise<readonly Integration[]> => {
  const rows = new Map((await integrationsOf(db, projectId)).map((row) => [row.provider, row]));
  return providerNames.map((provider) => {
    const row = rows.get(provider);
    return row ? shown(provider, openConfig(sealer, row), row.is_active) : shown(provider, null, false);
  });
};

/** @throws {ServiceError} `provider_not_configured` */
export const configOf = async <P extends ProviderName>(
  db: Queryable,
  { project, provider, sealer }: IntegrationOf & { readonly provider: P },
): Promise<ConfigOf<P>> => {
  const row = await findIntegration(db, project.id, provider);
  if (row === undefined) throw notConfigured(provider);
  return openConfig(sealer, { ...row, provider });
};

const requireEvents = (events: unknown): void => {
  const faults = (Array.isArray(events) ? (events as string[]) : []).flatMap((name, i) => {
    const fault = faultOfPattern(name);
    return fault === null ? [] : [{ path: `events.${i}`, message: fault }];
  });
  if (faults.length > 0) throw invalidConfig(faults);
};

const requireFunction = async (db: Queryable, projectId: string, functionId: unknown): Promise<void> => {
  if (typeof functionId !== 'string' || (await presentVersion(db, projectId, { id: functionId }))) return;
  throw invalidConfig([{ path: 'function_id', message: 'the project has no such function' }]);
};

export interface IntegrationRequest {
  readonly config: Config;
  /** Left out: as it is, and active at first. */
  readonly isActive: boolean | undefined;
}

/**
 * Configures a provider, or changes its config: secrets that are left out or masked stay.
 * @throws {ServiceError} `validation_failed`, `secret_required`
 */
export const configure = async (
  db: Queryable,
  { project, provider, sealer }: IntegrationOf,
  request: IntegrationRequest,
): Promise<Changed> => {
  const present = await lockIntegration(db, project.id, provider);
  const config = mergeConfig(provider, present ? openConfig(sealer, present) : null, request.config);
  requireEvents(config['events']);
  await requireFunction(db, project.id, config['function_id']);
  const isActive = request.isActive ?? present?.is_active ?? true;
  const sealed = sealConfig(sealer, provider, config);
  await saveIntegration(db, { id: newId(), projectId: project.id, provider, sealed, isActive });
  const chat = { sealer, config: config as ConfigOf<ChatProvider>, isActive };
  const webhookId = isChat(provider) ? await saveChat(db, { project, kind: provider }, chat) : null;
  return { integration: shown(provider, config, isActive), webhookId };
};

/** @throws {ServiceError} the one of `absent` when it is not configured */
const lockConfigured = async (
  db: Queryable,
  { project, provider }: IntegrationOf,
  absent: () => ServiceError,
): Promise<IntegrationRow> => {
  const row = await lockIntegration(db, project.id, provider);
  if (row === undefined) throw absent();
  return row;
};

/** Switches an integration off, or on again. @throws {ServiceError} `provider_not_configured` */
export const toggle = async (db: Queryable, of: IntegrationOf): Promise<Changed> => {
  const { project, provider, sealer } = of;
  const row = await lockConfigured(db, of, () => notConfigured(provider));
  const isActive = !row.is_active;
  await setActive(db, row.id, isActive);
  const webhookId = isChat(provider) ? await setChatActive(db, { project, kind: provider }, isActive) : undefined;
  return { integration: shown(provider, openConfig(sealer, row), isActive), webhookId: webhookId ?? null };
};

/** @throws {ServiceError} `not_found` when it is not configured */
export const remove = async (db: Queryable, of: IntegrationOf): Promise<void> => {
  const { project, provider } = of;
  const row = await lockConfigured(db, of, () => notFound('integration'));
  await deleteIntegration(db, row.id);
  if (isChat(provider)) await removeChat(db, { project, kind: provider });
};
