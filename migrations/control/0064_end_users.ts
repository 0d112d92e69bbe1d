import type { Knex } from 'knex';

/**
 * Sign-in for the users of projects' applications: two more roles in each project's database (decision 054), and how a
 * project wants its users to sign in. The users themselves live in the project's database (migrations/project/0022).
 */
export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(`
    alter table project_roles drop constraint project_roles_kind_check;
    alter table project_roles add constraint project_roles_kind_check
      check (kind in ('owner', 'api', 'service', 'reader', 'auth', 'users'));

    -- The settings of each project; without a row the defaults apply.
    create table auth_settings (
      id uuid primary key,
      project_id uuid not null unique references projects on delete cascade,
      settings jsonb not null check (jsonb_typeof(settings) = 'object'),
      created_at timestamptz not null default now(),
      updated_at timestamptz not null default now()
    );
    create trigger audit after insert or update or delete on auth_settings
      for each row execute function audit_change('auth_settings', 'updated_at');

    -- A project's database emits events of its users, too, and only those that something subscribes to.
    do $do$ declare
      before text := pg_get_functiondef('note_webhook_patterns'::regproc);
      behind text := replace(before, $$or pattern like 'table.%')$$,
        $$or pattern like 'table.%' or pattern like 'auth.%' or pattern like 'user.%' or pattern like 'users.%')$$);
    begin
      if behind = before then raise exception 'note_webhook_patterns is not as expected'; end if;
      execute behind;
    end $do$;
    insert into subscriptions_to_set (project_id)
      select distinct project_id from webhook_patterns
      where pattern = '*' or pattern like 'auth.%' or pattern like 'user.%' or pattern like 'users.%'
      on conflict (project_id) do update set wanted_at = clock_timestamp();
  `);
};

export const down = (): Promise<void> =>
  Promise.reject(new Error('The databases of projects hold users by now. Restore the backup of before instead.'));
