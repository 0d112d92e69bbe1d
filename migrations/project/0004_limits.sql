-- What the project's plan allows, on every way into the database: tables, rows of each table, size.
--
-- Rows. Each table that counts has a sequence, which no rollback takes back: it is at no time below the number of rows that
-- are there or on their way, and as long as that is within the limit nothing else is asked. Beside it every statement leaves
-- the rows that it added or took as a delta in its own transaction; their sum is exact. Only when the sequence is beyond
-- the limit is the sum asked: above the limit, the statement is refused; below it, with the sequence (less what was deleted)
-- at most a hundredth beyond, it goes on; else, with everyone else who adds rows to this table kept out until the end of the
-- transaction, both are set right. One counter row that all writers change cost 80 to 90 % of the write rate.

create table plinth.limits (
  only_row boolean primary key default true check (only_row),
  -- Null: any number.
  max_tables bigint,
  max_rows bigint,
  max_bytes bigint,
  -- By the last sweep.
  bytes bigint not null default 0,
  size_exceeded boolean not null default false
);
-- The platform writes what the plan says; until then nothing is refused.
insert into plinth.limits default values;

-- The limits as constants in the plans that ask for them, written anew with each change.
create function plinth.max_rows() returns bigint language sql immutable parallel safe as 'select 9223372036854775807::bigint';
create function plinth.is_size_exceeded() returns boolean language sql immutable parallel safe as 'select false';

create function plinth.write_limits() returns trigger language plpgsql as $$
begin
  if new.max_rows is distinct from old.max_rows then
    execute format('create or replace function plinth.max_rows() returns bigint language sql immutable parallel safe as %L',
      format('select %s::bigint', coalesce(new.max_rows, 9223372036854775807)));
  end if;
  if new.size_exceeded is distinct from old.size_exceeded then
    execute format('create or replace function plinth.is_size_exceeded() returns boolean language sql immutable parallel safe as %L',
      format('select %L::boolean', new.size_exceeded));
  end if;
  return null;
end $$;
create trigger plinth_write_limits after update on plinth.limits for each row execute function plinth.write_limits();

-- A counter is a root's: an ordinary table's, or that of a partitioned table or the head of an inheritance with all below it.
create table plinth.counters (
  id integer generated always as identity primary key,
  root regclass not null unique
);
create table plinth.counted (
  relation regclass primary key,
  counter integer not null references plinth.counters
);
create index counted_counter on plinth.counted (counter);
create table plinth.row_deltas (
  counter integer not null,
  -- Code of the project's can run as plinth_events (0003): it makes no room.
  delta bigint not null check (delta > 0 or current_user <> 'plinth_events')
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
create index row_deltas_counter on plinth.row_deltas (counter);

-- Who asks a sequence for a value holds it until the end of the transaction: changing the sequence waits for all who have
-- added rows, and keeps out who is about to. Nothing else has to be locked, which cost 4 µs each time. One at a time tries,
-- since two who have added rows themselves would wait for each other. Not the function of pg_catalog: that is guarded.
create function plinth.try_check(integer, integer) returns boolean
  language internal strict volatile as 'pg_try_advisory_xact_lock_int4';
create function plinth.keep_out(counter_id integer) returns void language plpgsql set plinth.in_ddl = 'on' as $$
begin
  execute format('alter sequence plinth.rows_%s owned by none', counter_id);
end $$;

create function plinth.refuse_size() returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare own plinth.limits;
begin
  select * into own from plinth.limits;
  raise exception 'plan_limit_exceeded: the database has % bytes; the plan allows %', own.bytes, own.max_bytes
    using errcode = 'PLL01', detail = format('limit=database_bytes value=%s', own.max_bytes),
      hint = 'Rows can be deleted, tables truncated or dropped; VACUUM FULL frees what deleted rows held. It is measured each minute.';
end $$;
grant execute on function plinth.refuse_size(), plinth.is_size_exceeded() to plinth_events;

-- For what no trigger of a table sees.
create function plinth.refuse_growth() returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if plinth.is_size_exceeded() then perform plinth.refuse_size(); end if;
end $$;

create function plinth.refuse_rows(counter_id integer, held bigint, most bigint) returns void language plpgsql as $$
begin
  raise exception 'plan_limit_exceeded: % would have % rows; the plan allows % in each table',
    (select root from plinth.counters where id = counter_id), held, most
    using errcode = 'PLL01', detail = format('limit=rows value=%s', most), hint = 'A larger plan holds more.';
end $$;

create function plinth.sum_deltas(counter_id integer, out held bigint, out gone bigint) language sql volatile as $$
  select coalesce(sum(d.delta), 0), coalesce(-sum(d.delta) filter (where d.delta < 0), 0)
  from plinth.row_deltas d where d.counter = counter_id
$$;

-- The sequence is beyond the limit. `top`: where it stands with the `added` rows of this statement.
create function plinth.check_insert(counter_id integer, added bigint, top bigint) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
declare
  most bigint := plinth.max_rows();
  rows_of regclass := format('plinth.rows_%s', counter_id);
  gone bigint;
  held bigint;
begin
  if plinth.is_size_exceeded() then perform plinth.refuse_size(); end if;
  if top <= most then return; end if;
  select * into held, gone from plinth.sum_deltas(counter_id);
  if held > most then perform plinth.refuse_rows(counter_id, held, most); end if;
  if top - gone <= most + most / 100 then return; end if;
  if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
    -- What others have done meanwhile is not to be seen.
    raise exception 'the rows of the table cannot be counted in this transaction' using errcode = '40001',
      hint = 'Try again, or at the isolation level read committed.';
  end if;
  if not plinth.try_check(1347176530, counter_id) then
    -- Who has it waits for the end of this transaction.
    raise exception 'others add rows to the table, which is nearly full' using errcode = '40001', hint = 'Try again.';
  end if;
  perform plinth.keep_out(counter_id);
  select * into held, gone from plinth.sum_deltas(counter_id);
  -- Nobody else is on the way. Right whether this transaction is kept or not: what it deletes counts only once it is.
  if held <= most then
    perform setval(rows_of, greatest(held + gone, 0));
  else
    perform setval(rows_of, greatest(held - added + gone, 0));
    perform plinth.refuse_rows(counter_id, held, most);
  end if;
end $$;
grant execute on function plinth.max_rows(), plinth.check_insert(integer, bigint, bigint) to plinth_events;
grant select, insert on plinth.row_deltas to plinth_events;

-- Counts what is added to a table, and tells of it: one trigger, since the mere call of another takes 2 to 10 µs. A function
-- of each counter's own, with constants where arguments of a trigger would be texts to be looked up each time. Each
-- statement in it costs some µs: these are as few as can be. It has no search path of its own, which took 1 to 4 µs to set:
-- every name and operator has its schema instead. Only a table that is part of another gives it an argument.
create function plinth.write_on_insert(counter_id integer) returns void language plpgsql as $$
begin
  execute format($sql$
create function plinth.on_insert_%1$s() returns trigger language plpgsql security definer as $body$
declare
  name pg_catalog.text := tg_table_name;
  added bigint;
  top bigint;
begin
  if tg_nargs operator(pg_catalog.>) 0 then name := plinth.told_name(tg_relid); end if;
  if plinth.is_subscribed(name, 'INSERT') and tg_table_schema operator(pg_catalog.=) 'public'::pg_catalog.name then
    insert into plinth.outbox (table_name, op, row)
      select name, 'INSERT', pg_catalog.row_to_json(n.*)::pg_catalog.text from new_rows n;
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
grant usage on sequence plinth.rows_%1$s to plinth_events;
alter function plinth.on_insert_%1$s() owner to plinth_events$sql$, counter_id);
end $$;

create function plinth.count_delete() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare gone bigint;
begin
  select count(*) into gone from old_rows;
  if gone > 0 then insert into plinth.row_deltas values (tg_argv[0]::integer, -gone); end if;
  return null;
end $$;

-- Counts rows, as the role whose key bypasses policies (it becomes the owner in plinth.set_roles): the mere planning of a
-- query runs functions of the project's, in the expressions of statistics, indexes and bounds. Stable, so that it looks at
-- the caller's snapshot. Only the named relations: of several parents' children each counts once.
create function plinth.count_rows(relations regclass[]) returns bigint
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare held bigint;
begin
  execute 'select sum(n)::bigint from (select 0::bigint as n'
    || (select coalesce(string_agg(format(' union all select count(*) from only %s', relation), ''), '') from unnest(relations) relation)
    || ') as counts' into held;
  return held;
end $$;
alter function plinth.count_rows(regclass[]) owner to plinth_events;

-- What count_rows needs, should the project have taken it away.
create function plinth.grant_counting(relations regclass[]) returns void language plpgsql set plinth.in_ddl = 'on' as $$
declare
  item record;
  service name := (select name from plinth.roles where kind = 'service');
begin
  for item in
    select c.oid::regclass as relation, n.nspname as schema, has_schema_privilege(service, n.oid, 'usage') as is_reached
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.oid = any (relations)
      and not (has_schema_privilege(service, n.oid, 'usage') and has_table_privilege(service, c.oid, 'select'))
  loop
    if not item.is_reached then execute format('grant usage on schema %I to %I', item.schema, service); end if;
    execute format('grant select on %s to %I', item.relation, service);
  end loop;
end $$;

-- Sets the sum right by a delta: rows and deltas are of one snapshot, so that it is right whoever else is at work.
create function plinth.recount(counter_id integer) returns bigint language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  relations regclass[] := array(
    select d.relation from plinth.counted d join pg_class c on c.oid = d.relation where d.counter = counter_id);
  rows_of text := 'plinth.rows_' || counter_id;
  missing bigint;
  held bigint;
begin
  perform plinth.grant_counting(relations);
  begin
    select n.rows, n.rows - n.told into held, missing from (
      select plinth.count_rows(relations) as rows,
        (select coalesce(sum(d.delta), 0) from plinth.row_deltas d where d.counter = counter_id)::bigint as told) n;
    -- Undoes what code of the project's did to this session, like a search path that would have what follows, as the
    -- platform, find functions of the project's. Variables keep what they have.
    raise exception using errcode = 'PLC01';
  exception when sqlstate 'PLC01' then
    -- Raised by somebody else.
    if held is null then raise exception 'the rows of the table cannot be counted' using errcode = '55000'; end if;
  end;
  if missing <> 0 then insert into plinth.row_deltas values (counter_id, missing); end if;
  if missing > 0 then perform nextval(rows_of::regclass) from generate_series(1, missing); end if;
  return held;
end $$;

create function plinth.count_truncate() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform plinth.recount(tg_argv[0]::integer);
  return null;
end $$;
