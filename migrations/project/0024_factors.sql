-- Second factors of users: time-based codes of an authenticator app (RFC 6238).

select set_config('plinth.in_ddl', 'on', true);

do $migration$ begin
if not plinth.has_users() then return; end if;

create table auth.factors (
  id uuid primary key,
  user_id uuid not null references auth.users on delete cascade,
  friendly_name text not null default '' check (octet_length(friendly_name) <= 255),
  -- Sealed with the project's data key.
  secret_sealed bytea not null check (octet_length(secret_sealed) <= 256),
  -- Only later time steps are taken: a code works once (RFC 6238, 5.2).
  last_step bigint,
  -- Null: it does not count yet.
  verified_at timestamptz,
  last_challenged_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create index factors_user on auth.factors (user_id);
create unique index factors_name on auth.factors (user_id, friendly_name) where friendly_name <> '';

create table auth.challenges (
  id uuid primary key,
  factor_id uuid not null references auth.factors on delete cascade,
  session_id uuid not null references auth.sessions on delete cascade,
  attempts smallint not null default 0,
  expires_at timestamptz not null
);
create index challenges_factor on auth.challenges (factor_id);
create index challenges_session on auth.challenges (session_id);
create index challenges_expires on auth.challenges (expires_at);

grant select, insert, update, delete on auth.factors, auth.challenges to plinth_auth;
end $migration$;

select set_config('plinth.in_ddl', '', true);
