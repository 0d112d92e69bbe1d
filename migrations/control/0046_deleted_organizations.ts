import type { Knex } from 'knex';

const organizations = `
-- Set: gone for everybody. The row goes when the databases of its projects are dropped.
alter table organizations add column deleted_at timestamptz;
create index organizations_deleted on organizations (deleted_at) where deleted_at is not null;
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(organizations);
};

export const down = (): Promise<void> =>
  Promise.reject(new Error('Organizations that were deleted would be there again.'));
