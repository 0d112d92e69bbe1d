import type { Knex } from 'knex';

/** Constant defaults: no row is written anew. Deliveries that were tried before begin to keep their tries now. */
const attempts = `
alter table webhook_deliveries
  -- The latest tries, each {at, status_code, error, response_time_ms}.
  add column attempts jsonb not null default '[]',
  -- Of the last answer more than response_body holds was sent.
  add column response_truncated boolean not null default false;
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(attempts);
};

export const down = (): Promise<void> => Promise.reject(new Error('Tries of deliveries are not given up.'));
