-- TRUNCATE of a table that somebody subscribes to leaves one event, without rows.

select set_config('plinth.in_ddl', 'on', true);

-- The name that PostgreSQL has given to the check of the column.
alter table plinth.subscriptions drop constraint subscriptions_op_check;
alter table plinth.subscriptions add constraint subscriptions_op_check
  check (op in ('INSERT', 'UPDATE', 'DELETE', 'TRUNCATE'));

-- As in 0003, and: TRUNCATE is one of the operations that are subscribed to when none is named.
create or replace function plinth.write_subscriptions() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  execute format(
    'create or replace function plinth.is_subscribed(table_name text, op text) returns boolean
       language sql immutable parallel safe return %s',
    format(
      '$2 = any (%L::text[]) or $1 = any (%L::text[]) or ($2 || %L || $1) = any (%L::text[])',
      (select coalesce(array_agg(o), '{}') from unnest(array['INSERT', 'UPDATE', 'DELETE', 'TRUNCATE']) o
        where exists (select from plinth.subscriptions s where s.table_name is null and coalesce(s.op, o) = o)),
      (select coalesce(array_agg(s.table_name), '{}') from plinth.subscriptions s where s.op is null and s.table_name is not null),
      ' ',
      (select coalesce(array_agg(s.op || ' ' || s.table_name), '{}') from plinth.subscriptions s where s.op is not null and s.table_name is not null)));
  return null;
end $$;
-- What is subscribed to already, with the operation that is new.
update plinth.subscriptions set op = op where table_name is null and op is null;

-- As in 0004, and: tells of it. Of a partitioned table, or one that others inherit from, once; not of a single partition,
-- whose table still has rows.
create or replace function plinth.count_truncate() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if tg_argv[2] = 'root' and tg_table_schema = 'public' and plinth.is_subscribed(tg_table_name, 'TRUNCATE') then
    insert into plinth.outbox (table_name, op, row) values (tg_table_name, 'TRUNCATE', 'null');
    if currval('plinth.outbox_id_seq') > pg_sequence_last_value('plinth.outbox_checked') then
      perform plinth.check_backlog();
    end if;
  end if;
  perform plinth.recount(tg_argv[0]::integer);
  return null;
end $$;

select set_config('plinth.in_ddl', '', true);
