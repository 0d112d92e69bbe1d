import type { Knex } from 'knex';

/** One more template: the code for whoever changes the password after a long time. */
export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(`
    alter table email_templates drop constraint email_templates_type_check;
    alter table email_templates add constraint email_templates_type_check check (type in
      ('signup', 'invite', 'password-reset', 'magic-link', 'email-change', 'reauthentication'));
  `);
};

export const down = (): Promise<void> =>
  Promise.reject(new Error('Templates of the new type may be in use. Restore the backup of before instead.'));
