import type { Knex } from 'knex';

/** Mails to the users of projects' applications that are asked for, until they are queued; and two more templates. */
export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(`
    alter table email_templates drop constraint email_templates_type_check;
    alter table email_templates add constraint email_templates_type_check
      check (type in ('signup', 'invite', 'password-reset', 'magic-link', 'email-change'));

    create table end_user_mails (
      id uuid primary key,
      project_id uuid not null references projects on delete cascade,
      -- The address and the kind, sealed with the project's data key.
      order_sealed bytea not null check (octet_length(order_sealed) <= 16384),
      attempts smallint not null default 0,
      next_at timestamptz not null default now(),
      created_at timestamptz not null default now()
    );
    create index end_user_mails_due on end_user_mails (next_at);
    create index end_user_mails_project on end_user_mails (project_id);
  `);
};

export const down = (): Promise<void> =>
  Promise.reject(new Error('Templates of the new types may be in use. Restore the backup of before instead.'));
