-- Jobs that a function enqueues within a transaction wait in the outbox until it commits: the relay makes rows of them.

select set_config('plinth.in_ddl', 'on', true);

-- For functions of the project, which sign in as its owner. Roles that requests have do not: with asCaller anybody's SQL runs.
create function plinth_api.keep_jobs(jobs text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if not exists (select from plinth.roles r where r.kind = 'owner' and r.name = session_user) then
    raise exception 'only the functions of the project enqueue jobs' using errcode = '42501';
  end if;
  if octet_length(jobs) > 2097152 then
    raise exception 'jobs of one call within a transaction have at most 2097152 bytes' using errcode = '54000';
  end if;
  insert into plinth.outbox (table_name, op, row) values ('jobs', 'JOB', jobs);
  if currval('plinth.outbox_id_seq') > pg_sequence_last_value('plinth.outbox_checked') then perform plinth.check_backlog(); end if;
end $$;
grant execute on function plinth_api.keep_jobs(text) to public;

select set_config('plinth.in_ddl', '', true);
