-- The limits of tables and rows, for who makes tables at the same time, and for partitions that are attached and detached.
--
-- Tables. A sequence, which no rollback takes back, is at no time below the number of tables that are there or on their way
-- (as in 0004 for rows): while that is within the limit nobody waits. Beyond it, who makes a table waits for the end of the
-- transactions that have made some, counts, and sets the sequence right. A lock on the row of the limits for each table would
-- have every two transactions that make tables wait for each other, and the sweep that writes the limits wait for both.

select set_config('plinth.in_ddl', 'on', true);

create sequence plinth.tables_made minvalue 0;
select setval('plinth.tables_made', plinth.count_tables());

-- Locked and never written: row exclusive by who has made tables, share row exclusive by who counts them.
create table plinth.table_gate (only_row boolean primary key default true check (only_row));

create function plinth.reserve_tables(added integer, most bigint) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  top bigint;
  tables bigint;
begin
  if (select last_value from plinth.tables_made) + added <= most then
    begin
      lock table plinth.table_gate in row exclusive mode;
      select max(nextval('plinth.tables_made')) into top from generate_series(1, added);
      if top <= most then return; end if;
      -- Others were faster. Gives the lock back: with it, two that count would wait for each other.
      raise exception using errcode = 'PLC02';
    exception when sqlstate 'PLC02' then null;
    end;
  end if;
  lock table plinth.table_gate in share row exclusive mode;
  tables := plinth.count_tables();
  if tables > most then
    raise exception 'plan_limit_exceeded: the project would have % tables; the plan allows %', tables, most
      using errcode = 'PLL01', detail = format('limit=tables value=%s', most), hint = 'A larger plan holds more.';
  end if;
  perform plinth.refuse_old_snapshot('the tables of the project');
  perform setval('plinth.tables_made', tables);
end $$;

create function plinth.refuse_old_snapshot(counted text) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
    -- What others have done meanwhile is not to be seen.
    raise exception '% cannot be counted in this transaction', counted using errcode = '40001',
      hint = 'Try again, or at the isolation level read committed.';
  end if;
end $$;

-- Brings the sequence down to what is there. False when somebody is just making tables. In a transaction of its own.
create function plinth.lower_tables() returns boolean
language plpgsql set search_path = pg_catalog, pg_temp set lock_timeout = '20ms' as $$
begin
  if (select last_value from plinth.tables_made) <= plinth.count_tables() then return true; end if;
  lock table plinth.table_gate in share row exclusive mode;
  perform setval('plinth.tables_made', plinth.count_tables());
  return true;
exception when lock_not_available then
  return false;
end $$;

-- Counts the rows of each counter anew. Those of `grown` got relations: one transaction after the other, since each sees only
-- its own, and at an isolation level that sees what is committed by then.
create function plinth.recount_all(to_count integer[], grown integer[], added_rows boolean) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  own plinth.limits;
  counter_id integer;
  held bigint;
begin
  select * into own from plinth.limits;
  if cardinality(grown) > 0 and own.max_rows is not null then
    perform plinth.refuse_old_snapshot('the rows of the table');
    perform from plinth.counters c where c.id = any (grown) order by c.id for no key update;
  end if;
  for counter_id in select c.id from plinth.counters c where c.id = any (to_count) loop
    held := plinth.recount(counter_id);
    if (added_rows or counter_id = any (grown)) and held > own.max_rows then
      perform plinth.refuse_rows(counter_id, held, own.max_rows);
    end if;
    if added_rows and held > 0 and own.size_exceeded then perform plinth.refuse_size(); end if;
  end loop;
end $$;

-- As in 0008, and: a table that changes its root adds its rows to that root's, and is a table of its own once it is detached.
create or replace function plinth.attach_tables() returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  item record;
  to_count integer[] := '{}';
  grown integer[] := '{}';
  counter_id integer;
  added integer := 0;
  is_new boolean := false;
begin
  -- Until it is told its roles, the database has nobody who could count.
  if not exists (select from plinth.roles r where r.kind = 'service') then return; end if;
  for item in
    select d.relation, d.counter from plinth.counted d where not exists (select from plinth.countable t where t.relation = d.relation)
  loop
    delete from plinth.counted d where d.relation = item.relation;
    to_count := to_count || item.counter;
  end loop;
  for item in
    select t.relation, t.root, d.counter, c.id as wanted, own.relispartition as is_partition
    from plinth.countable t join pg_class own on own.oid = t.relation
      left join plinth.counted d on d.relation = t.relation left join plinth.counters c on c.root = t.root
    where d.counter is null or d.counter is distinct from c.id order by t.relation = t.root desc, t.relation
  loop
    counter_id := (select c.id from plinth.counters c where c.root = item.root);
    if counter_id is null then
      insert into plinth.counters (root) values (item.root) returning id into counter_id;
      execute format('create sequence plinth.rows_%s minvalue 0 start 1', counter_id);
      perform plinth.write_on_insert(counter_id);
    end if;
    if not item.is_partition then
      is_new := is_new or item.counter is null;
      if item.counter is null or item.relation = item.root then added := added + 1; end if;
    end if;
    -- A new partition is empty, unless it comes from a schema that is not counted.
    if item.counter is not null or (item.relation <> item.root and pg_relation_size(item.relation) > 0) then
      grown := grown || counter_id;
    end if;
    perform plinth.attach(item.relation, counter_id);
    to_count := to_count || counter_id || coalesce(item.counter, counter_id);
  end loop;
  if cardinality(to_count) = 0 then return; end if;
  for item in select c.id from plinth.counters c where not exists (select from plinth.counted d where d.counter = c.id) loop
    execute format('drop function plinth.on_insert_%1$s() cascade; drop sequence plinth.rows_%1$s', item.id);
    delete from plinth.row_deltas d where d.counter = item.id;
    delete from plinth.counters c where c.id = item.id;
  end loop;
  if added > 0 then
    perform plinth.reserve_tables(added, coalesce((select max_tables from plinth.limits), 9223372036854775807));
  end if;
  perform plinth.recount_all(to_count, grown, is_new);
end $$;

select set_config('plinth.in_ddl', '', true);
