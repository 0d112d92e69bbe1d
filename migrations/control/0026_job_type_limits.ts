import type { Knex } from 'knex';

/** The global limit of a job type is one number for the whole installation, and not one in each worker. */
const limits = `
create table job_type_limits (
  type text primary key,
  -- What operators set; null: the setting counts.
  own integer check (own >= 1),
  -- PLINTH_GLOBAL_<TYPE> of the worker that was started last; null: none.
  setting integer check (setting >= 1)
);
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(limits);
};

export const down = async (knex: Knex): Promise<void> => {
  await knex.raw('drop table job_type_limits');
};
