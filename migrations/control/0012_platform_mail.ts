import type { Knex } from 'knex';

const platformMail = `
alter table platform_mail
  add column kind text not null default 'notice' check (kind in ('password-reset', 'invite', 'notice')),
  -- Who it is written for, so that nobody has too many of them written.
  add column org_id text,
  add column project_id uuid,
  -- kept: there is no server for the platform's mail, so that operators read it on their page.
  add column status text not null default 'queued' check (status in ('queued', 'sent', 'failed', 'kept')),
  add column attempts integer not null default 0,
  -- When it is to be tried; while a worker sends it, when another one may.
  add column next_at timestamptz not null default now(),
  -- What the server said to it.
  add column response text,
  add column error text,
  add column sent_at timestamptz,
  -- Gone once it was sent: it holds links that let people in.
  alter column body_sealed drop not null;
-- What was written before could not be sent.
update platform_mail set status = 'kept';
-- Notices come last: others are waited for.
create index platform_mail_due on platform_mail ((kind = 'notice'), next_at) where status = 'queued';
create index platform_mail_recipient on platform_mail (lower(recipient), created_at);
create index platform_mail_org on platform_mail (org_id, created_at) where org_id is not null;
create index platform_mail_project on platform_mail (project_id, created_at) where project_id is not null;
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(platformMail);
};

export const down = (): Promise<void> => Promise.reject(new Error('The platform’s mail is not given up.'));
