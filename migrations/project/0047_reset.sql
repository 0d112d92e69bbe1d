-- `plinth db reset` begins again: the record of the project's own migrations is emptied in the transaction that drops
-- what they made.

select set_config('plinth.in_ddl', 'on', true);

-- As `record`: for the project's owner role alone.
create function plinth_migrations.forget() returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if session_user not like '%\_owner' then
    raise exception 'only the project''s owner role begins its migrations again' using errcode = '42501';
  end if;
  delete from plinth_migrations.applied;
end $$;
grant execute on function plinth_migrations.forget() to public;

select set_config('plinth.in_ddl', '', true);
