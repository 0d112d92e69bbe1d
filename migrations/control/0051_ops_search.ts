import type { Knex } from 'knex';

/**
 * Operators and callers look jobs up by the id of the request that made them. Ids made here ascend with time, as do
 * jobs.
 */
export const up = async (knex: Knex): Promise<void> => {
  await knex.raw('create index jobs_request on jobs (request_id)');
};

export const down = async (knex: Knex): Promise<void> => {
  await knex.raw('drop index jobs_request');
};
