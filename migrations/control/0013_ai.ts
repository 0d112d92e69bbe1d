import type { Knex } from 'knex';

const ai = `
-- A project's own keys for providers of models.
create table ai_provider_keys (
  id uuid primary key,
  project_id uuid not null references projects on delete cascade,
  provider text not null check (provider in ('openai', 'anthropic', 'google', 'groq', 'deepseek', 'xai')),
  api_key_sealed bytea not null,
  -- What listings show.
  masked_key text not null,
  -- Null: the provider's own.
  base_url text,
  -- Counts the keys, so that the audit log tells that it was changed and nothing of what it is.
  key_version integer not null default 1,
  last_tested_at timestamptz,
  last_test_ok boolean,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (project_id, provider)
);
create trigger audit after insert or delete on ai_provider_keys
  for each row execute function audit_change('ai_provider_key', 'api_key_sealed', 'updated_at', 'last_tested_at', 'last_test_ok');
-- What a test found is no change of the project's.
create trigger audit_update after update of api_key_sealed, masked_key, base_url, key_version on ai_provider_keys
  for each row execute function audit_change('ai_provider_key', 'api_key_sealed', 'updated_at', 'last_tested_at', 'last_test_ok');

-- One row for each call that was asked for: an intent beside the call, completed at its end.
create table ai_calls (
  -- A UUIDv7: calls are in the order of their beginnings.
  id uuid primary key,
  project_id uuid not null,
  kind text not null,
  provider text not null,
  model text not null,
  status text not null default 'open' check (status in ('open', 'success', 'error', 'incomplete', 'client_closed')),
  prompt_tokens integer,
  completion_tokens integer,
  tokens_source text check (tokens_source in ('reported', 'estimated')),
  -- Billionths of a US dollar; null: the model has no price.
  cost_nano_usd bigint,
  -- What is kept free of a hard budget while it is open.
  reserved_nano_usd bigint not null default 0,
  latency_ms integer,
  ttft_ms integer,
  error_code text,
  request_id text not null,
  -- The process that makes it: intents of one that is gone are closed as incomplete.
  keeper uuid not null,
  started_at timestamptz not null
);
create index ai_calls_project on ai_calls (project_id, id desc);
create index ai_calls_open on ai_calls (keeper) where status = 'open';

-- Processes that have calls open say each few seconds that they live.
create table ai_call_keepers (
  id uuid primary key,
  seen_at timestamptz not null default now()
);

-- Calls of past days, added up: what remains when their rows are gone.
create table ai_usage_days (
  project_id uuid not null references projects on delete cascade,
  -- UTC.
  day date not null,
  provider text not null,
  model text not null,
  kind text not null,
  status text not null,
  requests bigint not null,
  prompt_tokens bigint not null,
  completion_tokens bigint not null,
  cost_nano_usd bigint not null,
  primary key (project_id, day, provider, model, kind, status)
);
-- Days whose calls are added up, and days that are about to be: a call that ends in one of these is noted in
-- ai_usage_stale, so that its day is added up again.
create table ai_usage_rolled (
  only_row boolean primary key default true check (only_row),
  day date not null,
  closing date not null,
  closed_at timestamptz not null default now()
);
insert into ai_usage_rolled (day, closing) values ('2000-01-01', '2000-01-01');
create table ai_usage_stale (
  project_id uuid not null,
  day date not null,
  primary key (project_id, day)
);

create table ai_budgets (
  id uuid primary key,
  project_id uuid not null unique references projects on delete cascade,
  monthly_nano_usd bigint not null check (monthly_nano_usd >= 0),
  -- Calls that do not fit are refused.
  hard boolean not null,
  updated_at timestamptz not null default now()
);
create trigger audit after insert or update or delete on ai_budgets
  for each row execute function audit_change('ai_budget', 'updated_at');

-- What a project with a budget has used in a month (UTC) of the calls' beginnings, and what its open calls may still use.
-- The rows of a project are there from its budget on and go with it. They change in the statement that changes ai_calls.
create table ai_budget_months (
  project_id uuid not null references projects on delete cascade,
  month date not null,
  used_nano_usd bigint not null default 0,
  reserved_nano_usd bigint not null default 0,
  -- How much the last statement reserved, or released.
  moved_nano_usd bigint not null default 0,
  primary key (project_id, month)
);

-- A project's budget, for statements that begin or end its calls: until they are over it neither begins nor ends. Volatile:
-- whoever waited for the lock sees what came about meanwhile, though its statement began before.
create function ai_budget_of(of_project uuid) returns table (hard boolean, most bigint) language plpgsql volatile as $$
begin
  perform pg_advisory_xact_lock_shared(7245994, hashtext(of_project::text));
  return query select b.hard, b.monthly_nano_usd from ai_budgets b where b.project_id = of_project;
end $$;
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(ai);
};

export const down = (): Promise<void> => Promise.reject(new Error('Keys and calls of models are not given up.'));
