-- Range types of the project's own. What makes their values, as x(1, 5) does, belongs to the server's first superuser,
-- whoever makes the type; where that is the platform, 0001 has closed its functions, even to who makes the type.

-- As before, and: CREATE TYPE … AS RANGE checks that its maker may execute what it makes. Schema by schema, so that it holds
-- for nothing in the platform's own; what else the platform makes in a project's schemas are extensions, and their functions
-- are the owner's in any case. Not for temporary schemas, which nothing tells of.
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
  -- 10 is the first superuser of every server.
  if owner is not null and (select oid from pg_authid where rolname = current_user) = 10 then
    execute format('alter default privileges in schema %I grant execute on functions to %I', made.name, owner);
  end if;
end $$;

-- Opens what makes the values of a range type and its multirange type. It only computes, as what makes the server's own
-- ranges does, and the owner cannot grant it; end users need it where a policy or a generated column has one. Recognized by
-- its code, which nobody but the server puts there.
create function plinth.open_range_type(range oid) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare constructor regprocedure;
begin
  for constructor in
    select p.oid from pg_range r
    join pg_depend d on d.refclassid = 'pg_type'::regclass and d.refobjid in (r.rngtypid, r.rngmultitypid)
      and d.classid = 'pg_proc'::regclass and d.deptype = 'i'
    join pg_proc p on p.oid = d.objid
    join pg_language l on l.oid = p.prolang and l.lanname = 'internal'
    where r.rngtypid = range and p.prosrc ~ '^(range|multirange)_constructor[0-3]$'
      and not has_function_privilege('public', p.oid, 'execute')
  loop
    execute format('grant execute on function %s to public', constructor);
  end loop;
end $$;

create function plinth.open_range_types() returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  perform plinth.open_range_type(command.objid) from pg_event_trigger_ddl_commands() command
    where command.command_tag = 'CREATE TYPE' and command.classid = 'pg_type'::regclass;
end $$;

insert into plinth.ddl_hooks (name, position) values ('open_range_types', 30);

-- What was there before, and may have been closed since; elsewhere the server's first superuser has closed nothing.
select plinth.open_range_type(r.rngtypid) from pg_range r
where r.rngtypid >= 16384 and (select rolsuper from pg_roles where rolname = current_user);
