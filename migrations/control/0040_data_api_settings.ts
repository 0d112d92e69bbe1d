import type { Knex } from 'knex';

/**
 * How a project's data API is set: schemas beside public, and statement time-outs in ms where they are not the usual
 * ones.
 */
export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(`alter table projects
    add column exposed_schemas text[] not null default '{}',
    add column statement_timeouts jsonb not null default '{}'`);
};

export const down = async (knex: Knex): Promise<void> => {
  await knex.raw('alter table projects drop column exposed_schemas, drop column statement_timeouts');
};
