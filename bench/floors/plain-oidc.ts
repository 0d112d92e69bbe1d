import { createHash } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import { exportJWK, generateKeyPair } from 'jose';
import type { Adapter, AdapterPayload, Configuration } from 'oidc-provider';
import { Pool } from 'pg';
import { Provider } from '#domain/oauth/library.ts';

/**
 * The floor of the refresh grant: oidc-provider as its documentation sets it up, with an adapter for PostgreSQL, rotating
 * refresh tokens, and access tokens and id tokens of the same form and algorithm as ours.
 */
const pool = new Pool({ connectionString: process.env['DATABASE_URL'], max: 10 });
await pool.query(`drop schema if exists plain_oidc cascade; create schema plain_oidc;
  create table plain_oidc.payloads (model text, id text, payload jsonb not null, grant_id text, uid text,
    consumed_at timestamptz, expires_at timestamptz, primary key (model, id));
  create index on plain_oidc.payloads (grant_id) where grant_id is not null;
  create index on plain_oidc.payloads (uid) where uid is not null;`);

const hashed = (id: string): string => createHash('sha256').update(id).digest('base64url');

interface Row {
  readonly payload: AdapterPayload;
  readonly consumed: number | null;
}

const adapterOf = (model: string): Adapter => {
  const find = async (column: 'id' | 'uid', value: string): Promise<AdapterPayload | undefined> => {
    const { rows } = await pool.query<Row>({
      name: `find-${column}`,
      text: `select payload, extract(epoch from consumed_at)::int as consumed from plain_oidc.payloads
        where model = $1 and ${column} = $2`,
      values: [model, value],
    });
    const [row] = rows;
    return row && { ...row.payload, ...(row.consumed !== null && { consumed: row.consumed }) };
  };
  return {
    upsert: async (id, payload, expiresIn) => {
      await pool.query({
        name: 'upsert',
        text: `insert into plain_oidc.payloads values ($1, $2, $3, $4, $5, null, now() + make_interval(secs => $6))
          on conflict (model, id) do update set payload = excluded.payload, expires_at = excluded.expires_at`,
        values: [
          model,
          hashed(id),
          JSON.stringify(payload),
          payload.grantId ?? null,
          payload.uid ?? null,
          Number.isFinite(expiresIn) ? expiresIn : 86_400,
        ],
      });
    },
    find: (id) => find('id', hashed(id)),
    findByUid: (uid) => find('uid', uid),
    findByUserCode: () => Promise.resolve(undefined),
    consume: async (id) => {
      await pool.query({
        name: 'consume',
        text: 'update plain_oidc.payloads set consumed_at = now() where model = $1 and id = $2',
        values: [model, hashed(id)],
      });
    },
    destroy: async (id) => {
      await pool.query('delete from plain_oidc.payloads where model = $1 and id = $2', [model, hashed(id)]);
    },
    revokeByGrantId: async (grantId) => {
      await pool.query('delete from plain_oidc.payloads where grant_id = $1', [grantId]);
    },
  };
};

const audience = 'https://api.example';
const scope = 'openid profile email';
const client = { client_id: 'bench', client_secret: 'a secret of the benchmark' };
const account = { sub: 'somebody', email: 'somebody@example.com', email_verified: true };
const { privateKey } = await generateKeyPair('RS256', { extractable: true });

const configuration: Configuration = {
  adapter: adapterOf,
  jwks: { keys: [{ ...(await exportJWK(privateKey)), kid: 'bench', alg: 'RS256', use: 'sig' }] },
  clients: [
    {
      ...client,
      redirect_uris: ['https://app.example/callback'],
      grant_types: ['authorization_code', 'refresh_token'],
      token_endpoint_auth_method: 'client_secret_post',
      scope: `${scope} offline_access`,
    },
  ],
  claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name'] },
  conformIdTokenClaims: false,
  rotateRefreshToken: true,
  ttl: { AccessToken: 3600, IdToken: 3600, RefreshToken: 86_400, Grant: 86_400, Session: 86_400, Interaction: 600 },
  features: {
    devInteractions: { enabled: false },
    dPoP: { enabled: false },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => audience,
      useGrantedResource: () => true,
      getResourceServerInfo: () => ({
        scope,
        audience,
        accessTokenTTL: 3600,
        accessTokenFormat: 'jwt',
        jwt: { sign: { alg: 'RS256' } },
      }),
    },
  },
  findAccount: (_ctx, id) => ({ accountId: id, claims: () => ({ ...account, sub: id }) }),
};

const provider = new Provider('http://127.0.0.1:1', configuration);

/** A refresh token, as an exchange of a code leaves it. */
const newRefreshToken = async (): Promise<string> => {
  const grant = new provider.Grant({ accountId: account.sub, clientId: client.client_id });
  grant.addOIDCScope(scope);
  grant.addResourceScope(audience, scope);
  const grantId = await grant.save();
  const found = await provider.Client.find(client.client_id);
  const token = new provider.RefreshToken({
    accountId: account.sub,
    client: found,
    grantId,
    scope,
    resource: audience,
    gty: 'authorization_code',
    authTime: Math.floor(Date.now() / 1000),
    amr: ['pwd'],
    rotations: 0,
  } as never);
  return token.save();
};

const server = provider.listen(0, '127.0.0.1', () => {
  process.send?.({ type: 'ready', port: (server.address() as AddressInfo).port });
});
process.on('message', (message) => {
  if (message === 'token') void newRefreshToken().then((token) => process.send?.({ token, ...client }));
});
process.once('SIGTERM', () => process.exit(0));
process.once('disconnect', () => process.exit(0));
