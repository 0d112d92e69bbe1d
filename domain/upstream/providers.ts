import { type Queryable, maybeOne, one } from '#lib/control-db.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { Sealer } from '#lib/secrets.ts';
import { isMasked, maskSecret } from '#domain/integrations/config.ts';

/** A provider that the platform knows: only its client is to be given. */
interface Preset {
  /** Null: it is no OpenID provider. */
  readonly issuer: string | null;
  readonly scopes: string;
  /** It answers by a form that the browser posts. */
  readonly postsForm?: true;
}

const presets: Readonly<Record<string, Preset>> = {
  google: { issuer: 'https://accounts.google.com', scopes: 'openid email profile' },
  microsoft: { issuer: 'https://login.microsoftonline.com/common/v2.0', scopes: 'openid email profile' },
  apple: { issuer: 'https://appleid.apple.com', scopes: 'openid email name', postsForm: true },
  github: { issuer: null, scopes: 'read:user user:email' },
};

const usualScopes = 'openid email profile';

export const presetOf = (provider: string): Preset | undefined =>
  Object.hasOwn(presets, provider) ? presets[provider] : undefined;

/** A provider as its project has set it up; the secret masked. */
export interface UpstreamProvider {
  readonly provider: string;
  readonly client_id: string;
  readonly client_secret: string;
  readonly issuer: string | null;
  readonly scopes: string | null;
  readonly link_by_verified_email: boolean;
  readonly enabled: boolean;
  readonly created_at: Date;
  readonly updated_at: Date;
}

/** With the secret, sealed. */
export interface SealedProvider extends UpstreamProvider {
  readonly id: string;
  readonly secret_sealed: Buffer;
}

const columns = `provider, client_id, masked_secret as client_secret, issuer, scopes, link_by_verified_email, enabled,
  created_at, updated_at`;

const aboutSecret = (provider: string): string => `upstream:${provider}:secret`;

export const openSecret = (sealer: Sealer, { provider, secret_sealed: sealed }: SealedProvider): string =>
  sealer.open(aboutSecret(provider), sealed);

export const scopesOf = ({ provider, scopes }: Pick<UpstreamProvider, 'provider' | 'scopes'>): string =>
  scopes ?? presetOf(provider)?.scopes ?? usualScopes;

export const listProviders = (db: Queryable, projectId: string): Promise<UpstreamProvider[]> =>
  db.query<UpstreamProvider>(`select ${columns} from auth_providers where project_id = $1 order by provider`, [
    projectId,
  ]);

export const findProvider = (db: Queryable, projectId: string, provider: string): Promise<SealedProvider | undefined> =>
  maybeOne(
    db.query<SealedProvider>(
      `select id, secret_sealed, ${columns} from auth_providers where project_id = $1 and provider = $2`,
      [projectId, provider],
      'auth-provider',
    ),
  );

/** The settings of a provider that a project gives. */
export interface ProviderOrder {
  readonly client_id: string;
  readonly client_secret: string;
  readonly issuer: string | null;
  readonly scopes: string | null;
  readonly link_by_verified_email: boolean;
  readonly enabled: boolean;
}

const invalid = (path: string, message: string): ServiceError =>
  new ServiceError('validation_failed', 'The body is not valid.', { details: [{ path, message }] });

const maxProviders = 20;

/** A secret that comes back masked stays, as long as it goes to the same address. */
const keptSecret = (present: SealedProvider | undefined, { client_secret: given, issuer }: ProviderOrder): Buffer => {
  if (present?.client_secret === given && present.issuer === issuer) return present.secret_sealed;
  throw invalid('client_secret', 'is masked, and there is no such value to keep');
};

/**
 * Sets a provider up, or changes it as a whole. Needs a transaction.
 * @throws {ServiceError} `validation_failed`, `plan_limit_exceeded`
 */
export const putProvider = async (
  db: Queryable,
  { projectId, sealer }: { readonly projectId: string; readonly sealer: Sealer },
  provider: string,
  order: ProviderOrder,
): Promise<UpstreamProvider> => {
  if (order.issuer === null && presetOf(provider) === undefined) {
    throw invalid('issuer', `must be given: only ${Object.keys(presets).join(', ')} are known`);
  }
  await db.query('select from projects where id = $1 for no key update', [projectId]);
  const present = await findProvider(db, projectId, provider);
  const { n } = await one(
    db.query<{ n: number }>('select count(*)::int as n from auth_providers where project_id = $1', [projectId]),
  );
  if (present === undefined && n >= maxProviders) {
    throw new ServiceError('plan_limit_exceeded', `A project may have ${maxProviders} providers.`);
  }
  const { client_secret: secret } = order;
  const sealed = isMasked(secret) ? keptSecret(present, order) : sealer.seal(aboutSecret(provider), secret);
  const masked = isMasked(secret) ? secret : maskSecret(secret);
  return one(
    db.query<UpstreamProvider>(
      `insert into auth_providers (id, project_id, provider, client_id, secret_sealed, masked_secret, issuer, scopes,
         link_by_verified_email, enabled) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
       on conflict (project_id, provider) do update set client_id = excluded.client_id,
         secret_sealed = excluded.secret_sealed, masked_secret = excluded.masked_secret, issuer = excluded.issuer,
         scopes = excluded.scopes, link_by_verified_email = excluded.link_by_verified_email,
         enabled = excluded.enabled, updated_at = now() returning ${columns}`,
      [
        newId(),
        projectId,
        provider,
        order.client_id,
        sealed,
        masked,
        order.issuer,
        order.scopes,
        order.link_by_verified_email,
        order.enabled,
      ],
    ),
  );
};

/** @throws {ServiceError} `not_found` */
export const deleteProvider = async (db: Queryable, projectId: string, provider: string): Promise<void> => {
  const gone = await db.query('delete from auth_providers where project_id = $1 and provider = $2 returning id', [
    projectId,
    provider,
  ]);
  if (gone.length === 0) throw notFound('provider');
};
