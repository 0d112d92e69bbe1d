-- Code of a project's that runs while a row becomes JSON ran as the role that owned the triggers' functions and wrote the
-- outbox: it could write events of its own, of any size, and switch triggers off. The work is divided here. plinth_triggers
-- owns the triggers' functions and never runs anything of a project's; plinth_events makes JSON of rows and has no rights.

-- The platform's own changes need no answer.
select set_config('plinth.in_ddl', 'on', true);

do $$ begin
  if not exists (select from pg_roles where rolname = 'plinth_triggers') then
    create role plinth_triggers nologin noinherit;
  end if;
exception when duplicate_object or unique_violation then
  null; -- Another database of this server was upgraded at the same time.
end $$;

-- As before, and: a migration of the platform's may use DROP OWNED.
create or replace function plinth.on_ddl() returns event_trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  -- It takes away rights on the database, too: the project would be locked out of itself.
  if tg_tag = 'DROP OWNED' and not has_schema_privilege(session_user, 'plinth', 'create') then
    raise exception 'DROP OWNED is not available' using errcode = '42501', hint = 'Drop schemas or tables by name.';
  end if;
  if not plinth_api.is_own_change() then perform plinth_api.after_ddl(); end if;
end $$;

grant usage on schema plinth to plinth_triggers;
grant insert, select on plinth.outbox, plinth.row_deltas to plinth_triggers;
grant select on sequence plinth.outbox_id_seq, plinth.outbox_checked to plinth_triggers;
grant execute on function plinth.is_subscribed(text, text), plinth.check_backlog(), plinth.refuse_event(bigint),
  plinth.told_name(oid), plinth.refuse_size(), plinth.is_size_exceeded(), plinth.max_rows(),
  plinth.check_insert(integer, bigint, bigint) to plinth_triggers;

-- A built-in function under another owner: 0.5 µs more for each row, where one in PL/pgSQL takes 1.6 more.
do $$ begin
  if (select rolsuper from pg_roles where rolname = current_user) then
    create function plinth.row_json(record) returns json
      language internal stable strict parallel safe security definer as 'row_to_json';
  else
    -- Who hands a function over must be a member.
    grant plinth_triggers to current_user;
    grant create on schema plinth to plinth_triggers;
    create function plinth.row_json(record) returns json language plpgsql stable strict parallel safe security definer
      set search_path = pg_catalog, pg_temp as 'begin return row_to_json($1); end';
  end if;
end $$;
grant execute on function plinth.row_json(record) to plinth_triggers;

-- As in 0012, but for who makes the JSON.
create or replace function plinth.tell_delete() returns trigger
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  told_as text := tg_table_name;
  told bigint;
begin
  if tg_argv[2] = 'part' then told_as := plinth.told_name(tg_relid); end if;
  if tg_table_schema <> 'public' or not plinth.is_subscribed(told_as, 'DELETE') then return null; end if;
  insert into plinth.outbox (table_name, op, row)
    select told_as, 'DELETE', case when octet_length(o.json) <= 8388608 then o.json
      else plinth.refuse_event(octet_length(o.json))::text end
    from (select plinth.row_json(r.*)::text as json from old_rows r offset 0) o;
  get diagnostics told = row_count;
  if told > 0 and currval('plinth.outbox_id_seq') > pg_sequence_last_value('plinth.outbox_checked') then
    perform plinth.check_backlog();
  end if;
  return null;
end $$;

create or replace function plinth.tell_update() returns trigger
  language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  told_as text := tg_table_name;
  told bigint;
begin
  if plinth.is_size_exceeded() then perform plinth.refuse_size(); end if;
  if tg_argv[2] = 'part' then told_as := plinth.told_name(tg_relid); end if;
  if tg_table_schema <> 'public' or not plinth.is_subscribed(told_as, 'UPDATE') then return null; end if;
  -- Both are in the order in which the rows were changed. They differ in number when a trigger of the project's kept a row
  -- from entering the partition that it was moved to: which one, nobody knows.
  insert into plinth.outbox (table_name, op, row, old)
    select told_as, 'UPDATE', case when e.size <= 8388608 then e.row else plinth.refuse_event(e.size)::text end,
      e.old
    from (
      select n.row, case when n.of = o.of then o.row end as old,
        octet_length(n.row)::bigint + coalesce(octet_length(case when n.of = o.of then o.row end), 0) as size
      from (select row_number() over () as k, count(*) over () as of, plinth.row_json(r.*)::text as row from new_rows r) n
      left join (select row_number() over () as k, count(*) over () as of, plinth.row_json(r.*)::text as row from old_rows r) o
        using (k)
      offset 0) e;
  get diagnostics told = row_count;
  if told > 0 and currval('plinth.outbox_id_seq') > pg_sequence_last_value('plinth.outbox_checked') then
    perform plinth.check_backlog();
  end if;
  return null;
end $$;

create or replace function plinth.write_on_insert(counter_id integer) returns void
  language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  execute format($sql$
create or replace function plinth.on_insert_%1$s() returns trigger language plpgsql security definer as $body$
declare
  told_as pg_catalog.text := tg_table_name;
  added bigint;
  top bigint;
begin
  if tg_nargs operator(pg_catalog.>) 0 then told_as := plinth.told_name(tg_relid); end if;
  if plinth.is_subscribed(told_as, 'INSERT') and tg_table_schema operator(pg_catalog.=) 'public'::pg_catalog.name then
    insert into plinth.outbox (table_name, op, row)
      select told_as, 'INSERT', case when pg_catalog.octet_length(n.json) operator(pg_catalog.<=) 8388608 then n.json
        else plinth.refuse_event(pg_catalog.octet_length(n.json)::pg_catalog.int8)::pg_catalog.text end
      from (select plinth.row_json(r.*)::pg_catalog.text as json from new_rows r offset 0) n;
    get diagnostics added = row_count;
    if added operator(pg_catalog.=) 0 then return null; end if;
    insert into plinth.row_deltas values (%1$s, added);
    if pg_catalog.currval('plinth.outbox_id_seq'::pg_catalog.regclass) operator(pg_catalog.>)
        pg_catalog.pg_sequence_last_value('plinth.outbox_checked'::pg_catalog.regclass) then
      perform plinth.check_backlog();
    end if;
  else
    insert into plinth.row_deltas select %1$s, pg_catalog.count(*) from new_rows
      having pg_catalog.count(*) operator(pg_catalog.>) 0 returning delta into added;
    if added is null then return null; end if;
  end if;
  if added operator(pg_catalog.=) 1 then
    top := pg_catalog.nextval('plinth.rows_%1$s'::pg_catalog.regclass);
  else
    select pg_catalog.max(pg_catalog.nextval('plinth.rows_%1$s'::pg_catalog.regclass)) into top
      from pg_catalog.generate_series(1::bigint, added);
  end if;
  if top operator(pg_catalog.>) plinth.max_rows() or plinth.is_size_exceeded() then
    perform plinth.check_insert(%1$s, added, top);
  end if;
  return null;
end $body$;
grant usage on sequence plinth.rows_%1$s to plinth_triggers;
alter function plinth.on_insert_%1$s() owner to plinth_triggers$sql$, counter_id);
end $$;

create or replace function plinth.role_is_visible(role oid) returns boolean language sql stable
  return role < 16384 or has_database_privilege(role, current_database(), 'connect')
    or role in (to_regrole('anon'), to_regrole('authenticated'), to_regrole('plinth_events'), to_regrole('plinth_triggers'))
    or has_schema_privilege('plinth', 'create');

alter function plinth.tell_delete() owner to plinth_triggers;
alter function plinth.tell_update() owner to plinth_triggers;
select plinth.write_on_insert(id) from plinth.counters;

-- Takes everything from plinth_events: its rights, and what code of a project's may have made or changed as that role, which
-- becomes the project's own.
do $$
declare
  is_super boolean := (select rolsuper from pg_roles where rolname = current_user);
  owner name := (select r.name from plinth.roles r where r.kind = 'owner');
  -- The function that counts belongs to this role until the project has its own.
  counts boolean := (select proowner = 'plinth_events'::regrole from pg_proc where oid = 'plinth.count_rows(regclass[])'::regprocedure);
begin
  if counts then execute format('alter function plinth.count_rows(regclass[]) owner to %I', current_user); end if;
  if is_super and owner is not null then execute format('reassign owned by plinth_events to %I', owner); end if;
  drop owned by plinth_events;
  if not is_super then grant create on schema plinth to plinth_events; end if;
  if counts then alter function plinth.count_rows(regclass[]) owner to plinth_events; end if;
  alter function plinth.row_json(record) owner to plinth_events;
  if not is_super then revoke create on schema plinth from plinth_events; end if;
end $$;

select set_config('plinth.in_ddl', '', true);
