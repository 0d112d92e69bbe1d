-- Requests to other providers that users sign in with, until they come back.

select set_config('plinth.in_ddl', 'on', true);

do $migration$ begin
if not plinth.has_users() then return; end if;

create table auth.upstream_flows (
  -- SHA-256 of the state.
  hash bytea primary key check (octet_length(hash) = 32),
  provider text not null,
  -- Nonce, verifier, and where it leads to, sealed with the project's data key.
  sealed bytea not null check (octet_length(sealed) <= 16384),
  -- The user who adds an identity; null: a sign-in.
  user_id uuid references auth.users on delete cascade,
  expires_at timestamptz not null
);
create index upstream_flows_expires on auth.upstream_flows (expires_at);
create index upstream_flows_user on auth.upstream_flows (user_id) where user_id is not null;
grant select, insert, update, delete on auth.upstream_flows to plinth_auth;
end $migration$;

select set_config('plinth.in_ddl', '', true);
