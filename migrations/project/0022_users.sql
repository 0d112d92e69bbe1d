-- Users of the project and what their sign-in needs, in schema auth (decision 054). The project's owner may read
-- auth.users, refer to it and put triggers on it; nothing else here is anybody's but the platform's.

select set_config('plinth.in_ddl', 'on', true);

-- Three roles of the whole server. plinth_users_owner owns auth.users and nothing else: PostgreSQL checks foreign keys as
-- the owner of the table that they refer to, and with it runs casts of the referring project. plinth_users writes
-- auth.users, and so runs the project's triggers on it; it can read nothing else. plinth_auth has the secrets, and never
-- writes auth.users.
do $$ declare name text; begin
  foreach name in array array['plinth_users_owner', 'plinth_users', 'plinth_auth'] loop
    begin
      if not exists (select from pg_roles where rolname = name) then
        execute format('create role %I nologin noinherit', name);
      end if;
    exception when duplicate_object or unique_violation then null; -- Another database of this server, at the same time.
    end;
  end loop;
  if not (select rolsuper from pg_roles where rolname = current_user) then
    grant plinth_users_owner to current_user;
  end if;
end $$;

-- As in 0016, and: the three roles above.
create or replace function plinth.role_is_visible(role oid) returns boolean language sql stable
  return role < 16384 or has_database_privilege(role, current_database(), 'connect')
    or role in (to_regrole('anon'), to_regrole('authenticated'), to_regrole('plinth_events'), to_regrole('plinth_triggers'),
      to_regrole('plinth_users_owner'), to_regrole('plinth_users'), to_regrole('plinth_auth'))
    or has_schema_privilege('plinth', 'create');

-- Events of the platform's own (op EVENT, the name in table_name) are subscribed to as writes to tables are.
alter table plinth.subscriptions drop constraint subscriptions_op_check;
alter table plinth.subscriptions add constraint subscriptions_op_check
  check (op in ('INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'EVENT'));

do $migration$ begin
-- A project that had a schema auth of its own before 0009 keeps it, and has no users here.
if (select n.nspowner from pg_namespace n where n.nspname = 'auth')
  is distinct from (select n.nspowner from pg_namespace n where n.nspname = 'plinth') then
  raise notice 'the project has a schema auth of its own; it has no users';
  return;
end if;

create table auth.users (
  id uuid primary key,
  -- Lower case. Null: anonymous, or an upstream provider that tells none.
  email text unique check (email = lower(email) and octet_length(email) <= 320),
  email_confirmed_at timestamptz,
  -- Set by the user, in tokens, never to be trusted by policies; and set by the project alone.
  raw_user_meta_data jsonb not null default '{}'
    check (jsonb_typeof(raw_user_meta_data) = 'object' and pg_column_size(raw_user_meta_data) <= 65536),
  raw_app_meta_data jsonb not null default '{}'
    check (jsonb_typeof(raw_app_meta_data) = 'object' and pg_column_size(raw_app_meta_data) <= 65536),
  is_anonymous boolean not null default false,
  invited_at timestamptz,
  banned_until timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create index users_created_at on auth.users (created_at, id);
create index users_email_prefix on auth.users (email text_pattern_ops);
alter table auth.users enable row level security;
-- A role that is granted something by mistake still sees no row: only the platform's two roles have a policy.
create policy users_platform on auth.users to plinth_users, plinth_auth using (true) with check (true);
revoke all on auth.users from public;
grant select, insert, update, delete on auth.users to plinth_users;
grant select on auth.users to plinth_auth;

-- The part of a user that only the platform reads.
create table auth.accounts (
  user_id uuid primary key references auth.users on delete cascade,
  -- The PHC string, sealed with the project's data key; null: no password.
  password_sealed bytea check (octet_length(password_sealed) <= 1024),
  password_changed_at timestamptz,
  last_sign_in_at timestamptz
);

create table auth.identities (
  id uuid primary key,
  user_id uuid not null references auth.users on delete cascade,
  provider text not null check (provider ~ '^[a-z][a-z0-9_-]{0,62}$'),
  -- The provider's name for the user; `email`: the user's id.
  subject text not null check (octet_length(subject) <= 512),
  data jsonb not null default '{}' check (pg_column_size(data) <= 65536),
  email text,
  created_at timestamptz not null default now(), updated_at timestamptz not null default now(), last_sign_in_at timestamptz,
  unique (provider, subject)
);
create index identities_user on auth.identities (user_id);
create index identities_email on auth.identities (email) where email is not null;

-- A sign-in: a family of refresh tokens. They are derived from id and number with the project's data key; none is stored.
create table auth.sessions (
  id uuid primary key,
  user_id uuid not null references auth.users on delete cascade,
  -- The number of the token that may be used next, and when the one before it was.
  refresh_number integer not null default 0,
  rotated_at timestamptz not null default now(),
  aal smallint not null default 1 check (aal in (1, 2)),
  -- [{"method","timestamp"}], newest last.
  amr jsonb not null,
  -- Null: the default of the settings at each refresh.
  not_after timestamptz,
  ip text, user_agent text check (octet_length(user_agent) <= 1200),
  created_at timestamptz not null default now()
);
create index sessions_user on auth.sessions (user_id);
create index sessions_rotated on auth.sessions (rotated_at);
-- Failures, counted before they are made (decision 037), and mails to an address. By the SHA-256 of what is counted.
create table auth.counts (
  key bytea primary key check (octet_length(key) = 32),
  number integer not null,
  began_at timestamptz not null default now()
);
create index counts_began on auth.counts (began_at);

grant select, insert, update, delete on auth.accounts, auth.identities, auth.sessions, auth.counts to plinth_auth;

-- Leaves an event, if anybody subscribes to it, in the transaction of the change.
create function auth.emit(event text, data json) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if event !~ '^(auth\.(signup|login|password_reset)|user\.(created|updated|deleted))$' then
    raise exception 'there is no such event' using errcode = '22023';
  end if;
  if not plinth.is_subscribed(event, 'EVENT') then return; end if;
  if octet_length(data::text) > 1048576 then raise exception 'the event is too large' using errcode = '22023'; end if;
  insert into plinth.outbox (table_name, op, row) values (event, 'EVENT', data::text);
  if currval('plinth.outbox_id_seq') > pg_sequence_last_value('plinth.outbox_checked') then perform plinth.check_backlog(); end if;
end $$;

-- Adds the account and the identity of a new user, for a role that may not read them. Fails when they exist.
create function auth.put_account(a_user uuid, a_password bytea, a_provider text, a_subject text, a_data jsonb, a_email text)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into auth.accounts (user_id, password_sealed, password_changed_at)
    values (a_user, a_password, case when a_password is not null then now() end);
  if a_provider is not null then
    insert into auth.identities (id, user_id, provider, subject, data, email)
      values (gen_random_uuid(), a_user, a_provider, a_subject, a_data, a_email);
  end if;
end $$;

-- Sets the address of a user at their identity.
create function auth.put_email(a_user uuid, a_email text, verified boolean) returns void
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
  update auth.identities i set email = a_email, updated_at = now(),
    data = i.data || json_build_object('email', a_email, 'email_verified', verified)::jsonb
  where i.user_id = a_user and i.provider = 'email'
$$;

-- Ends all sessions of a user but one.
create function auth.end_sessions(a_user uuid, but uuid) returns void
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
  delete from auth.sessions s where s.user_id = a_user and s.id is distinct from but
$$;

-- Sets a new password, and ends all sessions of the user but one.
create function auth.set_password(a_user uuid, a_password bytea, but uuid) returns void
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
  insert into auth.accounts as a (user_id, password_sealed, password_changed_at) values (a_user, a_password, now())
    on conflict (user_id) do update set password_sealed = excluded.password_sealed, password_changed_at = now();
  delete from auth.sessions s where s.user_id = a_user and s.id is distinct from but
$$;

-- Trades the token of that number (its signature was checked) for the next one: its number and when it was made; no row
-- when the session has ended, or ends by this. The row is locked before it is judged, so that of any number of tries at
-- once one rotates and the others see what it did.
create function auth.refresh(a_session uuid, a_number integer, idle_s integer, absolute_s integer, single boolean)
returns table (user_id uuid, number integer, rotated_at timestamptz, aal smallint, amr jsonb, repeated boolean)
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare s auth.sessions;
begin
  select * into s from auth.sessions o where o.id = a_session for no key update;
  if not found then return; end if;
  if s.rotated_at < clock_timestamp() - make_interval(secs => idle_s)
    or s.created_at < clock_timestamp() - make_interval(secs => absolute_s) or s.not_after < clock_timestamp()
    or (single and exists (select from auth.sessions o where o.user_id = s.user_id and (o.created_at, o.id) > (s.created_at, s.id)))
    -- Used before, and either long ago or its successor was used as well: it was copied. A number that was not given out
    -- yet is from before this database was restored.
    or a_number < s.refresh_number - 1 or a_number > s.refresh_number
    or (a_number = s.refresh_number - 1 and s.rotated_at < clock_timestamp() - interval '30 seconds') then
    delete from auth.sessions o where o.id = a_session;
    return;
  end if;
  repeated := a_number = s.refresh_number - 1;
  if not repeated then
    update auth.sessions o set refresh_number = o.refresh_number + 1, rotated_at = date_trunc('milliseconds', clock_timestamp())
      where o.id = a_session returning o.refresh_number, o.rotated_at into s.refresh_number, s.rotated_at;
  end if;
  return query select s.user_id, s.refresh_number, s.rotated_at, s.aal, s.amr, refresh.repeated;
end $$;

-- A role with the right to create a trigger on a table may not drop it: only the table's owner may.
create function auth.drop_trigger(trigger_name name) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if starts_with(trigger_name::text, 'plinth_') then raise exception 'that trigger is the platform''s' using errcode = '42501'; end if;
  execute format('drop trigger %I on auth.users', trigger_name);
end $$;

revoke execute on all functions in schema auth from public;
grant execute on function auth.uid(), auth.jwt(), auth.role(), auth.email() to public;
grant execute on function auth.emit(text, json) to plinth_users, plinth_auth;
grant execute on function auth.put_account(uuid, bytea, text, text, jsonb, text), auth.end_sessions(uuid, uuid),
  auth.set_password(uuid, bytea, uuid), auth.put_email(uuid, text, boolean) to plinth_users;
grant execute on function auth.end_sessions(uuid, uuid), auth.refresh(uuid, integer, integer, integer, boolean)
  to plinth_auth;
-- The new owner of a function must be able to create one there, unless a superuser hands it over.
if not (select rolsuper from pg_roles where rolname = current_user) then grant create on schema auth to plinth_users_owner; end if;
alter function auth.drop_trigger(name) owner to plinth_users_owner;
alter table auth.users owner to plinth_users_owner;
if not (select rolsuper from pg_roles where rolname = current_user) then revoke create on schema auth from plinth_users_owner; end if;
end $migration$;

-- Whether auth.users is the platform's: not in a project that has a schema auth of its own.
create function plinth.has_users() returns boolean language sql stable set search_path = pg_catalog, pg_temp as $$
  select exists (select from pg_class c where c.oid = to_regclass('auth.users') and c.relowner = to_regrole('plinth_users_owner'))
$$;

create function plinth.grant_users() returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
declare owner name := (select r.name from plinth.roles r where r.kind = 'owner');
begin
  if not plinth.has_users() or owner is null then return; end if;
  execute format('grant select, references, trigger on auth.users to %I', owner);
  execute format('grant execute on function auth.drop_trigger(name) to %I', owner);
  execute format('drop policy if exists users_owner on auth.users');
  execute format('create policy users_owner on auth.users for select to %I using (true)', owner);
end $$;

-- Foreign keys to auth.users have a column of type uuid and no other: with a type of the project's that has an implicit
-- cast to uuid, the cast would run as the owner of auth.users.
create function plinth.check_references() returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
declare bent record;
begin
  if not plinth.has_users() then return; end if;
  select c.conrelid::regclass as relation into bent from pg_constraint c
    where c.contype = 'f' and c.confrelid = to_regclass('auth.users') and exists (
      select from unnest(c.conkey) k join pg_attribute a on a.attrelid = c.conrelid and a.attnum = k
      where (select case when t.typtype = 'd' then t.typbasetype else t.oid end from pg_type t where t.oid = a.atttypid)
        not in ('uuid'::regtype, 'text'::regtype))
    limit 1;
  if found then
    raise exception '% refers to auth.users by a column that is no uuid', bent.relation using errcode = '42804';
  end if;
end $$;
insert into plinth.ddl_hooks (name, position) values ('check_references', 5);

-- As in 0014, and: the rights of the owner on auth.users.
create or replace function plinth.set_roles(kinds text[], names name[]) returns void
language plpgsql set plinth.in_ddl = 'on' set search_path = pg_catalog, pg_temp as $$
declare owner name;
begin
  perform plinth.make_room();
  insert into plinth.roles select kind, name from unnest(kinds, names) as given (kind, name)
    on conflict (kind) do update set name = excluded.name;
  perform plinth.grant_schema(oid) from pg_namespace;
  perform plinth.set_counting(name) from plinth.roles where kind = 'service';
  select r.name into owner from plinth.roles r
    where r.kind = 'owner' and pg_get_viewdef('pg_catalog.pg_roles'::regclass) ~ 'role_is_visible';
  if owner is not null then execute format('grant select on pg_catalog.pg_roles to %I', owner); end if;
  perform plinth.grant_users();
  perform plinth.attach_tables();
end $$;
revoke execute on function plinth.has_users(), plinth.grant_users(), plinth.check_references() from public;

select set_config('plinth.in_ddl', '', true);
