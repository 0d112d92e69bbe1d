import type { Knex } from 'knex';

/**
 * Whether the runs of a function with a large module begin with a copy of its evaluated state, as its deploy found out
 * (decision 070). A table of its own: a change of functions is audited.
 */
const snapshots = `
create table function_snapshots (
  function_id uuid primary key references functions on delete cascade,
  version integer not null,
  -- Why each run evaluates the module anew; null: none does.
  fault text
);
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(snapshots);
};

export const down = async (knex: Knex): Promise<void> => {
  await knex.raw('drop table function_snapshots');
};
