import type { Knex } from 'knex';

/** Users of another system that wait to be imported, in parts, sealed: they hold hashes of passwords. */
export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(`
    create table user_import_parts (
      -- The parts are written before the row of the job, in the same transaction.
      job_id uuid not null references jobs on delete cascade deferrable initially deferred,
      number integer not null,
      project_id uuid not null references projects on delete cascade,
      sealed bytea not null,
      primary key (job_id, number)
    );
    create index user_import_parts_project on user_import_parts (project_id);
    -- The parts are ciphertext, which does not compress.
    alter table user_import_parts alter column sealed set storage external;
  `);
};

export const down = (): Promise<void> =>
  Promise.reject(new Error('Imports may be under way. Restore the backup of before instead.'));
