import type { Knex } from 'knex';

/**
 * The API key that a call of a model was made with, how often it was repeated and what its provider said: for lists of
 * calls by key, and for the page of one call. No foreign key: a call is kept longer than a key may be.
 *
 * The key is part of the sums of days; processes of the release before write the id of no key.
 */
const details = `
alter table ai_calls
  add column api_key_id uuid,
  add column retries smallint,
  add column error_message text;
create index ai_calls_request on ai_calls (request_id);

alter table ai_usage_days add column api_key_id uuid not null default '00000000-0000-0000-0000-000000000000';
comment on column ai_usage_days.api_key_id is 'All zeros: the calls were made without a key, or before keys were recorded.';
alter table ai_usage_days drop constraint ai_usage_days_pkey;
alter table ai_usage_days add primary key (project_id, day, provider, model, kind, status, api_key_id);
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(details);
};

export const down = (): Promise<void> => Promise.reject(new Error('The keys of calls are not given up.'));
