-- The platform's triggers on the tables of a project are compared whole, and nothing in the platform's schemas is changed or
-- dropped by a project: one replaced a trigger by the same with WHEN (false), and had rows that nobody counted.

-- The platform's own changes need no answer.
select set_config('plinth.in_ddl', 'on', true);

-- Each trigger as it has to be, of each table that is counted. `arguments` are encoded as in pg_trigger.
create view plinth.own_triggers as
  select d.relation, d.counter, own.name::name as name, own.routine::name as routine, own.kind::smallint as kind,
    case when own.name <> 'plinth_insert' then convert_to(d.counter::text, 'UTF8') || '\x00'
        || convert_to('plinth.rows_' || d.counter, 'UTF8') || '\x00' || convert_to(place.name, 'UTF8') || '\x00'
      when place.name = 'part' then convert_to('part', 'UTF8') || '\x00'
      else ''::bytea end as arguments,
    own.old_table::name as old_table, own.new_table::name as new_table
  from plinth.counted d
    join plinth.counters c on c.id = d.counter
    cross join lateral (select case when c.root = d.relation then 'root' else 'part' end as name) place
    -- Bits of pg_trigger.tgtype: 4 insert, 8 delete, 16 update, 32 truncate; none of them for each row (1) or before (2).
    cross join lateral (values
      ('plinth_insert', 'on_insert_' || d.counter, 4, null, 'new_rows'),
      ('plinth_count_delete', 'count_delete', 8, 'old_rows', null),
      ('plinth_count_truncate', 'count_truncate', 32, null, null),
      ('plinth_tell_delete', 'tell_delete', 8, 'old_rows', null),
      ('plinth_tell_update', 'tell_update', 16, 'old_rows', 'new_rows')) own (name, routine, kind, old_table, new_table);

-- Those that are missing or differ in anything that decides when they fire and what they do.
create view plinth.bent_triggers as
  select own.relation, own.counter, own.name from plinth.own_triggers own
  where not exists (
    select from pg_trigger t join pg_proc p on p.oid = t.tgfoid
    where t.tgrelid = own.relation and t.tgname = own.name and p.proname = own.routine and p.pronargs = 0
      and p.pronamespace = 'plinth'::regnamespace and t.tgtype = own.kind and t.tgargs = own.arguments
      and t.tgoldtable is not distinct from own.old_table and t.tgnewtable is not distinct from own.new_table
      and t.tgqual is null and t.tgattr = ''::int2vector and t.tgenabled in ('O', 'A') and t.tgconstraint = 0
      and not t.tgdeferrable and not t.tgisinternal and t.tgparentid = 0);

-- As before, and: the whole trigger is compared where it is known what it has to be.
create or replace function plinth.check_triggers(relations oid[]) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare bent record;
begin
  select t.tgname as name, t.tgrelid::regclass as relation into bent
  from pg_trigger t join pg_proc p on p.oid = t.tgfoid
  where not t.tgisinternal and t.tgrelid = any (relations)
    and (starts_with(t.tgname::text, 'plinth_') or p.pronamespace = 'plinth'::regnamespace)
    and not (starts_with(t.tgname::text, 'plinth_') and p.pronamespace = 'plinth'::regnamespace and t.tgenabled in ('O', 'A'))
  limit 1;
  if not found then
    select b.name, b.relation into bent from plinth.bent_triggers b where b.relation = any (relations) limit 1;
  end if;
  if found then
    raise exception 'the trigger % of % is the platform''s', bent.name, bent.relation
      using errcode = '42501', hint = 'Names that begin with plinth_ are the platform''s own.';
  end if;
end $$;

-- A relation and all that are below it.
create function plinth.with_descendants(relation oid) returns oid[]
language sql stable set search_path = pg_catalog, pg_temp as $$
  with recursive down (id) as (
    select relation union select i.inhrelid from down join pg_inherits i on i.inhparent = down.id)
  select array_agg(id) from down
$$;

-- Refuses what a command made or changed when that is, or became, the platform's.
create function plinth.protect_own(class oid, id oid, schema_name text, tag text) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if starts_with(schema_name, 'plinth') then
    raise exception 'what is in schema % is the platform''s', schema_name using errcode = '42501';
  end if;
  -- It was moved out of the platform's schema.
  if class = 'pg_proc'::regclass and exists (
    select from pg_trigger where tgfoid = id and starts_with(tgname::text, 'plinth_')) then
    raise exception 'the function % is the platform''s', id::regproc using errcode = '42501';
  end if;
  if tag = 'CREATE TRIGGER' and exists (
    select from pg_trigger t join pg_proc p on p.oid = t.tgfoid
    where t.oid = id and (starts_with(t.tgname::text, 'plinth_') or starts_with(p.pronamespace::regnamespace::text, 'plinth'))) then
    raise exception 'triggers whose names begin with plinth_ are the platform''s' using errcode = '42501';
  end if;
  -- It would run whenever a row becomes JSON. By the base type, should it be a domain.
  if class = 'pg_cast'::regclass and exists (
    select from pg_cast c join pg_type t on t.oid = c.casttarget
    where c.oid = id and coalesce(nullif(t.typbasetype, 0), t.oid) in ('json'::regtype, 'jsonb'::regtype)) then
    raise exception 'casts to json and jsonb are not available' using errcode = '42501',
      hint = 'Call the function by its name where its result is wanted.';
  end if;
end $$;

create or replace function plinth.protect() returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
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
    perform plinth.protect_own(command.classid, command.objid, command.schema_name, command.command_tag);
    if command.classid = 'pg_class'::regclass and command.command_tag like 'ALTER %' then
      perform plinth.check_triggers(plinth.with_descendants(command.objid));
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

-- As before, and: nothing that is in a schema of the platform's goes, except by the platform's own hand.
create or replace function plinth.protect_drop() returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
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
  if has_schema_privilege(session_user, 'plinth', 'create') then return; end if;
  select d.object_identity as name into dropped from pg_event_trigger_dropped_objects() d
    where starts_with(d.schema_name, 'plinth') and not d.is_temporary limit 1;
  if found then
    raise exception '% is the platform''s', dropped.name using errcode = '42501';
  end if;
end $$;

-- As before, and: the platform's own roles are given nothing of a project's, so that what runs as one of them has no place
-- to make anything in.
create or replace function plinth.refuse_strangers() returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare stranger name;
begin
  -- What a migration or a restoration of the platform's makes is meant so.
  if has_schema_privilege(session_user, 'plinth', 'create') then return; end if;
  perform from pg_event_trigger_ddl_commands()
    where command_tag in ('GRANT', 'ALTER DEFAULT PRIVILEGES', 'CREATE POLICY', 'ALTER POLICY');
  if not found then return; end if;
  select r.rolname into stranger
  from pg_shdepend d join pg_authid r on r.oid = d.refobjid
  where d.dbid = (select oid from pg_database where datname = current_database())
    and d.refclassid = 'pg_authid'::regclass and d.deptype in ('a', 'r')
    and (r.rolname ~ '^[a-z0-9]{20}_(owner|api|service|reader)$' and r.rolname not in (select o.name from plinth.roles o)
      or r.rolname in ('plinth_events', 'plinth_triggers') and not plinth.is_own(d.classid, d.objid))
  limit 1;
  if found then
    raise exception 'the role % is not of this project', stranger
      using errcode = '42501', hint = 'Rights and policies are for anon, authenticated and the project''s own roles.';
  end if;
end $$;

-- Whether an object is, or is in, the schema of the platform's.
create function plinth.is_own(class oid, id oid) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
  select case class
    when 'pg_namespace'::regclass then id
    when 'pg_class'::regclass then (select relnamespace from pg_class where oid = id)
    when 'pg_proc'::regclass then (select pronamespace from pg_proc where oid = id)
  end is not distinct from 'plinth'::regnamespace
$$;

-- A trigger of an existing table is made again only if it differs, since that waits for all who write to the table.
do $$
declare
  bent record;
  counter_id integer;
  uncounted integer[] := '{}';
begin
  for bent in select distinct relation, counter from plinth.bent_triggers loop
    raise warning 'the triggers of % were not as they should be', bent.relation;
    perform plinth.attach(bent.relation, bent.counter);
    uncounted := uncounted || bent.counter;
  end loop;
  if not exists (select from plinth.roles r where r.kind = 'service') then return; end if;
  -- Rows that came while a trigger was switched off: those of these tables, and of others that have many more rows, by the
  -- server's estimate, than were counted.
  for counter_id in
    select d.counter from plinth.counted d join pg_class c on c.oid = d.relation
    group by d.counter
    having d.counter = any (uncounted)
      or sum(greatest(c.reltuples, 0)) > 1000 + 1.1 * (select coalesce(sum(r.delta), 0) from plinth.row_deltas r where r.counter = d.counter)
  loop
    perform plinth.recount(counter_id);
  end loop;
end $$;

select set_config('plinth.in_ddl', '', true);
