-- Rights of roles that are not the project's. The server notes each of them against the role, in a catalog that all
-- databases share, and drops no role that something is noted against: a right that a project gives to a role of its
-- neighbour would keep the neighbour's deletion from ever coming to its end.

-- Refuses a command that gave one. A neighbour's role is known by the form of its name; roles that whoever runs the server
-- has made for purposes of their own may have rights here.
create function plinth.refuse_strangers() returns void
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
    and r.rolname ~ '^[a-z0-9]{20}_(owner|api|service|reader)$' and r.rolname not in (select o.name from plinth.roles o)
  limit 1;
  if found then
    raise exception 'the role % is not of this project', stranger
      using errcode = '42501', hint = 'Rights and policies are for anon, authenticated and the project''s own roles.';
  end if;
end $$;

insert into plinth.ddl_hooks (name, position) values ('refuse_strangers', 30);
