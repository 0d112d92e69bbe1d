import type { Knex } from 'knex';

/**
 * When each API key was used last, exact to the minute. A table of its own: each change of `api_keys` is an entry of the
 * audit log.
 */
const uses = `
create table api_key_uses (
  key_id uuid primary key references api_keys on delete cascade,
  last_used_at timestamptz not null
);
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(uses);
};

export const down = async (knex: Knex): Promise<void> => {
  await knex.raw('drop table api_key_uses');
};
