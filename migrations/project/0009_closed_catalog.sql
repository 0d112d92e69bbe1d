-- The helpers that policies use, and, where the platform is the server's superuser, a catalog that tells nothing of the
-- neighbours and functions that cannot use up what all projects share. Last of all the event triggers.

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

-- Large objects have no triggers. Bound when they are made, since nobody may name what is behind them, and not as the
-- platform: whose an object is and who may write to it stays as it was.
create function plinth.limit_large_objects() returns void language plpgsql as $body$
declare original record;
begin
  perform plinth.take_away(name) from unnest(array['lo_creat', 'lo_create', 'lo_from_bytea', 'lo_put', 'lowrite']) name;
  for original in
    select p.oid::regprocedure as signature, p.proname, pg_get_function_identity_arguments(p.oid) as types,
      p.prorettype::regtype as result,
      (select string_agg('$' || n, ', ') from generate_series(1, p.pronargs) n) as arguments
    from pg_proc p where pronamespace = 'plinth'::regnamespace and oid < 16384
      and proname in ('lo_creat', 'lo_create', 'lo_from_bytea', 'lo_put', 'lowrite')
  loop
    execute format($wrapper$
      create function pg_catalog.%1$I(%2$s) returns %3$s language sql volatile strict
      begin atomic
        select plinth.refuse_growth();
        select plinth.%1$I(%4$s);
      end;
      grant execute on function %5$s to public$wrapper$,
      original.proname, original.types, original.result, original.arguments, original.signature);
  end loop;
  -- The others make objects: 0001 took them from everybody.
  grant execute on function pg_catalog.lo_put(oid, bigint, bytea), pg_catalog.lowrite(integer, bytea) to public;
  grant execute on function plinth.refuse_growth() to public;
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
  perform plinth.limit_large_objects();
  perform plinth.hide_neighbours();
  perform set_config('allow_system_table_mods', 'off', true);
  -- The numbers of relations are others there.
  delete from plinth.opened;
  insert into plinth.opened select c.oid from pg_class c
    where c.relnamespace = 'public'::regnamespace and plinth.may_open(c) and plinth.has_end_user_rights(c);
end $$;

-- Before commands that write what no trigger of a table sees; an ALTER TABLE that does is a rewrite. Not at the end of the
-- command: CREATE INDEX CONCURRENTLY has committed by then.
create function plinth.on_growth() returns event_trigger language plpgsql security definer as $$
begin
  if not has_schema_privilege(session_user, 'plinth', 'create') then perform plinth.refuse_growth(); end if;
end $$;
grant execute on function plinth.on_growth() to public;

-- Hands the function that counts to the role that may: as the platform it would run the project's code.
create function plinth.set_counting(service name) returns void language plpgsql as $$
declare is_super boolean := (select rolsuper from pg_roles where rolname = current_user);
begin
  -- Who is given a function must be able to make one there, unless a superuser gives it.
  if not is_super then execute format('grant create on schema plinth to %I', service); end if;
  execute format('alter function plinth.count_rows(regclass[]) owner to %I', service);
  if not is_super then execute format('revoke create on schema plinth from %I', service); end if;
end $$;

-- Tells the database which roles are its project's, and gives them what they need of what was made before.
create function plinth.set_roles(kinds text[], names name[]) returns void language plpgsql set plinth.in_ddl = 'on' as $$
begin
  perform plinth.make_room();
  insert into plinth.roles select kind, name from unnest(kinds, names) as given (kind, name)
    on conflict (kind) do update set name = excluded.name;
  perform plinth.grant_schema(oid) from pg_namespace;
  perform plinth.set_counting(name) from plinth.roles where kind = 'service';
  perform plinth.attach_tables();
end $$;

-- None of the platform's functions finds what a project puts before it, whoever calls it. Not those that are bound when they
-- are made, nor the constants that become part of their callers' plans.
do $$
declare routine regprocedure;
begin
  for routine in
    select p.oid from pg_proc p join pg_language l on l.oid = p.prolang
    where p.pronamespace in ('plinth'::regnamespace, 'plinth_api'::regnamespace, 'plinth_migrations'::regnamespace)
      and l.lanname in ('sql', 'plpgsql') and p.prosqlbody is null
      and p.proname not in ('is_subscribed', 'max_rows', 'is_size_exceeded')
      and not exists (select from unnest(p.proconfig) setting where starts_with(setting, 'search_path='))
      and pg_has_role(p.proowner, 'usage')
  loop
    execute format('alter routine %s set search_path = pg_catalog, pg_temp', routine);
  end loop;
end $$;

do $$
begin
  if (select rolsuper from pg_roles where rolname = current_user) then
    perform plinth.guard_catalog();
    create event trigger plinth_on_rewrite on table_rewrite execute function plinth.on_growth();
    create event trigger plinth_on_growth on ddl_command_start
      when tag in ('CREATE INDEX', 'CREATE MATERIALIZED VIEW', 'REFRESH MATERIALIZED VIEW', 'CREATE TABLE AS', 'SELECT INTO')
      execute function plinth.on_growth();
    create event trigger plinth_on_ddl on ddl_command_end execute function plinth.on_ddl();
    create event trigger plinth_on_drop on sql_drop execute function plinth.on_drop();
  else
    raise notice 'only a superuser makes event triggers: tables stay closed to end users until they are opened by hand';
  end if;
end $$;

-- What was there before.
select plinth.open_or_close(oid) from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p', 'v', 'm', 'f');
