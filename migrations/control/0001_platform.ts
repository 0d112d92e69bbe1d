import type { Knex } from 'knex';

/** Accounts, organizations, projects, their keys and functions, jobs, and the audit log that no change can avoid. */
const up1 = `
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

/**
 * The audit log is written by triggers: a change of an audited table without an actor fails, so no code path can forget
 * it. Trigger arguments: the target type, then the columns that are secrets or machine state.
 */
const audit = `
create table audit_entries (
  id uuid primary key default gen_random_uuid(),
  org_id text not null,
  project_id uuid,
  actor jsonb not null,
  action text not null,
  target_type text not null,
  target_id text not null,
  before jsonb,
  after jsonb,
  ip text,
  user_agent text,
  request_id text,
  created_at timestamptz not null default clock_timestamp()
);
create index audit_entries_org on audit_entries (org_id, created_at desc, id);

create function audit_shorten(value jsonb) returns jsonb language sql immutable strict as $$
  select coalesce(jsonb_object_agg(key, case
    when jsonb_typeof(v) = 'string' and length(v #>> '{}') > 1000
      then to_jsonb('sha256:' || encode(sha256(convert_to(v #>> '{}', 'UTF8')), 'hex'))
    else v end), '{}')
  from jsonb_each(value) as each(key, v)
$$;

create function audit_change() returns trigger language plpgsql as $$
declare
  actor jsonb := nullif(current_setting('plinth.actor', true), '')::jsonb;
  wanted text := current_setting('plinth.action', true);
  kind text := tg_argv[0];
  hidden text[] := tg_argv[1:];
  old_row jsonb := case when tg_op <> 'INSERT' then to_jsonb(old) - hidden end;
  new_row jsonb := case when tg_op <> 'DELETE' then to_jsonb(new) - hidden end;
  row_now jsonb := coalesce(to_jsonb(new), to_jsonb(old));
  org text := case when kind = 'organization' then row_now ->> 'id' else row_now ->> 'org_id' end;
  project uuid := case when kind = 'project' then row_now ->> 'id' else row_now ->> 'project_id' end;
  changed text[];
begin
  if tg_op = 'UPDATE' then
    select array_agg(key) into changed from jsonb_each(new_row) where value is distinct from old_row -> key;
    if changed is null then return null; end if;
    select jsonb_object_agg(key, value) into old_row from jsonb_each(old_row) where key = any (changed);
    select jsonb_object_agg(key, value) into new_row from jsonb_each(new_row) where key = any (changed);
  end if;
  if actor is null then
    raise exception 'a change of % needs an actor', tg_table_name using errcode = 'PL001';
  end if;
  if org is null then select org_id into org from projects where id = project; end if;
  -- The organization or project went away in this very statement: its own entry tells of it.
  if org is null then return null; end if;
  insert into audit_entries
    (org_id, project_id, actor, action, target_type, target_id, before, after, ip, user_agent, request_id)
  values (
    org, project, actor - '{ip,user_agent,request_id}'::text[],
    case when wanted like kind || '.%' then wanted
      else kind || '.' || case tg_op when 'INSERT' then 'create' when 'UPDATE' then 'update' else 'delete' end end,
    kind, row_now ->> 'id', audit_shorten(old_row), audit_shorten(new_row),
    actor ->> 'ip', actor ->> 'user_agent', actor ->> 'request_id'
  );
  return null;
end $$;

create trigger audit after insert or update or delete on organizations
  for each row execute function audit_change('organization');
create trigger audit after insert or update or delete on members
  for each row execute function audit_change('member', 'invite_hash', 'user_id');
create trigger audit after insert or update or delete on projects
  for each row execute function audit_change('project', 'data_key', 'status', 'updated_at', 'retired_at', 'server_id', 'db_name');
create trigger audit after insert or update or delete on api_keys
  for each row execute function audit_change('api_key', 'hash');
create trigger audit after insert or update or delete on functions
  for each row execute function audit_change('function', 'env_sealed', 'compiled', 'updated_at', 'deployed_at');
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(up1);
  await knex.raw(audit);
};

export const down = (): Promise<void> => Promise.reject(new Error('The first migration cannot be undone.'));
