import type { Knex } from 'knex';

/**
 * Files of projects: their rows are in each project's own database (migrations/project/0030_storage.sql), their bytes in
 * the object store. Here is when bytes that no row names are deleted next (decision 062).
 */
export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(`
    create table storage_sweeps (
      project_id uuid primary key references projects on delete cascade,
      due_at timestamptz not null default now(),
      -- When the stored bytes were last compared with the rows.
      compared_at timestamptz
    );
    create index storage_sweeps_due_at on storage_sweeps (due_at);

    -- Projects that are gone for good: all their bytes go.
    create table storage_removals (
      project_id uuid primary key,
      removed_at timestamptz not null default now()
    );
    create function note_storage_removal() returns trigger language plpgsql as $$
    begin
      insert into storage_removals (project_id) values (old.id) on conflict do nothing;
      return null;
    end $$;
    create trigger note_storage_removal after delete on projects for each row execute function note_storage_removal();

    -- Resumable uploads that have not ended: their bytes lie there before any row names them.
    create table storage_uploads (
      id uuid primary key,
      project_id uuid not null references projects on delete cascade,
      size bigint not null check (size >= 0),
      expires_at timestamptz not null
    );
    create index storage_uploads_project_id on storage_uploads (project_id);
    create index storage_uploads_expires_at on storage_uploads (expires_at);

    -- A project's database emits events of its files, too, and only those that something subscribes to.
    do $do$ declare
      before text := pg_get_functiondef('note_webhook_patterns'::regproc);
      behind text := replace(before, $$or pattern like 'auth.%'$$, $$or pattern like 'auth.%' or pattern like 'storage.%'$$);
    begin
      if behind = before then raise exception 'note_webhook_patterns is not as expected'; end if;
      execute behind;
    end $do$;
    insert into subscriptions_to_set (project_id)
      select distinct project_id from webhook_patterns where pattern = '*' or pattern like 'storage.%'
      on conflict (project_id) do update set wanted_at = clock_timestamp();
  `);
};

export const down = (): Promise<void> =>
  Promise.reject(new Error('The databases of projects name files by now. Restore the backup of before instead.'));
