-- Who may use what is made in a project's database: end users what policies guard, a secret key and readers the rest.

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
