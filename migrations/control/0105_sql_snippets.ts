import type { Knex } from 'knex';

/** Texts of SQL that people keep, and those that they ran. */
const snippets = `
create table sql_snippets (
  id uuid primary key,
  project_id uuid not null references projects on delete cascade,
  -- Null: the account is gone, and what it had shared stays.
  owner_id uuid references users on delete set null,
  name text not null,
  sql text not null,
  shared boolean not null default false,
  -- Goes up by one with each change; a change names the version that it replaces.
  version integer not null default 1,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create index sql_snippets_project on sql_snippets (project_id, id);
create index sql_snippets_owner on sql_snippets (owner_id);

create table sql_history (
  id uuid primary key,
  project_id uuid not null references projects on delete cascade,
  user_id uuid not null references users on delete cascade,
  sql text not null,
  duration_ms integer not null,
  -- Null: it failed.
  row_count bigint,
  -- Null: it succeeded.
  error text,
  ran_at timestamptz not null default now()
);
create index sql_history_project on sql_history (project_id, user_id, id);
create index sql_history_user on sql_history (user_id);

-- Private texts go with the account that they belong to.
create function delete_private_snippets() returns trigger language plpgsql as $$
begin
  delete from sql_snippets where owner_id = old.id and not shared;
  return old;
end $$;
create trigger delete_private_snippets before delete on users for each row execute function delete_private_snippets();
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(snippets);
};

export const down = (): Promise<void> => Promise.reject(new Error('Texts that people keep are not given up.'));
