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
create function plinth.keep_out(counter_id integer) returns void language plpgsql as $$
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
-- statement in it costs some µs: these are as few as can be.
create function plinth.write_on_insert(counter_id integer) returns void language plpgsql as $$
begin
  execute format($sql$
create function plinth.on_insert_%1$s() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $body$
declare
  name text := tg_table_name;
  added bigint;
  top bigint;
begin
  if tg_argv[0] = 'part' then name := plinth.told_name(tg_relid); end if;
  if plinth.is_subscribed(name, 'INSERT') and tg_table_schema = 'public' then
    insert into plinth.outbox (table_name, op, row) select name, 'INSERT', row_to_json(n.*)::text from new_rows n;
    get diagnostics added = row_count;
    if added = 0 then return null; end if;
    insert into plinth.row_deltas values (%1$s, added);
    if currval('plinth.outbox_id_seq') > pg_sequence_last_value('plinth.outbox_checked') then
      perform plinth.check_backlog();
    end if;
  else
    insert into plinth.row_deltas select %1$s, count(*) from new_rows having count(*) > 0 returning delta into added;
    if added is null then return null; end if;
  end if;
  if added = 1 then
    top := nextval('plinth.rows_%1$s');
  else
    select max(nextval('plinth.rows_%1$s')) into top from generate_series(1, added);
  end if;
  if top > plinth.max_rows() or plinth.is_size_exceeded() then perform plinth.check_insert(%1$s, added, top); end if;
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

-- Sets the sum right by a delta: rows and deltas are of one snapshot, so that it is right whoever else is at work.
create function plinth.recount(counter_id integer) returns bigint language plpgsql as $$
declare
  relation regclass := (select c.root from plinth.counters c where c.id = counter_id);
  rows_of text := 'plinth.rows_' || counter_id;
  missing bigint;
  held bigint;
begin
  execute format(
    'select count(*), count(*) - (select coalesce(sum(delta), 0) from plinth.row_deltas where counter = %s) from %s',
    counter_id, relation) into held, missing;
  if missing <> 0 then insert into plinth.row_deltas values (counter_id, missing); end if;
  if missing > 0 then perform nextval(rows_of::regclass) from generate_series(1, missing); end if;
  return held;
end $$;

create function plinth.count_truncate() returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform plinth.recount(tg_argv[0]::integer);
  return null;
end $$;

-- What ought to be counted, and where.
create view plinth.countable as
  with recursive up (relation, id) as (
    select c.oid, c.oid from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.relkind in ('r', 'p') and c.relpersistence <> 't' and plinth.is_user_schema(n.nspname::text)
    union all
    select up.relation, i.inhparent from up join pg_inherits i on i.inhrelid = up.id and i.inhseqno = 1)
  select relation, id as root from up where not exists (select from pg_inherits i where i.inhrelid = up.id and i.inhseqno = 1);

-- Tables as the plan counts them: partitions are part of theirs.
create function plinth.count_tables() returns bigint language sql stable as $$
  select count(*) from plinth.countable t join pg_class c on c.oid = t.relation where not c.relispartition
$$;

create function plinth.attach(relation regclass, counter_id integer) returns void language plpgsql as $$
declare
  kind text;
  is_root boolean := relation = (select c.root from plinth.counters c where c.id = counter_id);
  part text := case when is_root then 'root' else 'part' end;
  arguments text := format('%L, %L, %L', counter_id, 'plinth.rows_' || counter_id, part);
begin
  execute format('create or replace trigger plinth_insert after insert on %s referencing new table as new_rows
    for each statement execute function plinth.on_insert_%s(%L)', relation, counter_id, part);
  foreach kind in array array[
    'count_delete() after delete|referencing old table as old_rows', 'count_truncate() after truncate|',
    'tell_delete() after delete|referencing old table as old_rows',
    'tell_update() after update|referencing old table as old_rows new table as new_rows'] loop
    execute format('create or replace trigger plinth_%s %s on %s %s for each statement execute function plinth.%s(%s)',
      split_part(kind, '()', 1), split_part(split_part(kind, ') ', 2), '|', 1), relation, split_part(kind, '|', 2),
      split_part(kind, '()', 1), arguments);
  end loop;
  insert into plinth.counted values (relation, counter_id)
    on conflict on constraint counted_pkey do update set counter = excluded.counter;
end $$;

-- After every change of the schema: brings counters and triggers to what is there. Some 0.5 ms when nothing is to be done.
create function plinth.attach_tables() returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  own plinth.limits;
  item record;
  to_count integer[] := '{}';
  counter_id integer;
  tables bigint;
  held bigint;
  added boolean := false;
begin
  for item in
    select d.relation, d.counter from plinth.counted d where not exists (select from plinth.countable t where t.relation = d.relation)
  loop
    delete from plinth.counted d where d.relation = item.relation;
    to_count := to_count || item.counter;
  end loop;
  for item in
    select t.relation, t.root, d.counter, c.id as wanted from plinth.countable t
      left join plinth.counted d on d.relation = t.relation left join plinth.counters c on c.root = t.root
    where d.counter is null or d.counter is distinct from c.id order by t.relation = t.root desc, t.relation
  loop
    counter_id := (select c.id from plinth.counters c where c.root = item.root);
    if counter_id is null then
      insert into plinth.counters (root) values (item.root) returning id into counter_id;
      execute format('create sequence plinth.rows_%s minvalue 0 start 1', counter_id);
      perform plinth.write_on_insert(counter_id);
    end if;
    added := added or (item.counter is null and not (select relispartition from pg_class where oid = item.relation));
    perform plinth.attach(item.relation, counter_id);
    to_count := to_count || counter_id || coalesce(item.counter, counter_id);
  end loop;
  if cardinality(to_count) = 0 then return; end if;
  for item in select c.id from plinth.counters c where not exists (select from plinth.counted d where d.counter = c.id) loop
    execute format('drop function plinth.on_insert_%1$s() cascade; drop sequence plinth.rows_%1$s', item.id);
    delete from plinth.row_deltas d where d.counter = item.id;
    delete from plinth.counters c where c.id = item.id;
  end loop;
  select * into own from plinth.limits;
  tables := plinth.count_tables();
  if added and tables > own.max_tables then
    raise exception 'plan_limit_exceeded: the project would have % tables; the plan allows %', tables, own.max_tables
      using errcode = 'PLL01', detail = format('limit=tables value=%s', own.max_tables), hint = 'A larger plan holds more.';
  end if;
  for item in select c.id from plinth.counters c where c.id = any (to_count) loop
    held := plinth.recount(item.id);
    if added and held > own.max_rows then perform plinth.refuse_rows(item.id, held, own.max_rows); end if;
    if added and held > 0 and own.size_exceeded then perform plinth.refuse_size(); end if;
  end loop;
end $$;

insert into plinth.ddl_hooks (name, position, on_drop) values ('attach_tables', 20, true);

-- Tables of before.
select plinth.attach_tables();

-- Merges the deltas of a counter; only what is committed, and nobody waits.
create function plinth.merge_deltas(counter_id integer) returns bigint language sql as $$
  with gone as (delete from plinth.row_deltas where counter = counter_id returning delta),
  sums as (select sum(delta) as delta from gone group by sign(delta) having count(*) > 0),
  kept as (insert into plinth.row_deltas select counter_id, delta from sums returning delta)
  select coalesce(sum(delta), 0)::bigint from kept
$$;

-- All that was added and deleted, as one delta. Of the sequence more is used by that, until it is lowered.
create function plinth.fold_deltas(counter_id integer) returns void language sql as $$
  with gone as (delete from plinth.row_deltas where counter = counter_id returning delta)
  insert into plinth.row_deltas select counter_id, sum(delta) from gone having sum(delta) <> 0
$$;

-- Brings the sequence down to what is there. False when somebody is just adding rows. In a transaction of its own.
create function plinth.lower_bound(counter_id integer) returns boolean language plpgsql set lock_timeout = '20ms' as $$
begin
  perform plinth.keep_out(counter_id);
  perform setval(format('plinth.rows_%s', counter_id)::regclass, greatest(d.held + d.gone, 0)) from plinth.sum_deltas(counter_id) d;
  return true;
exception when lock_not_available then
  return false;
end $$;
