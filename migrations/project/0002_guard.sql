-- Sees every change of a project's schema: what changes, what the platform's own objects must not suffer, and what else has
-- to follow. Rights of end users are in 0007, the server's catalog and the event triggers themselves in 0009.

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

-- Names of the platform's that a project took when they were still free: it keeps what it has, under another name. Again
-- wherever a later migration takes names, since until the event triggers are there (0008) the project can do so again.
create function plinth.make_room() returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
declare taken record;
begin
  for taken in
    select oid, nspname as name from pg_namespace where starts_with(nspname::text, 'plinth')
      and nspowner <> (select own.nspowner from pg_namespace own where own.nspname = 'plinth')
  loop
    execute format('alter schema %I rename to %I', taken.name, format('before_%s_%s', left(taken.name::text, 40), taken.oid));
  end loop;
  -- Those of partitions are renamed with the partitioned table's.
  for taken in
    select t.oid, t.tgname as name, t.tgrelid::regclass as relation
    from pg_trigger t join pg_proc p on p.oid = t.tgfoid
    where not t.tgisinternal and t.tgparentid = 0 and starts_with(t.tgname::text, 'plinth_')
      and p.pronamespace <> 'plinth'::regnamespace
  loop
    execute format('alter trigger %I on %s rename to %I', taken.name, taken.relation,
      format('before_%s_%s', left(taken.name::text, 40), taken.oid));
  end loop;
end $$;
select plinth.make_room();

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

create function plinth.is_user_schema(schema_name text) returns boolean language sql immutable
  return schema_name is not null and schema_name <> 'information_schema' and schema_name <> 'auth'
    and not starts_with(schema_name, 'pg_') and schema_name <> 'plinth' and not starts_with(schema_name, 'plinth_');

-- Extensions that only compute. Others run code outside of the database's rules, or reach files, memory or other servers.
create function plinth.allowed_extensions() returns text[] language sql immutable
  return array['btree_gin', 'btree_gist', 'citext', 'cube', 'dict_int', 'earthdistance', 'fuzzystrmatch', 'hstore',
    'intarray', 'isn', 'ltree', 'pg_trgm', 'pgcrypto', 'plpgsql', 'seg', 'tablefunc', 'tsm_system_rows',
    'tsm_system_time', 'unaccent', 'uuid-ossp', 'vector'];

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
    -- Its rows are not counted.
    if command.command_tag = 'CREATE TABLE' and temporary then perform plinth.refuse_growth(); end if;
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
