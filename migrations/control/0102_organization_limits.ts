import type { Knex } from 'knex';

/** How many jobs of a type all projects of an organization may have running together, as operators set it. */
const limits = `
create table organization_limits (
  id uuid primary key default uuid_v7(),
  org_id text not null references organizations on delete cascade,
  type text not null,
  running integer not null check (running >= 1),
  unique (org_id, type)
);
create trigger audit after insert or update or delete on organization_limits
  for each row execute function audit_change('organization_limit');
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(limits);
};

export const down = async (knex: Knex): Promise<void> => {
  await knex.raw('drop table organization_limits');
};
