import type { Knex } from 'knex';

// Days that were added up before are added up again where their calls have details.
const details = `
alter table ai_usage_days
  add column cached_tokens bigint not null default 0,
  add column cache_write_tokens bigint not null default 0,
  add column reasoning_tokens bigint not null default 0;

insert into ai_usage_stale (project_id, day)
select distinct c.project_id, (c.started_at at time zone 'utc')::date
from ai_calls c, ai_usage_rolled r
where coalesce(c.cached_tokens, c.cache_write_tokens, c.reasoning_tokens) is not null and c.status <> 'open'
  and (c.started_at at time zone 'utc')::date <= greatest(r.day, r.closing)
on conflict do nothing;
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(details);
};

export const down = (): Promise<void> => Promise.reject(new Error('The sums of details are not given up.'));
