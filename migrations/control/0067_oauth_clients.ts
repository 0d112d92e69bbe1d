import type { Knex } from 'knex';

/** Clients of projects' OpenID providers, and signing keys of two algorithms that can be rotated. */
export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(`
    create table oauth_clients (
      -- The client_id.
      id uuid primary key,
      project_id uuid not null references projects on delete cascade,
      name text not null,
      application_type text not null check (application_type in ('web', 'native', 'spa')),
      redirect_uris jsonb not null check (jsonb_typeof(redirect_uris) = 'array'),
      post_logout_redirect_uris jsonb not null default '[]' check (jsonb_typeof(post_logout_redirect_uris) = 'array'),
      backchannel_logout_uri text,
      grant_types jsonb not null check (jsonb_typeof(grant_types) = 'array'),
      scopes jsonb not null check (jsonb_typeof(scopes) = 'array'),
      id_token_signed_response_alg text not null default 'RS256'
        check (id_token_signed_response_alg in ('RS256', 'ES256')),
      -- Null: a client that cannot keep a secret.
      secret_hash bytea,
      -- The secret before the last change, which works for a while.
      former_secret_hash bytea, former_secret_until timestamptz,
      created_at timestamptz not null default now(),
      updated_at timestamptz not null default now()
    );
    create index oauth_clients_project on oauth_clients (project_id, created_at, id);
    create trigger audit after insert or update or delete on oauth_clients
      for each row execute function audit_change('oauth_client', 'secret_hash', 'former_secret_hash', 'updated_at');

    -- RS256 was the only one. A key that was rotated out verifies until it expires.
    alter table project_signing_keys add column alg text not null default 'RS256' check (alg in ('RS256', 'ES256'));
    alter table project_signing_keys add column expires_at timestamptz;
  `);
};

export const down = (): Promise<void> =>
  Promise.reject(new Error('Clients may be in use. Restore the backup of before instead.'));
