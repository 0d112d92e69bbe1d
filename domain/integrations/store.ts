import { aboutIntegration } from '#domain/email/resend.ts';
import { type Project, projectColumns } from '#domain/projects/store.ts';
import { type Queryable, maybeOne } from '#lib/control-db.ts';
import type { Sealer } from '#lib/secrets.ts';
import type { Config } from './config.ts';
import type { ConfigOf, ProviderName } from './providers.ts';

export interface IntegrationRow {
  readonly id: string;
  readonly provider: ProviderName;
  readonly config_sealed: Buffer;
  readonly config_version: number;
  /** Whether a chat is active: also false while the platform has stopped sending to it. */
  readonly is_active: boolean;
}

export const sealConfig = (sealer: Sealer, provider: ProviderName, config: Config): Buffer =>
  sealer.seal(aboutIntegration(provider), JSON.stringify(config));

export const openConfig = <P extends ProviderName>(
  sealer: Sealer,
  { provider, config_sealed: sealed }: Pick<IntegrationRow, 'config_sealed'> & { readonly provider: P },
): ConfigOf<P> => JSON.parse(sealer.open(aboutIntegration(provider), sealed)) as ConfigOf<P>;

// A chat that was switched off because nothing arrived there is off in its webhook only.
const columns = `i.id, i.provider, i.config_sealed, i.config_version,
  i.is_active and coalesce(w.is_active, true) as is_active`;
const tables = `integrations i left join webhooks w
  on w.project_id = i.project_id and w.kind = i.provider and w.kind <> 'http' and w.deleted_at is null`;

export const integrationsOf = (db: Queryable, projectId: string): Promise<IntegrationRow[]> =>
  db.query<IntegrationRow>(`select ${columns} from ${tables} where i.project_id = $1`, [projectId]);

export const findIntegration = (
  db: Queryable,
  projectId: string,
  provider: ProviderName,
): Promise<IntegrationRow | undefined> =>
  maybeOne(
    db.query<IntegrationRow>(
      `select ${columns} from ${tables} where i.project_id = $1 and i.provider = $2`,
      [projectId, provider],
      'find-integration',
    ),
  );

/** Until the transaction ends no other one changes it, or creates it when it does not exist. */
export const lockIntegration = async (
  db: Queryable,
  projectId: string,
  provider: ProviderName,
): Promise<IntegrationRow | undefined> => {
  await db.query('select pg_advisory_xact_lock(hashtextextended($1, 0))', [`integration:${projectId}:${provider}`]);
  return findIntegration(db, projectId, provider);
};

export interface NewIntegration {
  readonly id: string;
  readonly projectId: string;
  readonly provider: ProviderName;
  readonly sealed: Buffer;
  readonly isActive: boolean;
}

/** Makes it, or changes the one that is there. */
export const saveIntegration = async (
  db: Queryable,
  { id, projectId, provider, sealed, isActive }: NewIntegration,
): Promise<void> => {
  await db.query(
    `insert into integrations as i (id, project_id, provider, config_sealed, is_active) values ($1, $2, $3, $4, $5)
     on conflict (project_id, provider) do update set config_sealed = excluded.config_sealed,
       is_active = excluded.is_active, config_version = i.config_version + 1, updated_at = now()`,
    [id, projectId, provider, sealed, isActive],
  );
};

export const setActive = async (db: Queryable, id: string, isActive: boolean): Promise<void> => {
  await db.query('update integrations set is_active = $2, updated_at = now() where id = $1', [id, isActive]);
};

export const deleteIntegration = async (db: Queryable, id: string): Promise<void> => {
  await db.query('delete from integrations where id = $1', [id]);
};

export interface Receiver<P extends ProviderName> {
  readonly project: Project;
  readonly integration: IntegrationRow & { readonly provider: P };
}

/**
 * Returns the integration that a provider's call belongs to; undefined unless the project exists and the integration is
 * active.
 */
export const findReceiver = async <P extends ProviderName>(
  db: Queryable,
  projectId: string,
  provider: P,
): Promise<Receiver<P> | undefined> => {
  const row = await maybeOne(
    db.query<Project & { provider: P; integration_id: string; config_sealed: Buffer; config_version: number }>(
      `select ${projectColumns}, i.id as integration_id, i.provider, i.config_sealed, i.config_version
       from integrations i join projects p on p.id = i.project_id
       where i.project_id = $1 and i.provider = $2 and i.is_active and p.deleted_at is null`,
      [projectId, provider],
      'find-receiver',
    ),
  );
  if (row === undefined) return undefined;
  const { integration_id: id, config_sealed, config_version } = row;
  return { project: row, integration: { id, provider, config_sealed, config_version, is_active: true } };
};

/**
 * Notes that an event has come in. False when it came before, by any of its keys.
 * @param of.keys the first is signed for; of a call that is known by it no other is noted: who sends a signed text
 * again under the name of an event to come must not be able to have that one taken for a repeat
 */
export const noteProviderEvent = async (
  db: Queryable,
  { projectId, provider, keys }: { projectId: string; provider: ProviderName; keys: readonly string[] },
): Promise<boolean> => {
  const rows = await db.query(
    `with signed as (
       insert into provider_events (project_id, provider, event_key) values ($1, $2, ($3::text[])[1])
       on conflict do nothing returning event_key
     ), claimed as (
       insert into provider_events (project_id, provider, event_key)
       select $1, $2, key from unnest(($3::text[])[2:]) as key where exists (select from signed)
       on conflict do nothing returning event_key
     )
     select event_key from signed union all select event_key from claimed`,
    [projectId, provider, keys],
    'note-provider-event',
  );
  return rows.length === keys.length;
};

/** How long a repeat is known as one. */
const keptEventDays = 30;

/** @returns how many there were */
export const deleteOldProviderEvents = async (db: Queryable, max: number): Promise<number> => {
  const gone = await db.query(
    `delete from provider_events where ctid = any (array(
       select ctid from provider_events where received_at < now() - make_interval(days => $1) limit $2))
     returning event_key`,
    [keptEventDays, max],
  );
  return gone.length;
};
