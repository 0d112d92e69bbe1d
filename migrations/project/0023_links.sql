-- Links and codes in mails to users, codes of the PKCE flow, and changes of the e-mail address (decision 056).

select set_config('plinth.in_ddl', 'on', true);

do $migration$ begin
if not plinth.has_users() then return; end if;

alter table auth.accounts
  add column new_email text check (new_email = lower(new_email) and octet_length(new_email) <= 320),
  -- Both addresses confirm a change: which of them has.
  add column new_email_half text check (new_email_half in ('current', 'new'));

-- One of each kind for a user: a newer one ends the older.
create table auth.one_time_tokens (
  user_id uuid not null references auth.users on delete cascade,
  kind text not null
    check (kind in ('signup', 'invite', 'magiclink', 'recovery', 'email_change_current', 'email_change_new')),
  -- SHA-256 of 256 random bits, which the link holds.
  token_hash bytea not null unique check (octet_length(token_hash) = 32),
  -- HMAC of the six digits with a key that is derived from the project's data key.
  code_hash bytea not null check (octet_length(code_hash) = 32),
  attempts smallint not null default 0,
  -- The address that it was sent to.
  email text not null check (octet_length(email) <= 320),
  redirect_to text check (octet_length(redirect_to) <= 4096),
  code_challenge text check (octet_length(code_challenge) <= 128),
  expires_at timestamptz not null,
  primary key (user_id, kind)
);
create index one_time_tokens_email on auth.one_time_tokens (email);
create index one_time_tokens_expires on auth.one_time_tokens (expires_at);

-- Codes that an application trades for a sign-in (PKCE).
create table auth.flow_codes (
  -- SHA-256 of the code.
  hash bytea primary key check (octet_length(hash) = 32),
  user_id uuid not null references auth.users on delete cascade,
  method text not null,
  code_challenge text not null,
  used_at timestamptz,
  -- The sign-in that it was traded for: a second use ends it.
  session_id uuid,
  expires_at timestamptz not null
);
create index flow_codes_user on auth.flow_codes (user_id);
create index flow_codes_expires on auth.flow_codes (expires_at);

grant select, insert, update, delete on auth.one_time_tokens, auth.flow_codes to plinth_auth;

-- Uses a link up: whoever knows the hash of its token knows the link. Wrong, used and old ones are alike.
create function auth.take_link(a_hash bytea, kinds text[])
returns table (user_id uuid, kind text, email text, redirect_to text, code_challenge text)
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
  with taken as (delete from auth.one_time_tokens o where o.token_hash = a_hash and o.kind = any (kinds)
    returning o.user_id, o.kind, o.email, o.redirect_to, o.code_challenge, o.expires_at)
  select t.user_id, t.kind, t.email, t.redirect_to, t.code_challenge from taken t where t.expires_at > now()
$$;

-- Uses a code up. Each try is counted, and after five wrong ones the code is dead, and the link with it.
create function auth.take_code(a_email text, a_hash bytea, kinds text[])
returns table (user_id uuid, kind text, email text, redirect_to text, code_challenge text)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare tried auth.one_time_tokens;
begin
  for tried in
    update auth.one_time_tokens o set attempts = o.attempts + 1
    where o.email = a_email and o.kind = any (kinds) and o.expires_at > now() and o.attempts < 5 returning o.*
  loop
    continue when tried.code_hash <> a_hash;
    delete from auth.one_time_tokens o where o.user_id = tried.user_id and o.kind = tried.kind;
    return query select tried.user_id, tried.kind, tried.email, tried.redirect_to, tried.code_challenge;
    return;
  end loop;
end $$;

-- Confirms one half of a change of the address.
-- Returns the new address once both halves have; null before.
create function auth.confirm_half(a_user uuid, a_kind text) returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  half text := replace(a_kind, 'email_change_', '');
  account auth.accounts;
begin
  select * into account from auth.accounts a where a.user_id = a_user for no key update;
  if account.new_email is null then return null; end if;
  if account.new_email_half is null or account.new_email_half = half then
    update auth.accounts a set new_email_half = half where a.user_id = a_user;
    return null;
  end if;
  update auth.accounts a set new_email = null, new_email_half = null where a.user_id = a_user;
  delete from auth.one_time_tokens o where o.user_id = a_user;
  return account.new_email;
end $$;

-- Removes the password of a user whose address was never confirmed: somebody else may have set it.
create function auth.drop_password(a_user uuid) returns void
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
  update auth.accounts a set password_sealed = null where a.user_id = a_user;
  delete from auth.sessions s where s.user_id = a_user
$$;

-- As in 0022, and: codes that were not used yet.
create or replace function auth.end_sessions(a_user uuid, but uuid) returns void
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
  delete from auth.flow_codes f where f.user_id = a_user and f.used_at is null;
  delete from auth.sessions s where s.user_id = a_user and s.id is distinct from but
$$;

-- As in 0022, and: links that let somebody in by the mailbox of before.
create or replace function auth.set_password(a_user uuid, a_password bytea, but uuid) returns void
language sql volatile security definer set search_path = pg_catalog, pg_temp as $$
  insert into auth.accounts as a (user_id, password_sealed, password_changed_at) values (a_user, a_password, now())
    on conflict (user_id) do update set password_sealed = excluded.password_sealed, password_changed_at = now(),
      new_email = null, new_email_half = null;
  delete from auth.one_time_tokens o where o.user_id = a_user;
  delete from auth.flow_codes f where f.user_id = a_user and f.used_at is null;
  delete from auth.sessions s where s.user_id = a_user and s.id is distinct from but
$$;

revoke execute on function auth.take_link(bytea, text[]), auth.take_code(text, bytea, text[]),
  auth.confirm_half(uuid, text), auth.drop_password(uuid) from public;
grant execute on function auth.take_link(bytea, text[]), auth.take_code(text, bytea, text[]),
  auth.confirm_half(uuid, text), auth.drop_password(uuid) to plinth_users;
end $migration$;

select set_config('plinth.in_ddl', '', true);
