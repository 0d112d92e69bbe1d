-- The view of roles shows a project its own: pg_dump, which the project's owner may run (decision 023), asks for it. Closed
-- to all others, as 0001 has left it.

-- As before, and: the role that events are written as is every project's, and some functions here are its own.
create or replace function plinth.role_is_visible(role oid) returns boolean language sql stable
  return role < 16384 or has_database_privilege(role, current_database(), 'connect')
    or role in (to_regrole('anon'), to_regrole('authenticated'), to_regrole('plinth_events'))
    or has_schema_privilege('plinth', 'create');

-- The view has no condition of its own: this becomes the only one, before anything that a reader of it adds. The platform
-- sees all roles in it, as before. Not part of a dump: done again by guard_catalog.
create function plinth.show_visible_roles() returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare definition text := rtrim(pg_get_viewdef('pg_catalog.pg_roles'::regclass), ';');
begin
  if definition ~ 'role_is_visible' then return; end if;
  perform set_config('allow_system_table_mods', 'on', true);
  execute format('create or replace view pg_catalog.pg_roles with (security_barrier) as %s where plinth.role_is_visible(pg_authid.oid)',
    definition);
  perform set_config('allow_system_table_mods', 'off', true);
end $$;

-- As before, and: what is not done yet of it is done.
create or replace function plinth.guard_catalog() returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if not (select rolsuper from pg_roles where rolname = current_user) then return; end if;
  perform plinth.show_visible_roles();
  if exists (select from pg_proc where oid < 16384 and pronamespace = 'plinth'::regnamespace) then return; end if;
  perform set_config('allow_system_table_mods', 'on', true);
  perform plinth.limit_advisory_locks();
  perform plinth.limit_large_objects();
  perform plinth.hide_neighbours();
  perform set_config('allow_system_table_mods', 'off', true);
  -- The numbers of relations are others there.
  delete from plinth.opened;
  insert into plinth.opened select c.oid from pg_class c
    where c.relnamespace = 'public'::regnamespace and plinth.may_open(c) and plinth.has_end_user_rights(c);
end $$;

-- As before, and: the owner may look into the view that shows its project's roles.
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
  perform plinth.attach_tables();
end $$;

select plinth.guard_catalog();
