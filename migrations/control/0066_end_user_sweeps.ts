import type { Knex } from 'knex';

/** When each project's ended sign-ins, used links and counts were last deleted. */
export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(`
    create table end_user_sweeps (
      project_id uuid primary key references projects on delete cascade,
      swept_at timestamptz not null default now()
    );
  `);
};

export const down = async (knex: Knex): Promise<void> => {
  await knex.raw('drop table end_user_sweeps');
};
