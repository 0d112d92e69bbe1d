import type { Knex } from 'knex';

/** Accounts, organizations, projects, their keys and functions, and jobs. */
const tables = `
create table platform_settings (
  name text primary key,
  value bytea not null
);

create table database_servers (
  id uuid primary key,
  name text not null unique,
  -- Null: the server that DATABASE_URL names, so that its password lives in one place.
  url_sealed bytea,
  accepts_projects boolean not null default true,
  created_at timestamptz not null default now()
);
insert into database_servers (id, name) values ('00000000-0000-7000-8000-000000000001', 'default');

create table users (
  id uuid primary key,
  email text not null,
  full_name text,
  avatar_url text,
  password_hash text not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create unique index users_email_key on users (lower(email));

create table sign_ins (
  id uuid primary key,
  user_id uuid not null references users on delete cascade,
  ip text,
  user_agent text,
  created_at timestamptz not null default now(),
  ended_at timestamptz
);
create index sign_ins_user on sign_ins (user_id);

-- Access and refresh tokens of a sign-in. A refresh token is used once; its second use ends the sign-in.
create table sign_in_tokens (
  hash bytea primary key,
  sign_in_id uuid not null references sign_ins on delete cascade,
  kind text not null check (kind in ('access', 'refresh')),
  expires_at timestamptz not null,
  used_at timestamptz
);
create index sign_in_tokens_sign_in on sign_in_tokens (sign_in_id);
create index sign_in_tokens_expiry on sign_in_tokens (expires_at);

create table password_resets (
  hash bytea primary key,
  user_id uuid not null references users on delete cascade,
  expires_at timestamptz not null
);
create index password_resets_user on password_resets (user_id);

-- Mail of the platform itself that waits to be sent. The text holds links with tokens, so it is sealed.
create table platform_mail (
  id uuid primary key,
  recipient text not null,
  subject text not null,
  body_sealed bytea not null,
  created_at timestamptz not null default now()
);
create index platform_mail_created on platform_mail (created_at);

create table organizations (
  id text primary key check (id ~ '^[a-z][a-z0-9]{15}$'),
  name text not null,
  -- The user whose own organization this is.
  own_of uuid unique references users on delete set null,
  created_at timestamptz not null default now()
);

-- A pending member is an invite: its token is kept as a hash and dies with acceptance.
create table members (
  id uuid primary key,
  org_id text not null references organizations on delete cascade,
  user_id uuid references users on delete cascade,
  email text not null,
  role text not null check (role in ('viewer', 'developer', 'admin', 'owner')),
  status text not null check (status in ('pending', 'active')),
  invite_hash bytea unique,
  invite_expires_at timestamptz,
  created_at timestamptz not null default now(),
  check ((status = 'active') = (user_id is not null))
);
create unique index members_org_email_key on members (org_id, lower(email));
create unique index members_org_user_key on members (org_id, user_id);
create index members_user on members (user_id);

create table projects (
  id uuid primary key,
  ref text not null unique check (ref ~ '^[a-z][a-z0-9]{19}$'),
  org_id text not null references organizations,
  server_id uuid not null references database_servers,
  name text not null,
  slug text not null,
  plan text not null check (plan in ('free', 'pro', 'enterprise')),
  status text not null check (status in ('creating', 'active', 'paused', 'deleting', 'failed')),
  db_name text not null,
  data_key bytea not null,
  created_by uuid references users on delete set null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  deleted_at timestamptz,
  -- When its database was locked and renamed. The row goes when the database is dropped.
  retired_at timestamptz
);
create unique index projects_org_slug_key on projects (org_id, slug) where deleted_at is null;
create index projects_org on projects (org_id);
create index projects_server on projects (server_id);
create index projects_created_by on projects (created_by);
create index projects_deleted on projects (deleted_at) where deleted_at is not null;

create table project_roles (
  project_id uuid not null references projects on delete cascade,
  kind text not null check (kind in ('owner', 'api', 'service', 'reader')),
  role_name text not null unique,
  password_sealed bytea not null,
  primary key (project_id, kind)
);

create table api_keys (
  id uuid primary key,
  project_id uuid not null references projects on delete cascade,
  name text not null,
  kind text not null check (kind in ('secret', 'publishable')),
  hash bytea not null unique,
  prefix text not null,
  last_four text not null,
  expires_at timestamptz,
  created_at timestamptz not null default now()
);
create index api_keys_project on api_keys (project_id);

create table functions (
  id uuid primary key,
  project_id uuid not null references projects on delete cascade,
  slug text not null,
  name text not null,
  language text not null check (language in ('javascript', 'python')),
  entry_point text not null,
  code text not null,
  compiled text not null,
  timeout_ms integer not null,
  memory_mb integer not null,
  env_sealed bytea,
  version integer not null,
  -- When and by whom the present version was made.
  deployed_at timestamptz not null default now(),
  created_by uuid references users on delete set null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create unique index functions_project_slug_key on functions (project_id, slug);
create index functions_created_by on functions (created_by);

-- What a function was before each change. The present version is in functions.
create table function_versions (
  function_id uuid not null references functions on delete cascade,
  version integer not null,
  entry_point text not null,
  code text not null,
  compiled text not null,
  timeout_ms integer not null,
  memory_mb integer not null,
  env_sealed bytea,
  created_by uuid references users on delete set null,
  created_at timestamptz not null,
  primary key (function_id, version)
);
create index function_versions_created_by on function_versions (created_by);

-- One row per accepted job of any kind, written before Redis hears of it. data and result are opaque JSON text, so that
-- NUL and lone surrogates survive. No foreign key to projects: its row lock would be taken by every accepted job.
create table jobs (
  id uuid primary key,
  project_id uuid not null,
  type text not null,
  status text not null check (status in ('queued', 'running', 'succeeded', 'failed', 'cancelled', 'expired', 'dead')),
  data text not null,
  result text,
  error_code text,
  error_message text,
  progress integer,
  -- How often workers have begun it, and the latest of these starts.
  attempt integer not null default 0,
  run_id uuid,
  max_attempts integer not null default 1,
  request_id text not null,
  created_at timestamptz not null default now(),
  started_at timestamptz,
  finished_at timestamptz
);
create index jobs_project on jobs (project_id, created_at desc);
create index jobs_waiting on jobs (created_at) where status = 'queued';

-- Answers to repeated requests. status is null while the answer still hangs on the job.
create table idempotency_keys (
  scope text not null,
  key text not null,
  fingerprint bytea not null,
  job_id uuid,
  status integer,
  body text,
  created_at timestamptz not null default now(),
  primary key (scope, key)
);
create index idempotency_keys_created on idempotency_keys (created_at);
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(tables);
};

export const down = (): Promise<void> => Promise.reject(new Error('The first migration cannot be undone.'));
