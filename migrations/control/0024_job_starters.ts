import type { Knex } from 'knex';

/**
 * Who started a job. Null: the platform itself, or a job that was accepted before this was recorded; keys that see only
 * their own jobs do not see such a job. No index: nothing is looked up by it.
 */
const startedBy = `
alter table jobs
  -- dashboard, secret, publishable, user, cron or event.
  add column started_by_kind text,
  -- The id of the user, key, schedule, webhook or integration; of a project's own user, the subject of the token.
  add column started_by_id text;
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(startedBy);
};

export const down = async (knex: Knex): Promise<void> => {
  await knex.raw('alter table jobs drop column started_by_kind, drop column started_by_id');
};
