import { timingSafeEqual } from 'node:crypto';
import { type Queryable, maybeOne, one } from '#lib/control-db.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import { hashToken, newId, newToken } from '#lib/ids.ts';
import { requireVersion } from '#lib/versions.ts';
import type { SigningAlgorithm } from '#domain/end-users/keys.ts';
import { LRUCache } from 'lru-cache';
import { faultOfRedirect } from './redirect-uris.ts';

/** `web`: keeps a secret; `native`: an application on a device; `spa`: a page without a server. */
export const applicationTypes = ['web', 'native', 'spa'] as const;
export type ApplicationType = (typeof applicationTypes)[number];

const deviceGrant = 'urn:ietf:params:oauth:grant-type:device_code';
export const grantTypes = ['authorization_code', 'refresh_token', 'client_credentials', deviceGrant] as const;
type GrantType = (typeof grantTypes)[number];

export const scopes = ['openid', 'profile', 'email', 'offline_access'] as const;
type Scope = (typeof scopes)[number];

/** The metadata that the owner of a client gives (OpenID Connect Dynamic Client Registration 1.0, section 2). */
export interface ClientMetadata {
  readonly name: string;
  readonly application_type: ApplicationType;
  readonly redirect_uris: readonly string[];
  readonly post_logout_redirect_uris: readonly string[];
  readonly backchannel_logout_uri: string | null;
  readonly grant_types: readonly GrantType[];
  readonly scopes: readonly Scope[];
  readonly id_token_signed_response_alg: SigningAlgorithm;
}

/** A client of a project's OpenID provider, as it may be shown. */
export interface OAuthClient extends ClientMetadata {
  readonly client_id: string;
  /** Rises with each change, that of the secret too. */
  readonly version: number;
  readonly created_at: Date;
  readonly updated_at: Date;
}

/** With the secret, which appears once; null: the client has none. */
export type OAuthClientWithSecret = OAuthClient & { readonly client_secret: string | null };

const columns = `id as client_id, name, application_type, redirect_uris, post_logout_redirect_uris, backchannel_logout_uri,
  grant_types, scopes, id_token_signed_response_alg, version, created_at, updated_at`;

/** A client, with what is compared with the secret that it shows. */
export interface KnownClient extends OAuthClient {
  readonly secret_hash: Buffer | null;
  readonly former_secret_hash: Buffer | null;
  readonly former_secret_until: Date | null;
}

const idForm = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/;

/** @returns undefined when the project has no such client */
const findClient = async (db: Queryable, projectId: string, clientId: string): Promise<KnownClient | undefined> =>
  idForm.test(clientId)
    ? maybeOne(
        db.query<KnownClient>(
          `select ${columns}, secret_hash, former_secret_hash, former_secret_until
           from oauth_clients where id = $1 and project_id = $2`,
          [clientId, projectId],
          'oauth-client',
        ),
      )
    : undefined;

/** The clients of projects as every process sees them within a second of a change. */
export interface ClientCache {
  /** @returns undefined when the project has no such client */
  readonly of: (projectId: string, clientId: string) => Promise<KnownClient | undefined>;
  readonly forget: (projectId: string) => void;
}

const cacheTtlMs = 5000;
const maxKeptProjects = 2000;

/** @param isSubscribed whether this process hears of changes by others: only then is anything kept */
export const createClientCache = (db: Queryable, isSubscribed: () => boolean): ClientCache => {
  const kept = new LRUCache<string, Map<string, KnownClient>>({ max: maxKeptProjects, ttl: cacheTtlMs });
  /** Rises with each change: what was read before one must not be kept after it. */
  let changes = 0;
  return {
    of: async (projectId, clientId) => {
      const present = isSubscribed() ? kept.get(projectId)?.get(clientId) : undefined;
      if (present) return present;
      const before = changes;
      const client = await findClient(db, projectId, clientId);
      if (client === undefined || before !== changes || !isSubscribed()) return client;
      const ofProject = kept.get(projectId) ?? new Map<string, KnownClient>();
      kept.set(projectId, ofProject.set(clientId, client));
      return client;
    },
    forget: (projectId) => {
      changes += 1;
      kept.delete(projectId);
    },
  };
};

/** Whether a text is the client's secret, or the one before it while that still works. */
export const isSecretOf = (client: KnownClient, secret: string, now = Date.now()): boolean => {
  const given = hashToken(secret);
  const isNow = client.secret_hash !== null && timingSafeEqual(client.secret_hash, given);
  const isFormer = client.former_secret_hash !== null && timingSafeEqual(client.former_secret_hash, given);
  return isNow || (isFormer && client.former_secret_until !== null && client.former_secret_until.getTime() > now);
};

export const keepsSecret = ({ application_type: type }: Pick<ClientMetadata, 'application_type'>): boolean =>
  type === 'web';

const invalid = (path: string, message: string): ServiceError =>
  new ServiceError('validation_failed', 'The body is not valid.', { details: [{ path, message }] });

/** @throws {ServiceError} `validation_failed` */
const requireRedirects = (name: 'redirect_uris' | 'post_logout_redirect_uris', metadata: ClientMetadata): void => {
  for (const [at, uri] of metadata[name].entries()) {
    const fault = faultOfRedirect(uri, metadata.application_type);
    if (fault !== null) throw invalid(`${name}.${at}`, fault);
  }
};

/** All addresses of a client together: every process keeps the clients that it is asked about. */
const maxAddressLength = 16 * 1024;

/**
 * Checks what the parts of a client's metadata mean together.
 * @throws {ServiceError} `validation_failed`
 */
const requireConsistent = (metadata: ClientMetadata): void => {
  const { grant_types: grants, redirect_uris: redirects } = metadata;
  requireRedirects('redirect_uris', metadata);
  requireRedirects('post_logout_redirect_uris', metadata);
  if ([...redirects, ...metadata.post_logout_redirect_uris].join('').length > maxAddressLength) {
    throw invalid(
      'redirect_uris',
      `must not be longer than ${maxAddressLength} characters, with post_logout_redirect_uris`,
    );
  }
  if (grants.includes('authorization_code') && redirects.length === 0) {
    throw invalid('redirect_uris', 'must hold an address for the grant authorization_code');
  }
  if (grants.includes('client_credentials') && !keepsSecret(metadata)) {
    throw invalid('grant_types', 'must not hold client_credentials for a client without a secret');
  }
};

const valuesOf = (metadata: ClientMetadata): unknown[] => [
  metadata.name,
  metadata.application_type,
  JSON.stringify(metadata.redirect_uris),
  JSON.stringify(metadata.post_logout_redirect_uris),
  metadata.backchannel_logout_uri,
  JSON.stringify(metadata.grant_types),
  JSON.stringify(metadata.scopes),
  metadata.id_token_signed_response_alg,
];

/** Clients of one project. */
const maxClients = 100;

const newSecret = (): string => newToken('plinth_cs');

/** Needs a transaction. @throws {ServiceError} `validation_failed`, `plan_limit_exceeded` */
export const createClient = async (
  db: Queryable,
  projectId: string,
  metadata: ClientMetadata,
): Promise<OAuthClientWithSecret> => {
  requireConsistent(metadata);
  const secret = keepsSecret(metadata) ? newSecret() : null;
  await db.query('select from projects where id = $1 for no key update', [projectId]);
  const row = await maybeOne(
    db.query<OAuthClient>(
      `insert into oauth_clients (id, project_id, secret_hash, name, application_type, redirect_uris,
         post_logout_redirect_uris, backchannel_logout_uri, grant_types, scopes, id_token_signed_response_alg)
       select $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11
       where (select count(*) from oauth_clients where project_id = $2) < ${maxClients} returning ${columns}`,
      [newId(), projectId, secret === null ? null : hashToken(secret), ...valuesOf(metadata)],
    ),
  );
  if (row !== undefined) return { ...row, client_secret: secret };
  throw new ServiceError('plan_limit_exceeded', `A project may have ${maxClients} clients.`);
};

export const listClients = async (
  db: Queryable,
  projectId: string,
  { limit, offset }: { readonly limit: number; readonly offset: number },
): Promise<{ clients: OAuthClient[]; total: number }> => {
  const clients = await db.query<OAuthClient>(
    `select ${columns} from oauth_clients where project_id = $1 order by created_at, id limit $2 offset $3`,
    [projectId, limit, offset],
  );
  const { total } = await one(
    db.query<{ total: number }>('select count(*)::int as total from oauth_clients where project_id = $1', [projectId]),
  );
  return { clients, total };
};

/** @throws {ServiceError} `not_found` */
export const getClient = async (db: Queryable, projectId: string, clientId: string): Promise<OAuthClient> => {
  const client = await findClient(db, projectId, clientId);
  if (client === undefined) throw notFound('client');
  return client;
};

const lockClient = async (db: Queryable, projectId: string, clientId: string): Promise<OAuthClient> => {
  const client = await maybeOne(
    db.query<OAuthClient>(`select ${columns} from oauth_clients where id = $1 and project_id = $2 for update`, [
      clientId,
      projectId,
    ]),
  );
  if (client === undefined) throw notFound('client');
  return client;
};

/** The kind of application stays: with it a client would gain or lose its secret. */
export type ClientChange = {
  readonly [Name in keyof Omit<ClientMetadata, 'application_type'>]?: ClientMetadata[Name] | undefined;
};

/**
 * Needs a transaction.
 * @param of.expected the version that the client has to have; null: any
 * @throws {ServiceError} `not_found`, `precondition_failed`, `validation_failed`
 */
export const changeClient = async (
  db: Queryable,
  projectId: string,
  { clientId, expected }: { readonly clientId: string; readonly expected: number | null },
  change: ClientChange,
): Promise<OAuthClient> => {
  const client = await lockClient(db, projectId, clientId);
  requireVersion('The client has changed', client.version, expected);
  const given = Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined));
  const metadata: ClientMetadata = { ...client, ...given };
  requireConsistent(metadata);
  return one(
    db.query<OAuthClient>(
      `update oauth_clients set name = $2, application_type = $3, redirect_uris = $4, post_logout_redirect_uris = $5,
         backchannel_logout_uri = $6, grant_types = $7, scopes = $8, id_token_signed_response_alg = $9,
         version = version + 1, updated_at = now()
       where id = $1 returning ${columns}`,
      [clientId, ...valuesOf(metadata)],
    ),
  );
};

/** @throws {ServiceError} `not_found` */
export const deleteClient = async (db: Queryable, projectId: string, clientId: string): Promise<void> => {
  const gone = await db.query('delete from oauth_clients where id::text = $1 and project_id = $2 returning id', [
    clientId,
    projectId,
  ]);
  if (gone.length === 0) throw notFound('client');
};

/**
 * A new secret; the earlier one works for a while. Needs a transaction.
 * @throws {ServiceError} `not_found`; `conflict` for a client without a secret
 */
export const changeSecret = async (
  db: Queryable,
  projectId: string,
  clientId: string,
  overlapSeconds: number,
): Promise<OAuthClientWithSecret> => {
  const client = await lockClient(db, projectId, clientId);
  if (!keepsSecret(client)) throw new ServiceError('conflict', 'A client of this kind has no secret.');
  const secret = newSecret();
  const row = await one(
    db.query<OAuthClient>(
      `update oauth_clients set secret_hash = $2, version = version + 1, updated_at = now(),
         former_secret_hash = case when $3 > 0 then secret_hash end,
         former_secret_until = case when $3 > 0 then now() + make_interval(secs => $3) end
       where id = $1 returning ${columns}`,
      [clientId, hashToken(secret), overlapSeconds],
    ),
  );
  return { ...row, client_secret: secret };
};
