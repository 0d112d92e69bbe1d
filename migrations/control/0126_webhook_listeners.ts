import type { Knex } from 'knex';

/**
 * A listener is a webhook for the time of one connection: its deliveries go to whoever holds that, over Redis. The table
 * has when its process was last there; it is apart, since each change of a webhook is audited.
 */
const listeners = `
alter table webhooks
  drop constraint webhooks_kind_check,
  add constraint webhooks_kind_check check (kind in ('http', 'slack', 'discord', 'function', 'listener'));
create table webhook_listeners (
  webhook_id uuid primary key references webhooks on delete cascade,
  seen_at timestamptz not null default now()
);
create index webhook_listeners_seen on webhook_listeners (seen_at);
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(listeners);
};

export const down = async (knex: Knex): Promise<void> => {
  await knex.raw('drop table webhook_listeners');
};
