-- How many jobs stand behind a write that each led to the next: runs of functions set it for their sessions.

select set_config('plinth.in_ddl', 'on', true);

-- Anything else that somebody sets there counts as none: it must not make writes fail.
create function plinth.event_depth() returns smallint language sql stable set search_path = pg_catalog, pg_temp as $$
  select case when pg_catalog.current_setting('plinth.depth', true) ~ '^[0-9]{1,3}$'
    then pg_catalog.current_setting('plinth.depth', true)::smallint else 0::smallint end
$$;
grant execute on function plinth.event_depth() to public;
alter table plinth.outbox add column depth smallint not null default plinth.event_depth();

select set_config('plinth.in_ddl', '', true);
