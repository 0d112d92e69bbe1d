import type { Adapter, AdapterPayload } from 'oidc-provider';
import type { Plan } from '#domain/projects/store.ts';
import { hashToken } from '#lib/ids.ts';
import { type KnownClient, keepsSecret } from './clients.ts';
import { InvalidGrant } from './library.ts';
import type { Issuer, OAuthDeps } from './oauth.ts';
import { hasOwnScheme } from './redirect-uris.ts';

/*
 * The storage of oidc-provider, in the project's database. Rows are found by the SHA-256 of their identifier and sealed with
 * the project's data key: neither the owner of the database nor a dump of it has a code or a cookie of anybody.
 */

type StoreDeps = Pick<OAuthDeps, 'clients' | 'endUsers'>;

const aboutRow = (model: string, hash: Buffer): string => `openid:${model}:${hash.toString('hex')}`;

const uuidForm = /^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/;

/**
 * Rows of one model that strangers may make in a project without signing in. Beyond that a new one ends the oldest: one
 * address makes 300 requests a minute, so that a user still has a quarter of an hour, where refusing would lock everybody out.
 */
const maxOfStrangers = { free: 5000, pro: 20_000, enterprise: 100_000 } as const satisfies Record<Plan, number>;

/** Rows of one model that a user has: a new one ends the oldest beyond that, as with sign-ins. */
const maxOfAccount = 100;

/** Each write takes some expired rows along, so that they do not pile up until the daily sweep. */
const upsertSql = `
  with expired as (
    delete from auth.openid where (model, id) in (
      select model, id from auth.openid where expires_at < now() - interval '1 hour' limit 3 for update skip locked)),
  strangers as (select count(*) as n from (
    select from auth.openid where $7::uuid is null and $1 in ('Interaction', 'Session', 'DeviceCode')
      and model = $1 and account_id is null and expires_at > now() limit $9) o),
  oldest as (
    delete from auth.openid where (model, id) in (
      select o.model, o.id from auth.openid o
      where (select n from strangers) >= $9 and o.model = $1 and o.account_id is null and o.id <> $2
      order by o.expires_at limit 2 for update skip locked)),
  earlier as (
    delete from auth.openid where (model, id) in (
      select o.model, o.id from auth.openid o where o.account_id = $7 and o.model = $1 and o.id <> $2
      order by o.expires_at desc offset ${maxOfAccount - 1} limit 10))
  insert into auth.openid as o (model, id, payload_sealed, grant_id, uid, user_code, account_id, expires_at)
  values ($1, $2, $3, $4, $5, $6, (select u.id from auth.users u where u.id = $7), now() + make_interval(secs => $8))
  on conflict (model, id) do update set payload_sealed = excluded.payload_sealed, grant_id = excluded.grant_id,
    uid = excluded.uid, user_code = excluded.user_code, account_id = excluded.account_id,
    expires_at = excluded.expires_at`;

interface Row {
  readonly id: Buffer;
  readonly payload_sealed: Buffer;
  readonly consumed: number | null;
}

const rowColumns = 'id, payload_sealed, extract(epoch from consumed_at)::float8 as consumed';

/** Without an end of their own: the longest that anything lasts. */
const yearSeconds = 365 * 86_400;

const rowsOf = ({ endUsers }: StoreDeps, { project }: Issuer, model: string): Adapter => {
  const { authDb } = endUsers;
  const sealer = endUsers.sealer(project);
  const opened = ({ id, payload_sealed: sealed, consumed }: Row): AdapterPayload => ({
    ...(JSON.parse(sealer.open(aboutRow(model, id), sealed)) as AdapterPayload),
    ...(consumed !== null && { consumed: Math.floor(consumed) }),
  });
  const findBy = async (column: 'id' | 'uid' | 'user_code', value: unknown): Promise<AdapterPayload | undefined> => {
    const [row] = await authDb.secrets<Row>(
      project.id,
      `select ${rowColumns} from auth.openid where model = $1 and ${column} = $2 and expires_at > now()`,
      [model, value],
    );
    return row && opened(row);
  };
  const destroyBy = async (where: string, values: readonly unknown[]): Promise<void> => {
    await authDb.secrets(project.id, `delete from auth.openid where ${where}`, values);
  };
  return {
    upsert: async (id, payload, expiresIn) => {
      const hash = hashToken(id);
      const account = payload.accountId;
      await authDb.secrets(project.id, upsertSql, [
        model,
        hash,
        sealer.seal(aboutRow(model, hash), JSON.stringify(payload)),
        payload.grantId ?? null,
        model === 'Session' ? (payload.uid ?? null) : null,
        payload.userCode ?? null,
        account !== undefined && uuidForm.test(account) ? account : null,
        Number.isFinite(expiresIn) ? expiresIn : yearSeconds,
        maxOfStrangers[project.plan],
      ]);
    },
    find: (id) => findBy('id', hashToken(id)),
    findByUid: (uid) => findBy('uid', uid),
    findByUserCode: (code) => findBy('user_code', code),
    consume: async (id) => {
      const [row] = await authDb.secrets(
        project.id,
        `update auth.openid set consumed_at = now() where model = $1 and id = $2 and consumed_at is null returning 1`,
        [model, hashToken(id)],
      );
      if (row !== undefined) return;
      // One of several at once gets through; the others mean that the code was copied.
      const payload = await findBy('id', hashToken(id));
      if (payload?.grantId) await revokeGrant({ endUsers }, project.id, payload.grantId);
      throw new InvalidGrant('the code was used');
    },
    destroy: (id) => destroyBy('model = $1 and id = $2', [model, hashToken(id)]),
    // The library asks it of each model; one time is enough, and access tokens are always among them.
    revokeByGrantId: async (grantId) => {
      if (model === 'AccessToken') await revokeGrant({ endUsers }, project.id, grantId);
    },
  };
};

/** Ends what a user allowed a client, and everything that was obtained by it. */
const revokeGrant = async (
  { endUsers: { authDb } }: Pick<StoreDeps, 'endUsers'>,
  projectId: string,
  grantId: string,
): Promise<void> => {
  // First the grant: an exchange that is under way locks it, and its sign-in is there once it lets go.
  await authDb.secrets(projectId, `delete from auth.openid where model = 'Grant' and id = $1`, [hashToken(grantId)]);
  await authDb.secrets(
    projectId,
    `with s as (delete from auth.sessions where grant_id = $1)
     -- A code that was used stays, so that a second use of it is noticed.
     delete from auth.openid where grant_id = $1 and consumed_at is null`,
    [grantId],
  );
};

/** The hashes that a client's secret is compared with, and until when the former one counts. */
const secretText = ({ secret_hash, former_secret_hash, former_secret_until }: KnownClient): string =>
  [secret_hash?.toString('hex'), former_secret_hash?.toString('hex'), former_secret_until?.getTime()].join(':');

/** A client as oidc-provider knows it. */
const metadataOf = (client: KnownClient): AdapterPayload => {
  const grants = client.grant_types.includes('authorization_code')
    ? [...new Set([...client.grant_types, 'refresh_token'])]
    : [...client.grant_types];
  const isNative = client.application_type === 'native' || client.redirect_uris.some(hasOwnScheme);
  return {
    client_id: client.client_id,
    client_name: client.name,
    application_type: isNative ? 'native' : 'web',
    redirect_uris: [...client.redirect_uris],
    post_logout_redirect_uris: [...client.post_logout_redirect_uris],
    grant_types: grants,
    response_types: client.redirect_uris.length > 0 && grants.includes('authorization_code') ? ['code'] : [],
    scope: [...new Set([...client.scopes, 'offline_access'])].join(' '),
    id_token_signed_response_alg: client.id_token_signed_response_alg,
    token_endpoint_auth_method: keepsSecret(client) ? 'client_secret_basic' : 'none',
    ...(keepsSecret(client) && { client_secret: secretText(client) }),
    ...(client.backchannel_logout_uri !== null && {
      backchannel_logout_uri: client.backchannel_logout_uri,
      backchannel_logout_session_required: true,
    }),
  };
};

const refuse = (): Promise<never> => Promise.reject(new Error('clients are kept in the control database'));

/** Clients are in the control database. */
const clientsOf = ({ clients }: StoreDeps, { project }: Issuer): Adapter => ({
  find: async (id) => {
    const client = await clients.of(project.id, id);
    return client && metadataOf(client);
  },
  upsert: refuse,
  findByUid: refuse,
  findByUserCode: refuse,
  consume: refuse,
  destroy: refuse,
  revokeByGrantId: refuse,
});

/** The storage of a project's provider for one model. */
export const storeOf = (deps: StoreDeps, issuer: Issuer, model: string): Adapter =>
  model === 'Client' ? clientsOf(deps, issuer) : rowsOf(deps, issuer, model);
