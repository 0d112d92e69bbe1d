-- The project's own migrations: which steps were applied, so that none runs twice.

select plinth.make_room();
create schema plinth_migrations;
grant usage on schema plinth_migrations to public;

create table plinth_migrations.applied (
  position bigint generated always as identity unique,
  name text primary key check (octet_length(name) <= 255),
  -- SHA-256 over the step's SQL, in hexadecimal digits.
  checksum text not null check (length(checksum) = 64),
  duration_ms integer not null,
  applied_at timestamptz not null default clock_timestamp()
);
grant select on plinth_migrations.applied to public;

-- The only way to a record: for the project's owner role, in the transaction that ran the step. What was recorded is not
-- changed any more.
create function plinth_migrations.record(a_name text, a_checksum text, a_duration_ms integer) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  -- No other project's role can connect to this database.
  if session_user not like '%\_owner' then
    raise exception 'only the project''s owner role records migrations' using errcode = '42501';
  end if;
  insert into plinth_migrations.applied (name, checksum, duration_ms) values (a_name, a_checksum, a_duration_ms);
end $$;
grant execute on function plinth_migrations.record(text, text, integer) to public;
