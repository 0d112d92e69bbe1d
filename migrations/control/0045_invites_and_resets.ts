import type { Knex } from 'knex';

const invites = `
-- Whose right an invite rests on: it dies when that member loses the right to grant its role.
alter table members add column invited_by uuid references users on delete set null;
create index members_invited_by on members (invited_by);

-- As before, without the new column, which no reader of the audit log needs: each invite's entry names its actor.
drop trigger audit on members;
create trigger audit after insert or update or delete on members
  for each row execute function audit_change('member', 'invite_hash', 'user_id', 'invited_by');

-- Invites that wait already rest on the right of whoever sent them last.
update members m set invited_by = (
  select u.id from audit_entries e join users u on u.id::text = e.actor ->> 'id'
  where e.org_id = m.org_id and e.target_id = m.id::text and e.action in ('member.invite', 'member.resend', 'member.create')
  order by e.created_at desc limit 1)
where m.status = 'pending';
`;

const resets = `
-- Requests for a reset link, for known and unknown addresses alike. A request is answered once its row is there; whether
-- the address is known is found out afterwards.
create table reset_requests (
  id uuid primary key,
  email text not null,
  created_at timestamptz not null default now()
);
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(invites);
  await knex.raw(resets);
};

export const down = (): Promise<void> => Promise.reject(new Error('Invites keep whose right they rest on.'));
