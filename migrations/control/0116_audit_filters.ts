import type { Knex } from 'knex';

/** The audit log is searched by project, action and actor, the newest first. */
const indexes = `
create index audit_entries_project on audit_entries (org_id, project_id, created_at desc, id);
create index audit_entries_action on audit_entries (org_id, action text_pattern_ops, created_at desc, id);
create index audit_entries_actor_id on audit_entries (org_id, (actor ->> 'id'), created_at desc, id);
create index audit_entries_actor_email on audit_entries (org_id, (actor ->> 'email'), created_at desc, id);
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(indexes);
};

export const down = async (knex: Knex): Promise<void> => {
  await knex.raw(`drop index audit_entries_project, audit_entries_action, audit_entries_actor_id,
    audit_entries_actor_email`);
};
