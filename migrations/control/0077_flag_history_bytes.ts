import type { Knex } from 'knex';

/** The bytes of the versions of flags that a project keeps, so that they can be bounded (domain/flags). */
const bytes = `
alter table flag_history add column bytes integer not null
  generated always as (coalesce(octet_length(definition::text), 0)) stored;
alter table flag_sets add column history_bytes bigint not null default 0;

-- Versions go in many ways: with their environment, too.
create function count_flag_history() returns trigger language plpgsql as $$
begin
  if tg_op = 'INSERT' then
    update flag_sets s set history_bytes = s.history_bytes + c.bytes
    from (select project_id, sum(bytes) as bytes from changed group by project_id) c where s.project_id = c.project_id;
  else
    update flag_sets s set history_bytes = s.history_bytes - c.bytes
    from (select project_id, sum(bytes) as bytes from changed group by project_id) c where s.project_id = c.project_id;
  end if;
  return null;
end $$;
create trigger count_added after insert on flag_history referencing new table as changed
  for each statement execute function count_flag_history();
create trigger count_gone after delete on flag_history referencing old table as changed
  for each statement execute function count_flag_history();
update flag_sets s set history_bytes =
  (select coalesce(sum(h.bytes), 0) from flag_history h where h.project_id = s.project_id);
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(bytes);
};

export const down = (): Promise<void> =>
  Promise.reject(new Error('Versions that are kept have to be counted. Restore the backup of before instead.'));
