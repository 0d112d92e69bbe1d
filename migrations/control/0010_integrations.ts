import type { Knex } from 'knex';

const integrations = `
-- A project's accounts with others. Chats have a webhook beside it, which carries the events.
create table integrations (
  id uuid primary key,
  project_id uuid not null references projects on delete cascade,
  provider text not null check (provider in ('slack', 'discord', 'resend', 'stripe', 'paypal', 'razorpay')),
  -- The whole config, as JSON.
  config_sealed bytea not null,
  -- Counts the configs, so that the audit log tells that it was changed and nothing of what it holds.
  config_version integer not null default 1,
  is_active boolean not null default true,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (project_id, provider)
);
create trigger audit after insert or update or delete on integrations
  for each row execute function audit_change('integration', 'config_sealed', 'updated_at');

-- What payment providers have reported already: they report until it is confirmed, and anyone may send it again.
create table provider_events (
  project_id uuid not null references projects on delete cascade,
  provider text not null,
  -- The provider's id of the event, or the hash of its text.
  event_key text not null,
  received_at timestamptz not null default now(),
  primary key (project_id, provider, event_key)
);
create index provider_events_received on provider_events (received_at);
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(integrations);
};

export const down = (): Promise<void> => Promise.reject(new Error('Integrations are not given up.'));
