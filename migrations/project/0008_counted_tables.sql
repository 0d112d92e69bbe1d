-- Which tables are counted and told of: after every change of the schema counters and triggers are brought to what is there.

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
  arguments text := format('%L, %L, %L', counter_id, 'plinth.rows_' || counter_id, case when is_root then 'root' else 'part' end);
begin
  execute format('create or replace trigger plinth_insert after insert on %s referencing new table as new_rows
    for each statement execute function plinth.on_insert_%s(%s)', relation, counter_id, case when is_root then '' else '''part''' end);
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
  -- Until it is told its roles, the database has nobody who could count.
  if not exists (select from plinth.roles r where r.kind = 'service') then return; end if;
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

-- Merges the deltas of a counter; only what is committed, and nobody waits.
create function plinth.merge_deltas(counter_id integer) returns bigint language sql as $$
  with gone as (delete from plinth.row_deltas where counter = counter_id returning delta),
  sums as (select sum(delta) as delta from gone group by sign(delta) having count(*) > 0),
  kept as (insert into plinth.row_deltas select counter_id, delta from sums returning delta)
  select coalesce(sum(delta), 0)::bigint from kept
$$;

-- The upper bound of a table's rows. The view pg_sequences would wait for who has set it right.
create function plinth.top_of(counter_id integer) returns bigint language plpgsql as $$
declare top bigint;
begin
  execute format('select last_value from plinth.rows_%s', counter_id) into top;
  return top;
end $$;

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
