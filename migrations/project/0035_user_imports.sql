-- What imports of users have done, written in the transactions that do it: a part that is run again counts once.

select set_config('plinth.in_ddl', 'on', true);

do $migration$ begin
if not plinth.has_users() then return; end if;

create table auth.imports (
  job_id uuid not null,
  -- The users of this range of the request: from_index ≤ index < to_index.
  from_index integer not null, to_index integer not null,
  imported integer not null, skipped integer not null,
  -- [{"index","code"}] of those that could not be imported.
  errors jsonb not null default '[]' check (pg_column_size(errors) <= 65536),
  at timestamptz not null default now(),
  primary key (job_id, from_index)
);
create index imports_at on auth.imports (at);

-- How many users still have a hash of another system, by a hash that takes as long (domain/end-users/decoys.ts).
create table auth.foreign_hashes (
  decoy text primary key check (octet_length(decoy) <= 2048),
  users integer not null
);

-- For the role that writes users, which may not read these tables. Fails when the range was done before.
create function auth.note_import(
  a_job uuid, a_from integer, a_to integer, a_imported integer, a_skipped integer, a_errors jsonb, a_decoys jsonb
) returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into auth.imports (job_id, from_index, to_index, imported, skipped, errors)
    values (a_job, a_from, a_to, a_imported, a_skipped, a_errors);
  insert into auth.foreign_hashes as f (decoy, users) select key, value::integer from jsonb_each_text(a_decoys)
    order by key
    on conflict (decoy) do update set users = f.users + excluded.users;
end $$;

revoke execute on function auth.note_import(uuid, integer, integer, integer, integer, jsonb, jsonb) from public;
grant execute on function auth.note_import(uuid, integer, integer, integer, integer, jsonb, jsonb) to plinth_users;
grant select, insert, update, delete on auth.imports, auth.foreign_hashes to plinth_auth;
end $migration$;

select set_config('plinth.in_ddl', '', true);
