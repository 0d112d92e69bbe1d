-- A transaction that dropped tables and made others counted without those that it had dropped, lowered the sequence to that,
-- and was rolled back: the tables were back and the sequence, which no rollback takes back, stayed low.

select set_config('plinth.in_ddl', 'on', true);

-- As in 0018, but never lowers the sequence, which is right whether this transaction is kept or not. Who drops tables and makes
-- others counts each time until lower_tables, in a transaction of its own, has brought the sequence down.
create or replace function plinth.reserve_tables(added integer, most bigint) returns void
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
  perform setval('plinth.tables_made', greatest(tables, (select last_value from plinth.tables_made)));
end $$;

-- What was lowered before.
select setval('plinth.tables_made', greatest(plinth.count_tables(), (select last_value from plinth.tables_made)));

select set_config('plinth.in_ddl', '', true);
