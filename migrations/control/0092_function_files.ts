import type { Knex } from 'knex';

/**
 * Functions of several files: their texts as JSON, `{path: text}`, and the path of the one whose handler runs. Of Python
 * that is what runs, and `compiled` is empty. The audit log tells of a new version and leaves out its texts, which may
 * have 10 MB.
 */
const functionFiles = `
alter table functions add column files text, add column entrypoint text;
alter table function_versions add column files text, add column entrypoint text;

drop trigger audit on functions;
create trigger audit after insert or update or delete on functions
  for each row execute function audit_change('function', 'env_sealed', 'compiled', 'files', 'updated_at', 'deployed_at');

create or replace function count_stored_versions() returns trigger language plpgsql as $$
begin
  if tg_op = 'INSERT' then
    insert into stored_changes (project_id, bytes)
    select project_id, sum(octet_length(code) + octet_length(compiled) + coalesce(octet_length(files), 0))
    from added group by project_id;
  else
    insert into stored_changes (project_id, bytes)
    select project_id, -sum(octet_length(code) + octet_length(compiled) + coalesce(octet_length(files), 0))
    from removed group by project_id;
  end if;
  return null;
end $$;
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(functionFiles);
};

export const down = (): Promise<void> => Promise.reject(new Error('The files of functions are not given up.'));
