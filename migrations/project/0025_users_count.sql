-- Users take room as all else of a project does: triggers of the owner could otherwise fill auth.users without a bound.

select set_config('plinth.in_ddl', 'on', true);

do $migration$ begin
if not plinth.has_users() then return; end if;

create function plinth.limit_users() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform plinth.refuse_growth();
  return null;
end $$;
revoke execute on function plinth.limit_users() from public;

create trigger plinth_limit_users before insert or update on auth.users
  for each statement execute function plinth.limit_users();
end $migration$;

select set_config('plinth.in_ddl', '', true);
