-- What keeps a project's database closed: event triggers that see every change of its schema, the helpers that policies
-- use, and, where the platform is the server's superuser, a catalog that tells nothing of the neighbours and functions
-- that cannot use up what all projects share.

-- One row for each command that changed the schema. No row is changed by all: changes do not wait for each other.
create table plinth.schema_changes (
  id bigint generated always as identity primary key
);

-- What else runs after each change of the schema: functions of this schema, in this order.
create table plinth.ddl_hooks (
  name text primary key,
  position integer not null,
  -- Runs when something was dropped, too; then there is pg_event_trigger_dropped_objects().
  on_drop boolean not null default false
);

-- The project's own roles, by kind: owner, api, service, reader. Written when the project is made.
create table plinth.roles (
  kind text primary key,
  name name not null
);

-- The relations that were opened to end users when their row-level security was turned on: what the owner took away
-- again afterwards stays away.
create table plinth.opened (
  relation oid primary key
);

-- What may be called from outside.
create schema plinth_api;
grant usage on schema plinth_api to public;

-- Changes with every change of the schema that is visible. Rows commit in any order, so the largest id alone is no version.
create function plinth_api.schema_version() returns text
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select count(*) || ':' || coalesce(max(id), 0) from plinth.schema_changes
$$;
grant execute on function plinth_api.schema_version() to public;

create function plinth.note_schema_change() returns void language plpgsql as $$
declare own bigint;
begin
  insert into plinth.schema_changes default values returning id into own;
  -- The new row stays, with the largest id yet: no version comes back. What another transaction is about to delete is
  -- passed over, so that nobody waits.
  if own % 500 = 0 then
    delete from plinth.schema_changes where id in (
      select id from plinth.schema_changes where id < own for update skip locked);
  end if;
end $$;

create function plinth.is_user_schema(schema_name text) returns boolean language sql immutable as $$
  select schema_name is not null and schema_name <> 'information_schema' and schema_name <> 'auth'
    and not starts_with(schema_name, 'pg_') and schema_name <> 'plinth' and not starts_with(schema_name, 'plinth_')
$$;

-- Extensions that only compute. Others run code outside of the database's rules, or reach files, memory or other servers.
create function plinth.allowed_extensions() returns text[] language sql immutable as $$
  select array['btree_gin', 'btree_gist', 'citext', 'cube', 'dict_int', 'earthdistance', 'fuzzystrmatch', 'hstore',
    'intarray', 'isn', 'ltree', 'pg_trgm', 'pgcrypto', 'plpgsql', 'seg', 'tablefunc', 'tsm_system_rows',
    'tsm_system_time', 'unaccent', 'uuid-ossp', 'vector']
$$;

-- What one transaction may hold of the lock table that all projects share, and what one session of temporary relations.
create function plinth.check_session(temporary boolean) returns void language plpgsql as $$
begin
  if temporary and (select count(*) from pg_class where relnamespace = pg_my_temp_schema() and relkind in ('r', 'v', 'S', 'p')) > 100 then
    raise exception 'a session may have at most 100 temporary tables, views and sequences' using errcode = '53400';
  end if;
  if (select count(*) from pg_locks where pid = pg_backend_pid()) > 2000 then
    raise exception 'a transaction may lock at most 2000 tables and indexes'
      using errcode = '53400', hint = 'Do it in several transactions.';
  end if;
end $$;

-- The platform's triggers on the project's tables stay as they are: the name and the function belong together.
create function plinth.check_triggers(relations oid[]) returns void language plpgsql as $$
declare bent record;
begin
  select t.tgname, t.tgrelid::regclass as relation into bent
  from pg_trigger t join pg_proc p on p.oid = t.tgfoid
  where not t.tgisinternal and t.tgrelid = any (relations)
    and (starts_with(t.tgname::text, 'plinth_') or p.pronamespace = 'plinth'::regnamespace)
    and not (starts_with(t.tgname::text, 'plinth_') and p.pronamespace = 'plinth'::regnamespace and t.tgenabled in ('O', 'A'))
  limit 1;
  if found then
    raise exception 'the trigger % of % is the platform''s', bent.tgname, bent.relation
      using errcode = '42501', hint = 'Names that begin with plinth_ are the platform''s own.';
  end if;
end $$;

create function plinth.protect() returns void language plpgsql as $$
declare
  command record;
  relations boolean := false;
  temporary boolean := false;
begin
  for command in select * from pg_event_trigger_ddl_commands() loop
    relations := relations or command.classid = 'pg_class'::regclass;
    temporary := temporary or command.schema_name is not distinct from 'pg_temp';
    if command.classid = 'pg_class'::regclass and command.command_tag like 'ALTER %' then
      perform plinth.check_triggers(array(
        select command.objid union select inhrelid from pg_inherits where inhparent = command.objid));
    elsif command.classid = 'pg_trigger'::regclass then
      perform plinth.check_triggers(array(select tgrelid from pg_trigger where oid = command.objid));
    elsif command.command_tag = 'CREATE EXTENSION' then
      perform from pg_extension where oid = command.objid and extname <> all (plinth.allowed_extensions());
      if found then
        raise exception 'the extension % cannot be installed here', command.object_identity
          using errcode = '42501', hint = 'Available: ' || array_to_string(plinth.allowed_extensions(), ', ');
      end if;
    elsif command.classid = 'pg_namespace'::regclass then
      perform from pg_namespace where oid = command.objid and starts_with(nspname::text, 'plinth')
        and nspowner <> (select own.nspowner from pg_namespace own where own.nspname = 'plinth');
      if found then
        raise exception 'schemas whose names begin with plinth are the platform''s' using errcode = '42501';
      end if;
    end if;
  end loop;
  if relations then perform plinth.check_session(temporary); end if;
end $$;

-- In a drop: a trigger of the platform's goes with its table, and with nothing else.
create function plinth.protect_drop() returns void language plpgsql as $$
declare dropped record;
begin
  for dropped in
    select d.address_names as names from pg_event_trigger_dropped_objects() d
    where d.object_type = 'trigger' and starts_with(d.address_names[3], 'plinth_')
  loop
    perform from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where n.nspname = dropped.names[1] and c.relname = dropped.names[2];
    if found then
      raise exception 'the trigger % of % is the platform''s', dropped.names[3], dropped.names[2] using errcode = '42501';
    end if;
  end loop;
end $$;

-- Whether end users may be given rights on a relation: policies decide about its rows, or it is a view that asks the
-- tables behind it with the rights of who asks.
create function plinth.may_open(relation pg_class) returns boolean language sql stable as $$
  select case when relation.relkind in ('r', 'p') then relation.relrowsecurity
    when relation.relkind = 'v' then coalesce((select option_value::boolean
      from pg_options_to_table(relation.reloptions) where option_name = 'security_invoker'), false)
    else false end
$$;

-- Whether end users, or everybody, have any right on a relation or one of its columns.
create function plinth.has_end_user_rights(relation pg_class) returns boolean language sql stable as $$
  select exists (select from aclexplode(relation.relacl) a
      where a.grantee in (0, 'anon'::regrole, 'authenticated'::regrole))
    or exists (select from pg_attribute t, aclexplode(t.attacl) a where t.attrelid = relation.oid and t.attacl is not null
      and a.grantee in (0, 'anon'::regrole, 'authenticated'::regrole))
$$;

create function plinth.sequences_of(relation oid) returns setof regclass language sql stable as $$
  select d.objid::regclass from pg_depend d join pg_class s on s.oid = d.objid and s.relkind = 'S'
  where d.classid = 'pg_class'::regclass and d.refclassid = 'pg_class'::regclass and d.refobjid = relation
    and d.deptype in ('a', 'i')
$$;

create function plinth.close_relation(relation pg_class) returns void language plpgsql as $$
declare own regclass;
begin
  delete from plinth.opened o where o.relation = close_relation.relation.oid;
  if not plinth.has_end_user_rights(relation) then return; end if;
  execute format('revoke all on %s from public, anon, authenticated', relation.oid::regclass);
  for own in select plinth.sequences_of(relation.oid) loop
    execute format('revoke all on sequence %s from public, anon, authenticated', own);
  end loop;
  -- What somebody else than the owner granted is not the owner's to revoke.
  perform from pg_class c where c.oid = relation.oid and plinth.has_end_user_rights(c);
  if found then
    raise exception 'end users cannot have rights on % without row-level security', relation.oid::regclass
      using errcode = '42501';
  end if;
end $$;

create function plinth.open_relation(relation oid) returns void language plpgsql as $$
declare own regclass;
begin
  for own in select plinth.sequences_of(relation) loop
    if not has_sequence_privilege('authenticated', own, 'usage') then
      execute format('grant usage on sequence %s to anon, authenticated', own);
    end if;
  end loop;
  insert into plinth.opened values (relation) on conflict do nothing;
  if not found then return; end if;
  execute format('grant select, insert, update, delete on %s to anon, authenticated', relation::regclass);
end $$;

create function plinth.open_or_close(target oid) returns void language plpgsql as $$
declare relation pg_class;
begin
  select * into relation from pg_class where oid = target and relnamespace = 'public'::regnamespace
    and relkind in ('r', 'p', 'v', 'm', 'f') and relpersistence <> 't';
  if not found then return; end if;
  if plinth.may_open(relation) then perform plinth.open_relation(target);
  else perform plinth.close_relation(relation);
  end if;
end $$;

-- The rights of a secret key and of readers on what a command made, whoever made it.
create function plinth.grant_made(command record) returns void language plpgsql as $$
declare
  service name := (select name from plinth.roles where kind = 'service');
  reader name := (select name from plinth.roles where kind = 'reader');
begin
  if service is null or reader is null or not plinth.is_user_schema(command.schema_name) then return; end if;
  if command.object_type in ('table', 'view', 'materialized view', 'foreign table') then
    if not has_table_privilege(service, command.objid, 'insert') then
      execute format('grant all on %s to %I', command.objid::regclass, service);
    end if;
    if not has_table_privilege(reader, command.objid, 'select') then
      execute format('grant select on %s to %I', command.objid::regclass, reader);
    end if;
  elsif command.object_type = 'sequence' and not has_sequence_privilege(service, command.objid, 'usage') then
    execute format('grant all on sequence %s to %I', command.objid::regclass, service);
  end if;
end $$;

create function plinth.grant_schema(target oid) returns void language plpgsql as $$
declare made record;
begin
  select nspname as name, string_agg(quote_ident(r.name), ', ') as roles into made
  from pg_namespace, plinth.roles r
  where oid = target and r.kind in ('service', 'reader') and plinth.is_user_schema(nspname::text)
  group by nspname;
  if made.roles is not null then execute format('grant usage on schema %I to %s', made.name, made.roles); end if;
end $$;

-- An extension's functions are made by the platform, so that nobody else could call them. Those of tablefunc run SQL that
-- they are given, which is not for end users.
create function plinth.grant_extension(extension oid) returns void language plpgsql as $$
declare
  made record;
  grantees text;
begin
  select case when extname <> 'tablefunc' then 'public'
    else (select string_agg(quote_ident(name), ', ') from plinth.roles where kind in ('owner', 'service')) end
  into grantees from pg_extension where oid = extension;
  if grantees is null then return; end if;
  for made in
    select p.oid::regprocedure as signature from pg_depend d join pg_proc p on p.oid = d.objid
    where d.classid = 'pg_proc'::regclass and d.refclassid = 'pg_extension'::regclass and d.refobjid = extension
      and d.deptype = 'e'
  loop
    execute format('grant execute on routine %s to %s', made.signature, grantees);
  end loop;
end $$;

-- New functions are for those who are named: nobody turns that off for all functions to come.
create function plinth.close_default_privileges() returns void language plpgsql as $$
declare open record;
begin
  for open in
    select d.defaclrole as owner, n.nspname from pg_default_acl d
    left join pg_namespace n on n.oid = d.defaclnamespace
    where d.defaclobjtype = 'f' and exists (select from aclexplode(d.defaclacl) a where a.grantee = 0)
  loop
    execute format('alter default privileges for role %I %s revoke execute on functions from public',
      (select rolname from pg_authid where oid = open.owner),
      case when open.nspname is not null then format('in schema %I', open.nspname) else '' end);
  end loop;
  -- Without an entry of its own a role's functions are everybody's.
  for open in select r.name from plinth.roles r join pg_authid a on a.rolname = r.name
    where r.kind = 'owner' and not exists (select from pg_default_acl d
      where d.defaclrole = a.oid and d.defaclnamespace = 0 and d.defaclobjtype = 'f')
  loop
    execute format('alter default privileges for role %I revoke execute on functions from public', open.name);
  end loop;
end $$;

-- Closed by default: end users have rights on relations of schema public that policies guard, and on nothing else.
create function plinth.apply_grants() returns void language plpgsql as $$
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
    elsif command.command_tag in ('CREATE EXTENSION', 'ALTER EXTENSION') then
      perform plinth.grant_extension(command.objid);
    elsif command.command_tag = 'ALTER DEFAULT PRIVILEGES' then
      perform plinth.close_default_privileges();
    elsif command.command_tag = 'GRANT' then
      -- The event does not say on what.
      for relation in
        select c.* from pg_class c where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p', 'v', 'm', 'f')
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

create function plinth.run_hooks(dropping boolean) returns void language plpgsql as $$
declare hook name;
begin
  for hook in select h.name from plinth.ddl_hooks h where not dropping or h.on_drop order by h.position, h.name loop
    execute format('select plinth.%I()', hook);
  end loop;
end $$;

-- Each of these is called by an event trigger as the platform, with a search path that no project can add to. What they
-- call is called as the platform, too.
create function plinth_api.after_ddl() returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp set plinth.in_ddl = 'on' as $$
begin
  perform from pg_event_trigger_ddl_commands()
    where schema_name is distinct from 'pg_temp' and command_tag <> 'REFRESH MATERIALIZED VIEW';
  if found then perform plinth.note_schema_change(); end if;
  -- What a migration of the platform's makes is meant so.
  if not has_schema_privilege(session_user, 'plinth', 'create') then perform plinth.protect(); end if;
  perform plinth.apply_grants();
  perform plinth.run_hooks(false);
end $$;

create function plinth_api.after_drop() returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp set plinth.in_ddl = 'on' as $$
begin
  perform from pg_event_trigger_dropped_objects() where not is_temporary;
  if not found then return; end if;
  perform plinth.note_schema_change();
  perform plinth.protect_drop();
  delete from plinth.opened where relation in (
    select objid from pg_event_trigger_dropped_objects() where classid = 'pg_class'::regclass and objsubid = 0);
  perform plinth.run_hooks(true);
end $$;
grant execute on function plinth_api.after_ddl(), plinth_api.after_drop() to public;

-- What the platform does in answer to a change is a change, too, and needs no answer. As the platform within a project's
-- session: it is done by one of the functions above, or by the script of an extension. In the platform's own session the
-- setting tells; a project could set it, but is never the platform.
create function plinth_api.is_own_change() returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
  select has_schema_privilege('plinth', 'create')
    and (current_user <> session_user or current_setting('plinth.in_ddl', true) is not distinct from 'on')
$$;
grant execute on function plinth_api.is_own_change() to public;

create function plinth.on_ddl() returns event_trigger language plpgsql as $$
begin
  -- It takes away rights on the database, too: the project would be locked out of itself.
  if tg_tag = 'DROP OWNED' then
    raise exception 'DROP OWNED is not available' using errcode = '42501', hint = 'Drop schemas or tables by name.';
  end if;
  if not plinth_api.is_own_change() then perform plinth_api.after_ddl(); end if;
end $$;

create function plinth.on_drop() returns event_trigger language plpgsql as $$
begin
  if not plinth_api.is_own_change() then perform plinth_api.after_drop(); end if;
end $$;
grant execute on function plinth.on_ddl(), plinth.on_drop() to public;

-- What policies know of the request, under the names that policies written for Supabase use. Bound when they are made, so
-- that no search path changes them, and plain enough to become part of the query that calls them.
do $$
begin
  if to_regnamespace('auth') is not null then
    raise notice 'the project has a schema auth of its own; the helpers of policies are not added';
    return;
  end if;
  create schema auth;
  grant usage on schema auth to public;
  create function auth.jwt() returns jsonb language sql stable
    return nullif(current_setting('request.jwt.claims', true), '')::jsonb;
  -- Null for a subject that is no UUID: it is nobody's row.
  create function auth.uid() returns uuid language sql stable
    return substring(nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'sub'
      from '^[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$')::uuid;
  create function auth.role() returns text language sql stable
    return nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'role';
  create function auth.email() returns text language sql stable
    return nullif(current_setting('request.jwt.claims', true), '')::jsonb ->> 'email';
  grant execute on all functions in schema auth to public;
end $$;

-- Whether a role is one of this database's: its project's own, the platform's, or everybody's.
create function plinth.role_is_visible(role oid) returns boolean language sql stable
  return role < 16384 or has_database_privilege(role, current_database(), 'connect')
    or role in (to_regrole('anon'), to_regrole('authenticated')) or has_schema_privilege('plinth', 'create');
grant execute on function plinth.role_is_visible(oid) to public;

-- Takes a built-in function out of everybody's reach. What refers to it, as the server's own views do, still calls it.
create function plinth.take_away(function_name text) returns void language plpgsql as $$
declare restored regprocedure;
begin
  -- A dump holds what it found in this schema.
  for restored in
    select oid from pg_proc where pronamespace = 'plinth'::regnamespace and proname = function_name and oid >= 16384
  loop
    execute format('drop function %s', restored);
  end loop;
  update pg_proc set pronamespace = 'plinth'::regnamespace
  where pronamespace = 'pg_catalog'::regnamespace and proname = function_name and oid < 16384;
end $$;

-- A lock by number lives in memory that all projects share: a session has enough of 64.
create function plinth.limit_advisory_locks() returns void language plpgsql as $body$
declare original record;
begin
  perform plinth.take_away(proname) from (
    select distinct proname from pg_proc where pronamespace = 'pg_catalog'::regnamespace and oid < 16384
      and proname ~ '^pg_(try_)?advisory_(xact_)?lock(_shared)?$') taken;
  for original in
    select p.proname, pg_get_function_identity_arguments(p.oid) as types, p.pronargs, p.prorettype::regtype as result
    from pg_proc p where pronamespace = 'plinth'::regnamespace and oid < 16384
      and proname ~ '^pg_(try_)?advisory_(xact_)?lock(_shared)?$'
  loop
    execute format($wrapper$
      create or replace function pg_catalog.%1$I(%2$s) returns %3$s language plpgsql volatile security definer
      set search_path = pg_catalog, pg_temp as $$
      begin
        if (select count(*) from pg_locks where pid = pg_backend_pid() and locktype = 'advisory') >= 64 then
          raise exception 'a session may hold at most 64 advisory locks' using errcode = '53400';
        end if;
        %4$s plinth.%1$I(%5$s);
      end $$;
      grant execute on function pg_catalog.%1$I(%2$s) to public$wrapper$,
      original.proname, original.types, original.result,
      case when original.result = 'void'::regtype then 'perform' else 'return' end,
      case when original.pronargs = 2 then '$1, $2' else '$1' end);
  end loop;
end $body$;

-- Names of roles and databases contain what identifies other projects.
create function plinth.hide_neighbours() returns void language plpgsql as $body$
declare hidden regclass;
begin
  -- A role's number is written as a number; a function that calls the old output directly is not to be had either.
  update pg_type set typoutput = 'oidout'::regproc where oid = 'regrole'::regtype;
  revoke execute on function regroleout(regrole) from public;
  perform plinth.take_away(name) from unnest(array['pg_get_userbyid', 'acldefault', 'makeaclitem', 'pg_database_size']) name;
  create function pg_catalog.pg_get_userbyid(oid) returns name language sql stable strict
    return case when plinth.role_is_visible($1) then plinth.pg_get_userbyid($1) else ('unknown (OID=' || $1 || ')')::name end;
  create function pg_catalog.acldefault("char", oid) returns aclitem[] language sql stable strict
    return case when plinth.role_is_visible($2) then plinth.acldefault($1, $2) end;
  create function pg_catalog.pg_database_size(name) returns bigint language plpgsql volatile strict security definer
    set search_path = pg_catalog, pg_temp as $$
    begin
      if has_database_privilege(session_user, $1, 'connect') then return plinth.pg_database_size($1); end if;
      raise exception 'permission denied for another database' using errcode = '42501';
    end $$;
  create function pg_catalog.pg_database_size(oid) returns bigint language plpgsql volatile strict security definer
    set search_path = pg_catalog, pg_temp as $$
    begin
      if has_database_privilege(session_user, $1, 'connect') then return plinth.pg_database_size($1); end if;
      raise exception 'permission denied for another database' using errcode = '42501';
    end $$;
  grant execute on function pg_catalog.pg_get_userbyid(oid), pg_catalog.acldefault("char", oid),
    pg_catalog.pg_database_size(name), pg_catalog.pg_database_size(oid) to public;
  -- Says where files lie and nothing of who has them; a dump looks into it.
  grant select on pg_catalog.pg_tablespace to public;
  -- A view that filters what is in these tables must do so before a function of the project's sees a row: a planner that
  -- takes the function for cheap calls it first.
  for hidden in
    select oid from pg_class
    where relkind = 'v' and relnamespace in ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
      and pg_get_viewdef(oid) ~ '\m(pg_authid|pg_database|pg_auth_members|pg_db_role_setting|pg_roles|pg_shdescription|pg_shseclabel)\M'
  loop
    execute format('alter view %s set (security_barrier = true)', hidden);
    -- The planner takes a bare union apart in spite of that; not one with an offset.
    if pg_get_viewdef(hidden) ~ '(?n)^ *UNION ALL$' and pg_get_viewdef(hidden) !~ 'OFFSET 0;$' then
      execute format('create or replace view %s with (security_barrier) as %s offset 0', hidden,
        rtrim(pg_get_viewdef(hidden), ';'));
    end if;
  end loop;
end $body$;

-- A dump does not hold what is done to the server's own catalog: called again where the database was restored from one.
create function plinth.guard_catalog() returns void language plpgsql as $$
begin
  if not (select rolsuper from pg_roles where rolname = current_user)
    or exists (select from pg_proc where oid < 16384 and pronamespace = 'plinth'::regnamespace) then return; end if;
  perform set_config('allow_system_table_mods', 'on', true);
  perform plinth.limit_advisory_locks();
  perform plinth.hide_neighbours();
  perform set_config('allow_system_table_mods', 'off', true);
  -- The numbers of relations are others there.
  delete from plinth.opened;
  insert into plinth.opened select c.oid from pg_class c
    where c.relnamespace = 'public'::regnamespace and plinth.may_open(c) and plinth.has_end_user_rights(c);
end $$;

-- Tells the database which roles are its project's, and gives them what they need of schemas that were made before.
create function plinth.set_roles(kinds text[], names name[]) returns void language plpgsql as $$
begin
  insert into plinth.roles select kind, name from unnest(kinds, names) as given (kind, name)
    on conflict (kind) do update set name = excluded.name;
  perform plinth.grant_schema(oid) from pg_namespace;
end $$;

do $$
begin
  if (select rolsuper from pg_roles where rolname = current_user) then
    perform plinth.guard_catalog();
    create event trigger plinth_on_ddl on ddl_command_end execute function plinth.on_ddl();
    create event trigger plinth_on_drop on sql_drop execute function plinth.on_drop();
  else
    raise notice 'only a superuser makes event triggers: tables stay closed to end users until they are opened by hand';
  end if;
end $$;

-- What was there before.
select plinth.open_or_close(oid) from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p', 'v', 'm', 'f');
