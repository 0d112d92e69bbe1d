-- What happened to the rows of public tables, kept until the platform's relay has taken it: one row for each changed row,
-- in the change's own transaction. Nothing is kept of what nobody subscribes to.

-- Turns rows into JSON, with no other right than to write them down: a type of the project's can have a cast to json, which
-- is code of the project's, and that is not to run as the platform.
do $$ begin
  if not exists (select from pg_roles where rolname = 'plinth_events') then
    create role plinth_events nologin noinherit;
  end if;
exception when duplicate_object or unique_violation then
  null; -- Another database of this server was brought up to date at the same time.
end $$;

-- One event must fit into the relay's memory, several times over. Called for those alone that are too large.
create function plinth.refuse_event(size bigint) returns boolean
  language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
  raise exception 'event_too_large: a row is % bytes as JSON, and something subscribes to its table: 8388608 bytes at most, with the old row when it is updated, can be told',
    size using errcode = 'PLE02', hint = 'Keep large values in a table of their own, or in storage.';
end $$;

create table plinth.outbox (
  id bigint generated always as identity primary key,
  ts timestamptz not null default clock_timestamp(),
  table_name text not null,
  op text not null,
  -- JSON, exact: text, since jsonb refuses \u0000 and knows no other numbers than its own.
  row text not null,
  -- Before an update.
  old text,
  constraint outbox_fits check (
    case when octet_length(row)::bigint + coalesce(octet_length(old), 0) <= 8388608 then true
      else plinth.refuse_event(octet_length(row)::bigint + coalesce(octet_length(old), 0)) end)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);

-- What the control database did not take. Nobody but a person looks here.
create table plinth.outbox_failed (
  id bigint primary key,
  ts timestamptz not null,
  table_name text not null,
  op text not null,
  row text not null,
  old text,
  reason text not null,
  failed_at timestamptz not null default clock_timestamp()
);

-- Null: all of them.
create table plinth.subscriptions (
  table_name text,
  op text check (op in ('INSERT', 'UPDATE', 'DELETE')),
  unique nulls not distinct (table_name, op)
);

-- An undrained outbox is bounded: above that, writes to subscribed tables are refused, and nothing is dropped.
create table plinth.outbox_limits (
  only_row boolean primary key default true check (only_row),
  max_rows bigint not null default 1000000,
  max_bytes bigint not null default 268435456
);
insert into plinth.outbox_limits default values;

-- The id up to which nobody has to look how full the outbox is. A sequence, since what a refused statement writes elsewhere
-- is lost, and since it is read in 1 µs: the sizes of the files, asked with each write, took 17.
create sequence plinth.outbox_checked minvalue 0;
select setval('plinth.outbox_checked', 0);

-- Whether anybody subscribes to an operation on a table. Written anew with each change of the subscriptions, so that the
-- question is answered by constants in the caller's plan: 1 µs, where a look into the table takes 8.
create function plinth.is_subscribed(table_name text, op text) returns boolean
  language sql immutable parallel safe return false;

-- Its operators are looked up when it is written, and not in the search path of whoever asks.
create function plinth.write_subscriptions() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  execute format(
    'create or replace function plinth.is_subscribed(table_name text, op text) returns boolean
       language sql immutable parallel safe return %s',
    format(
      '$2 = any (%L::text[]) or $1 = any (%L::text[]) or ($2 || %L || $1) = any (%L::text[])',
      (select coalesce(array_agg(o), '{}') from unnest(array['INSERT', 'UPDATE', 'DELETE']) o
        where exists (select from plinth.subscriptions s where s.table_name is null and coalesce(s.op, o) = o)),
      (select coalesce(array_agg(s.table_name), '{}') from plinth.subscriptions s where s.op is null and s.table_name is not null),
      ' ',
      (select coalesce(array_agg(s.op || ' ' || s.table_name), '{}') from plinth.subscriptions s where s.op is not null and s.table_name is not null)));
  return null;
end $$;
create trigger plinth_write_subscriptions after insert or update or delete on plinth.subscriptions
  for each statement execute function plinth.write_subscriptions();

-- Ids have no gaps but those of rolled-back writes, so that the distance of the ends bounds the number from above. No event
-- takes less than 64 bytes. Where there is room, the next look is due some events later, 64 at most: by as much can the bytes
-- be exceeded, not the rows.
create function plinth.check_backlog() returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  most plinth.outbox_limits;
  size bigint := pg_table_size('plinth.outbox');
  held bigint := size / 64;
begin
  select * into most from plinth.outbox_limits;
  if held > most.max_rows then select coalesce(max(id) - min(id) + 1, 0) into held from plinth.outbox; end if;
  if held > most.max_rows or size > most.max_bytes then
    -- Gaps, or space that is free again: counted, but no further than needed.
    select count(*) into held from (select from plinth.outbox limit most.max_rows + 1) as those;
  end if;
  if size > most.max_bytes or held > most.max_rows then
    raise exception 'event_backlog_full: % events of this project (% bytes) wait to be taken; at most % (% bytes) may',
      held, size, most.max_rows, most.max_bytes
      using errcode = 'PLE01', hint = 'Writes to tables that something subscribes to go on as soon as the events are taken.';
  end if;
  perform setval('plinth.outbox_checked', currval('plinth.outbox_id_seq')
    + least(64, most.max_rows - held, (most.max_bytes - size) / 65536));
end $$;

-- The table that a row's event is told of: a partition's rows, and those of a table that inherits, are the root's.
create function plinth.told_name(relation oid) returns text language sql stable set search_path = pg_catalog, pg_temp as $$
  with recursive up (id, depth) as (
    select relation, 0 union all select i.inhparent, up.depth + 1 from up join pg_inherits i on i.inhrelid = up.id and i.inhseqno = 1)
  select c.relname::text from up join pg_class c on c.oid = up.id order by up.depth desc limit 1
$$;

-- The third argument of each trigger says whether its table stands for itself. What tells of inserts counts them, too (0004).
create function plinth.tell_delete() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  name text := tg_table_name;
  told bigint;
begin
  if tg_argv[2] = 'part' then name := plinth.told_name(tg_relid); end if;
  if tg_table_schema <> 'public' or not plinth.is_subscribed(name, 'DELETE') then return null; end if;
  insert into plinth.outbox (table_name, op, row) select name, 'DELETE', row_to_json(o.*)::text from old_rows o;
  get diagnostics told = row_count;
  if told > 0 and currval('plinth.outbox_id_seq') > pg_sequence_last_value('plinth.outbox_checked') then
    perform plinth.check_backlog();
  end if;
  return null;
end $$;

create function plinth.tell_update() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  name text := tg_table_name;
  told bigint;
begin
  if plinth.is_size_exceeded() then perform plinth.refuse_size(); end if;
  if tg_argv[2] = 'part' then name := plinth.told_name(tg_relid); end if;
  if tg_table_schema <> 'public' or not plinth.is_subscribed(name, 'UPDATE') then return null; end if;
  -- Both are in the order in which the rows were changed. They differ in number when a trigger of the project's kept a row
  -- from entering the partition that it was moved to: which one, nobody knows.
  insert into plinth.outbox (table_name, op, row, old)
    select name, 'UPDATE', n.row, case when n.of = o.of then o.row end
    from (select row_number() over () as k, count(*) over () as of, row_to_json(r.*)::text as row from new_rows r) n
    left join (select row_number() over () as k, count(*) over () as of, row_to_json(r.*)::text as row from old_rows r) o using (k);
  get diagnostics told = row_count;
  if told > 0 and currval('plinth.outbox_id_seq') > pg_sequence_last_value('plinth.outbox_checked') then
    perform plinth.check_backlog();
  end if;
  return null;
end $$;

grant usage on schema plinth to plinth_events;
grant insert, select on plinth.outbox to plinth_events;
grant select on sequence plinth.outbox_id_seq, plinth.outbox_checked to plinth_events;
grant execute on function plinth.is_subscribed(text, text), plinth.check_backlog(), plinth.refuse_event(bigint), plinth.told_name(oid) to plinth_events;
-- Who hands a function over must be a member, unless it is a superuser.
do $$ begin
  if not (select rolsuper from pg_roles where rolname = current_user) then
    grant plinth_events to current_user;
    grant create on schema plinth to plinth_events;
  end if;
end $$;
alter function plinth.tell_update() owner to plinth_events;
alter function plinth.tell_delete() owner to plinth_events;
