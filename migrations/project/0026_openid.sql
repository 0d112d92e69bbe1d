-- What the project's OpenID provider keeps, in schema auth: browser sessions, interactions, grants, codes; and sign-ins of
-- its clients beside those of auth/v1.

select set_config('plinth.in_ddl', 'on', true);

do $migration$ begin
if not plinth.has_users() then return; end if;

create table auth.openid (
  model text not null,
  -- SHA-256 of the identifier: a dump of this table lets nobody in.
  id bytea not null check (octet_length(id) = 32),
  -- JSON, sealed with the project's data key: codes and cookies are in it.
  payload_sealed bytea not null check (octet_length(payload_sealed) <= 32768),
  grant_id text, uid text, user_code text,
  account_id uuid references auth.users on delete cascade,
  consumed_at timestamptz,
  expires_at timestamptz not null,
  primary key (model, id)
);
create index openid_grant on auth.openid (grant_id) where grant_id is not null;
create unique index openid_uid on auth.openid (uid) where uid is not null;
create unique index openid_user_code on auth.openid (user_code) where user_code is not null;
create index openid_account on auth.openid (account_id) where account_id is not null;
create index openid_expires on auth.openid (expires_at);
grant select, insert, update, delete on auth.openid to plinth_auth;

-- A sign-in of a client: the client, its grant, and what its tokens repeat. Null: of auth/v1.
alter table auth.sessions add column client_id uuid, add column grant_id text,
  add column openid jsonb check (pg_column_size(openid) <= 16384);
create index sessions_grant on auth.sessions (grant_id) where grant_id is not null;
create index sessions_client on auth.sessions (client_id) where client_id is not null;

-- As in 0022, and: of the client that asks. A token of another client is not one of its own, and the session lasts.
drop function auth.refresh(uuid, integer, integer, integer, boolean);
create function auth.refresh(a_session uuid, a_number integer, idle_s integer, absolute_s integer, single boolean, a_client uuid)
returns table (user_id uuid, number integer, rotated_at timestamptz, aal smallint, amr jsonb, grant_id text, openid jsonb,
  repeated boolean)
language plpgsql volatile set search_path = pg_catalog, pg_temp as $$
declare s auth.sessions;
begin
  select * into s from auth.sessions o where o.id = a_session for no key update;
  if not found or s.client_id is distinct from a_client then return; end if;
  if s.rotated_at < clock_timestamp() - make_interval(secs => idle_s)
    or s.created_at < clock_timestamp() - make_interval(secs => absolute_s) or s.not_after < clock_timestamp()
    or (single and s.client_id is null and exists (select from auth.sessions o
      where o.user_id = s.user_id and o.client_id is null and (o.created_at, o.id) > (s.created_at, s.id)))
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
  return query select s.user_id, s.refresh_number, s.rotated_at, s.aal, s.amr, s.grant_id, s.openid, refresh.repeated;
end $$;
revoke execute on function auth.refresh(uuid, integer, integer, integer, boolean, uuid) from public;
grant execute on function auth.refresh(uuid, integer, integer, integer, boolean, uuid) to plinth_auth;

-- As in 0023, and: a browser that is signed in to the provider is signed out as well.
create or replace function auth.end_sessions(a_user uuid, but uuid) returns void
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
  delete from auth.flow_codes f where f.user_id = a_user and f.used_at is null;
  delete from auth.openid o where o.account_id = a_user;
  delete from auth.sessions s where s.user_id = a_user and s.id is distinct from but
$$;
create or replace function auth.set_password(a_user uuid, a_password bytea, but uuid) returns void
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
  insert into auth.accounts as a (user_id, password_sealed, password_changed_at) values (a_user, a_password, now())
    on conflict (user_id) do update set password_sealed = excluded.password_sealed, password_changed_at = now(),
      new_email = null, new_email_half = null;
  delete from auth.one_time_tokens o where o.user_id = a_user;
  delete from auth.flow_codes f where f.user_id = a_user and f.used_at is null;
  delete from auth.openid o where o.account_id = a_user;
  delete from auth.sessions s where s.user_id = a_user and s.id is distinct from but
$$;
end $migration$;

select set_config('plinth.in_ddl', '', true);
