import type { Knex } from 'knex';

// Null: there were none, or nobody told.
const details = `
alter table ai_calls
  add column cached_tokens integer,
  add column cache_write_tokens integer,
  add column reasoning_tokens integer,
  add column service_tier text;
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(details);
};

export const down = (): Promise<void> => Promise.reject(new Error('The details of calls are not given up.'));
