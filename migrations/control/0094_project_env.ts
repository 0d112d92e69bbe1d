import type { Knex } from 'knex';

/** Variables that all functions of a project share. One row for each project that has ever had one. */
const projectEnv = `
create table project_env (
  id uuid primary key default uuid_v7(),
  project_id uuid not null unique references projects on delete cascade,
  -- The whole of them, as JSON; null: there are none just now.
  vars_sealed bytea,
  -- Counts the changes. The statement that starts a run reads it, so that no run uses what a worker remembers too long.
  version bigint not null default 1,
  -- For the audit log: it says which names there were and are, and nothing of their values.
  names text[] not null default '{}',
  updated_at timestamptz not null default now()
);
create trigger audit after insert or update or delete on project_env
  for each row execute function audit_change('project_env', 'vars_sealed', 'updated_at');
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(projectEnv);
};

export const down = async (knex: Knex): Promise<void> => {
  await knex.raw('drop table project_env');
};
