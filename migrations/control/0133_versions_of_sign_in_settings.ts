import type { Knex } from 'knex';

/** Counts changes of the settings of sign-in and of clients, so that nobody overwrites what somebody else has set. */
export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(`
    alter table auth_settings add column version integer not null default 1;
    alter table oauth_clients add column version integer not null default 1;

    drop trigger audit on auth_settings;
    create trigger audit after insert or update or delete on auth_settings
      for each row execute function audit_change('auth_settings', 'updated_at', 'version');
    drop trigger audit on oauth_clients;
    create trigger audit after insert or update or delete on oauth_clients
      for each row execute function
        audit_change('oauth_client', 'secret_hash', 'former_secret_hash', 'updated_at', 'version');
  `);
};

export const down = async (knex: Knex): Promise<void> => {
  await knex.raw(`
    drop trigger audit on auth_settings;
    create trigger audit after insert or update or delete on auth_settings
      for each row execute function audit_change('auth_settings', 'updated_at');
    drop trigger audit on oauth_clients;
    create trigger audit after insert or update or delete on oauth_clients
      for each row execute function audit_change('oauth_client', 'secret_hash', 'former_secret_hash', 'updated_at');
    alter table auth_settings drop column version;
    alter table oauth_clients drop column version;
  `);
};
