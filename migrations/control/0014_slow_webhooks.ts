import type { Knex } from 'knex';

// How many webhooks that are not quick have a try under way, of all projects: counted at each look at one of them.
const slowWebhooks = `
create index webhook_lanes_slow_busy on webhook_lanes (slow_in) where slow_in is not null and waits_since is null;
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(slowWebhooks);
};

export const down = (): Promise<void> => Promise.reject(new Error('Webhooks are not given up.'));
