-- Schemas beside public that the data API serves: end users have the rights there that they have in public, by the same rule.

-- By name, since a schema may be exposed before it is made.
create table plinth.exposed_schemas (
  name text primary key
);

create function plinth.is_exposed(namespace oid) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
  select namespace = 'public'::regnamespace or exists (
    select from plinth.exposed_schemas e join pg_namespace n on n.nspname::text = e.name
    where n.oid = namespace and plinth.is_user_schema(n.nspname::text))
$$;

-- As before, in every schema that is exposed.
create or replace function plinth.open_or_close(target oid) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare relation pg_class;
begin
  select * into relation from pg_class where oid = target and plinth.is_exposed(relnamespace)
    and relkind in ('r', 'p', 'v', 'm', 'f') and relpersistence <> 't';
  if not found then return; end if;
  if plinth.may_open(relation) then perform plinth.open_relation(target);
  else perform plinth.close_relation(relation);
  end if;
end $$;

-- As before, and: end users may use a schema that is exposed.
create or replace function plinth.grant_schema(target oid) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  made record;
  owner name := (select r.name from plinth.roles r where r.kind = 'owner');
begin
  select nspname as name, string_agg(quote_ident(r.name), ', ') as roles into made
  from pg_namespace, plinth.roles r
  where oid = target and r.kind in ('service', 'reader') and plinth.is_user_schema(nspname::text)
  group by nspname;
  if made.roles is null then return; end if;
  execute format('grant usage on schema %I to %s', made.name, made.roles);
  if plinth.is_exposed(target) then execute format('grant usage on schema %I to anon, authenticated', made.name); end if;
  -- 10 is the first superuser of every server.
  if owner is not null and (select oid from pg_authid where rolname = current_user) = 10 then
    execute format('alter default privileges in schema %I grant execute on functions to %I', made.name, owner);
  end if;
end $$;

-- As before, in every schema that is exposed.
create or replace function plinth.apply_grants() returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  command record;
  relation pg_class;
begin
  for command in select * from pg_event_trigger_ddl_commands() loop
    if command.classid = 'pg_class'::regclass then
      if command.command_tag not like 'ALTER%' then perform plinth.grant_made(command); end if;
      perform plinth.open_or_close(command.objid);
    elsif command.classid = 'pg_namespace'::regclass then
      perform plinth.grant_schema(command.objid);
      -- It may have been given the name of one that is exposed.
      perform plinth.open_or_close(c.oid) from pg_class c
        where c.relnamespace = command.objid and c.relkind in ('r', 'p', 'v', 'm', 'f');
    elsif command.command_tag in ('CREATE EXTENSION', 'ALTER EXTENSION') then
      perform plinth.grant_extension(command.objid);
    elsif command.command_tag = 'ALTER DEFAULT PRIVILEGES' then
      perform plinth.close_default_privileges();
    elsif command.command_tag = 'GRANT' then
      -- The event does not say on what.
      for relation in
        select c.* from pg_class c where plinth.is_exposed(c.relnamespace) and c.relkind in ('r', 'p', 'v', 'm', 'f')
          and not plinth.may_open(c) and plinth.has_end_user_rights(c)
      loop
        perform plinth.close_relation(relation);
        raise notice '% stays closed to anon and authenticated', relation.oid::regclass using hint =
          case when relation.relkind = 'v' then 'A view is opened by: alter view … set (security_invoker = true)'
            when relation.relkind in ('r', 'p') then 'A table is opened by: alter table … enable row level security'
            else 'Only tables with row-level security and views with security_invoker can be opened.' end;
      end loop;
    end if;
  end loop;
end $$;

-- Exposes these schemas and no others, beside public. What is no longer exposed end users cannot use any more; what they
-- could do with the relations in it they can do again once it is.
create function plinth.expose_schemas(names text[]) returns void
language plpgsql set plinth.in_ddl = 'on' set search_path = pg_catalog, pg_temp as $$
declare gone record;
begin
  for gone in
    delete from plinth.exposed_schemas e where e.name <> all (names) returning e.name
  loop
    if to_regnamespace(quote_ident(gone.name)) is not null then
      execute format('revoke usage on schema %I from anon, authenticated', gone.name);
    end if;
  end loop;
  insert into plinth.exposed_schemas select given from unnest(names) given
    where plinth.is_user_schema(given) on conflict do nothing;
  perform plinth.grant_schema(n.oid) from pg_namespace n where n.nspname::text = any (names);
  perform plinth.open_or_close(c.oid) from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname::text = any (names) and c.relkind in ('r', 'p', 'v', 'm', 'f');
  -- What is kept of the schema is read anew.
  perform plinth.note_schema_change();
end $$;

-- Nobody but the platform.
revoke execute on function plinth.is_exposed(oid), plinth.expose_schemas(text[]) from public;
