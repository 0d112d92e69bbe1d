import type { Knex } from 'knex';

const email = `
-- Which server a project's mail goes through.
create table email_settings (
  id uuid primary key,
  project_id uuid not null unique references projects on delete cascade,
  host text not null,
  port integer not null check (port between 1 and 65535),
  -- Empty: the server asks for none.
  username text not null,
  password_sealed bytea,
  from_email text not null,
  from_name text not null,
  dkim_domain text,
  dkim_selector text,
  dkim_key_sealed bytea,
  -- Counts the changes: connections are kept per version, and a new password leaves a trace in the audit log.
  version integer not null default 1,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  check ((dkim_domain is null) = (dkim_selector is null) and (dkim_domain is null) = (dkim_key_sealed is null))
);
create trigger audit after insert or update or delete on email_settings
  for each row execute function audit_change('email_settings', 'password_sealed', 'dkim_key_sealed', 'updated_at');

-- Templates that a project has made its own; without a row the default is used.
create table email_templates (
  id uuid primary key,
  project_id uuid not null references projects on delete cascade,
  type text not null check (type in ('signup', 'invite', 'password-reset')),
  subject text not null,
  html_body text not null,
  enabled boolean not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (project_id, type)
);
create trigger audit after insert or update or delete on email_templates
  for each row execute function audit_change('email_template', 'updated_at');

create table emails (
  id uuid primary key,
  project_id uuid not null references projects on delete cascade,
  template text not null,
  recipient text not null,
  -- Subject, body and headers, sealed: they hold links that let people in. Gone once the mail is.
  content_sealed bytea,
  -- kept: for the mailbox page of local development, nothing was sent.
  status text not null default 'queued' check (status in ('queued', 'sent', 'failed', 'bounced', 'kept')),
  attempts integer not null default 0,
  -- What the server said to it.
  response text,
  error text,
  message_id text,
  -- No foreign key: the mail's record is kept longer than its job.
  job_id uuid not null,
  created_at timestamptz not null default now(),
  sent_at timestamptz
);
create index emails_project on emails (project_id, created_at desc);
create index emails_job on emails (job_id);
create index emails_created on emails (created_at);
create index emails_kept on emails (created_at desc) where status = 'kept';

-- A job that ends without a word of the mail's own (cancelled, expired, given up) takes the mail with it.
create function email_job_ended() returns trigger language plpgsql as $$
begin
  update emails set status = 'failed', error = coalesce(error, new.error_message)
  where job_id = new.id and status = 'queued';
  return null;
end $$;
create trigger email_job_ended after update of status on jobs for each row
  when (new.type = 'email.send' and old.finished_at is null and new.finished_at is not null)
  execute function email_job_ended();
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(email);
};

export const down = (): Promise<void> => Promise.reject(new Error('Mail of projects is not given up.'));
