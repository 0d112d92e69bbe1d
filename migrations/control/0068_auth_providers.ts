import type { Knex } from 'knex';

/** Other providers that the users of projects' applications sign in with. */
export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(`
    create table auth_providers (
      id uuid primary key,
      project_id uuid not null references projects on delete cascade,
      provider text not null check (provider ~ '^[a-z][a-z0-9_-]{0,62}$'),
      client_id text not null,
      -- Sealed with the project's data key.
      secret_sealed bytea not null,
      masked_secret text not null,
      -- Null: the provider's own.
      issuer text,
      -- Separated by spaces; null: the usual ones.
      scopes text,
      link_by_verified_email boolean not null,
      enabled boolean not null,
      created_at timestamptz not null default now(),
      updated_at timestamptz not null default now(),
      unique (project_id, provider)
    );
    create trigger audit after insert or update or delete on auth_providers
      for each row execute function audit_change('auth_provider', 'secret_sealed', 'updated_at');
  `);
};

export const down = (): Promise<void> =>
  Promise.reject(new Error('Users may sign in with these. Restore the backup of before instead.'));
