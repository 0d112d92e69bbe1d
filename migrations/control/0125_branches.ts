import type { Knex } from 'knex';

/** A branch is a project that began as a copy of another one's database, and that goes by itself. */
const branches = `
alter table projects
  add column branch_of uuid references projects (id),
  add column expires_at timestamptz,
  -- Whether the rows are copied, too.
  add column branch_rows boolean not null default false,
  add constraint branches_expire check ((branch_of is null) = (expires_at is null));
create index projects_branch_of on projects (branch_of);
create index projects_expire on projects (expires_at) where expires_at is not null and deleted_at is null;
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(branches);
};

export const down = async (knex: Knex): Promise<void> => {
  await knex.raw('alter table projects drop column branch_of, drop column expires_at, drop column branch_rows');
};
