-- Contents that were replaced or deleted stay for a while (PLINTH_KEEP_REMOVED_FILES_HOURS) and count for no limit of all
-- files: whoever replaced one file again and again could fill the store. They are counted beside the files, and together
-- with them may take twice what the plan allows; then the oldest are deleted sooner (domain/storage/sweep.ts).

select set_config('plinth.in_ddl', 'on', true);

do $migration$ begin
if to_regclass('plinth.storage_tombstones') is null then return; end if;

alter table plinth.storage_usage add column kept bigint not null default 0;
update plinth.storage_usage set kept = (select coalesce(sum(b.size), 0) from plinth.storage_tombstones b);

create function plinth.count_kept() returns trigger
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if tg_op = 'INSERT' then
    update plinth.storage_usage u set kept = u.kept + (select coalesce(sum(n.size), 0) from changed n);
  else
    update plinth.storage_usage u set kept = u.kept - (select coalesce(sum(o.size), 0) from changed o);
  end if;
  return null;
end $$;
create trigger count_kept after insert on plinth.storage_tombstones
  referencing new table as changed for each statement execute function plinth.count_kept();
create trigger uncount_kept after delete on plinth.storage_tombstones
  referencing old table as changed for each statement execute function plinth.count_kept();

-- As before, and with what is kept.
create or replace function plinth.count_storage(a_bytes bigint, a_objects bigint, max_bytes bigint) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare used bigint; kept bigint;
begin
  update plinth.storage_usage u set bytes = u.bytes + a_bytes, objects = u.objects + a_objects
    returning u.bytes, u.kept into used, kept;
  if a_bytes > 0 and used > max_bytes then
    raise exception 'all files together would have % bytes; the plan allows %', used, max_bytes
      using errcode = 'PLS02', detail = format('{"limit":%s,"value":%s}', max_bytes, used);
  end if;
  if kept > 0 and used + kept > 2 * max_bytes then
    raise exception 'files and what was replaced or deleted of them have % bytes; the plan allows %', used + kept, 2 * max_bytes
      using errcode = 'PLS05', detail = format('{"limit":%s,"value":%s}', 2 * max_bytes, used + kept);
  end if;
end $$;
end $migration$;

select set_config('plinth.in_ddl', '', true);
