import type { Knex } from 'knex';

/** Feature flags of projects (domain/flags). */
const flags = `
-- A project's flags as a whole. Each change adds one to the version, and the lock of the row puts changes in order.
create table flag_sets (
  project_id uuid primary key references projects on delete cascade,
  version bigint not null default 0,
  -- Flags of all environments, and the bytes of their definitions and of segments.
  flags integer not null default 0,
  bytes bigint not null default 0,
  -- Deletions up to that version may be forgotten.
  forgotten_version bigint not null default 0
);

create table flag_environments (
  id uuid primary key,
  project_id uuid not null references flag_sets on delete cascade,
  name text not null,
  -- The version of the set at the last change that concerns this environment.
  version bigint not null,
  created_at timestamptz not null default now(),
  unique (project_id, name)
);
create trigger audit after insert or update or delete on flag_environments
  for each row execute function audit_change('flag_environment', 'version');

create table flags (
  id uuid primary key,
  project_id uuid not null references projects on delete cascade,
  environment_id uuid not null references flag_environments on delete cascade,
  key text not null,
  name text not null,
  flag_type text not null,
  is_enabled boolean not null,
  version integer not null,
  -- The fields of domain/flags/definition.ts, as they were written.
  definition json not null,
  -- Of the definition's text.
  fingerprint bytea not null,
  bytes integer not null,
  set_version bigint not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (environment_id, key)
);
create index flags_project on flags (project_id);
create index flags_changed on flags (environment_id, set_version);
-- The definition stands in flag_history: it can have a megabyte.
-- An import of 10,000 flags leaves one entry, for its environment.
create trigger audit after insert or update or delete on flags
  for each row when (current_setting('plinth.flags_at_once', true) is distinct from 'on') execute function audit_change('flag', 'definition', 'set_version', 'updated_at');

create table flag_history (
  project_id uuid not null references projects on delete cascade,
  environment_id uuid not null references flag_environments on delete cascade,
  key text not null,
  version integer not null,
  -- Null: the flag was deleted.
  definition json,
  changed_at timestamptz not null default clock_timestamp(),
  changed_by jsonb not null,
  set_version bigint not null,
  primary key (environment_id, key, version)
);
create index flag_history_deleted on flag_history (project_id, set_version) where definition is null;
create index flag_history_project on flag_history (project_id);

create table flag_segments (
  id uuid primary key,
  project_id uuid not null references flag_sets on delete cascade,
  key text not null,
  name text not null,
  conditions json,
  -- One key in each line.
  keys text,
  key_count integer not null,
  bytes integer not null,
  set_version bigint not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (project_id, key),
  check ((conditions is null) <> (keys is null))
);
create trigger audit after insert or update or delete on flag_segments
  for each row execute function audit_change('flag_segment', 'conditions', 'keys', 'set_version', 'updated_at');

create table flag_schedules (
  id uuid primary key,
  project_id uuid not null references projects on delete cascade,
  flag_id uuid not null references flags on delete cascade,
  at timestamptz not null,
  patch json not null,
  actor jsonb not null,
  status text not null default 'pending' check (status in ('pending', 'done', 'failed')),
  error text,
  created_at timestamptz not null default now(),
  done_at timestamptz
);
create index flag_schedules_due on flag_schedules (at) where status = 'pending';
create index flag_schedules_flag on flag_schedules (flag_id, at);
create index flag_schedules_project on flag_schedules (project_id);

-- Evaluations by day.
create table flag_stats (
  environment_id uuid not null references flag_environments on delete cascade,
  key text not null,
  date date not null,
  variant text not null,
  value text,
  count bigint not null,
  last_at timestamptz not null,
  primary key (environment_id, key, date, variant)
);
create index flag_stats_date on flag_stats (date);
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(flags);
};

export const down = (): Promise<void> =>
  Promise.reject(new Error('Applications may ask for these flags. Restore the backup of before instead.'));
