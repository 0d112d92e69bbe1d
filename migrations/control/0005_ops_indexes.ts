import type { Knex } from 'knex';

/**
 * What operators look for among ended jobs: the bad ends, newest first, and all of one error. Jobs that succeed enter
 * neither index, so that their acceptance and end cost what they did.
 */
const indexes = `
create index jobs_bad_ends on jobs (status, id) include (type)
  where status in ('failed', 'dead', 'cancelled', 'expired');
create index jobs_errors on jobs (error_code, id) where error_code is not null;
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(indexes);
};

export const down = async (knex: Knex): Promise<void> => {
  await knex.raw('drop index jobs_errors; drop index jobs_bad_ends;');
};
