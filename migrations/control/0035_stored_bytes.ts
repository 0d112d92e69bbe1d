import type { Knex } from 'knex';

/**
 * What the payloads, logs and replaced versions of a project take. Each statement appends what it changes; a sweep adds
 * that up. One counter for each project, changed by every run, would make workers that record many ends at once wait
 * for each other, in opposite orders.
 */
const storedBytes = `
create table stored_bytes (
  project_id uuid primary key,
  bytes bigint not null
);
create table stored_changes (
  id bigint generated always as identity primary key,
  project_id uuid not null,
  bytes bigint not null
);
create index stored_changes_project on stored_changes (project_id) include (bytes);

-- Of the function. Null only for a moment: when its function is deleted, nobody else knows the project any more.
alter table function_versions add column project_id uuid;
update function_versions v set project_id = f.project_id from functions f where f.id = v.function_id;
create function fill_version_project() returns trigger language plpgsql as $$
begin
  new.project_id := (select f.project_id from functions f where f.id = new.function_id);
  return new;
end $$;
create trigger fill_project before insert on function_versions for each row when (new.project_id is null)
  execute function fill_version_project();

create function count_stored_invocations() returns trigger language plpgsql as $$
begin
  if tg_op in ('INSERT', 'UPDATE') then
    insert into stored_changes (project_id, bytes)
    select project_id, sum(octet_length(data) + coalesce(octet_length(logs), 0) + coalesce(octet_length(log_tail), 0)
      + coalesce(octet_length(error), 0)) from added group by project_id;
  end if;
  if tg_op in ('DELETE', 'UPDATE') then
    insert into stored_changes (project_id, bytes)
    select project_id, -sum(octet_length(data) + coalesce(octet_length(logs), 0) + coalesce(octet_length(log_tail), 0)
      + coalesce(octet_length(error), 0)) from removed group by project_id;
  end if;
  return null;
end $$;
create trigger count_stored_insert after insert on invocations referencing new table as added
  for each statement execute function count_stored_invocations();
create trigger count_stored_update after update on invocations referencing old table as removed new table as added
  for each statement execute function count_stored_invocations();
create trigger count_stored_delete after delete on invocations referencing old table as removed
  for each statement execute function count_stored_invocations();

create function count_stored_versions() returns trigger language plpgsql as $$
begin
  if tg_op = 'INSERT' then
    insert into stored_changes (project_id, bytes)
    select project_id, sum(octet_length(code) + octet_length(compiled)) from added group by project_id;
  else
    insert into stored_changes (project_id, bytes)
    select project_id, -sum(octet_length(code) + octet_length(compiled)) from removed group by project_id;
  end if;
  return null;
end $$;
create trigger count_stored_insert after insert on function_versions referencing new table as added
  for each statement execute function count_stored_versions();
create trigger count_stored_delete after delete on function_versions referencing old table as removed
  for each statement execute function count_stored_versions();

insert into stored_bytes (project_id, bytes)
select project_id, sum(bytes) from (
  select project_id, octet_length(data) + coalesce(octet_length(logs), 0) + coalesce(octet_length(log_tail), 0)
    + coalesce(octet_length(error), 0) as bytes from invocations
  union all
  select project_id, octet_length(code) + octet_length(compiled) from function_versions
) present group by project_id;
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(storedBytes);
};

export const down = (): Promise<void> => Promise.reject(new Error('What projects store goes on being counted.'));
