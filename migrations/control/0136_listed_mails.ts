import type { Knex } from 'knex';

/** Mails of a project are listed by their ids, the latest first: those that came at one moment have an order, too. */
export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(`
    create index emails_listed on emails (project_id, id desc);
    drop index emails_project;
  `);
};

export const down = async (knex: Knex): Promise<void> => {
  await knex.raw(`
    create index emails_project on emails (project_id, created_at desc);
    drop index emails_listed;
  `);
};
