import type { Knex } from 'knex';

const signingKeys = `
-- What a project signs the tokens of its own users with. The newest signs, all of them verify.
create table project_signing_keys (
  -- The \`kid\` in tokens and in the published key set.
  id uuid primary key,
  project_id uuid not null references projects on delete cascade,
  public_jwk json not null,
  private_sealed bytea not null,
  created_at timestamptz not null default now()
);
create index project_signing_keys_project on project_signing_keys (project_id, created_at);
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(signingKeys);
};

export const down = (): Promise<void> => Promise.reject(new Error('Signing keys are not given up.'));
