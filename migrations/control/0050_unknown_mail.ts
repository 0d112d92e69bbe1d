import type { Knex } from 'knex';

const unknownMail = `
-- unknown: the server had the whole mail and never said whether it took it. Sent again by itself, it might arrive twice.
alter table emails drop constraint emails_status_check;
alter table emails add constraint emails_status_check
  check (status in ('queued', 'sent', 'failed', 'bounced', 'kept', 'unknown'));
alter table platform_mail drop constraint platform_mail_status_check;
alter table platform_mail add constraint platform_mail_status_check
  check (status in ('queued', 'sent', 'failed', 'kept', 'unknown'));

-- Set while only the server's answer is missing. A mail that nobody waits for any more is then unknown.
alter table emails add column handed_over_at timestamptz;
alter table platform_mail add column handed_over_at timestamptz;
create index platform_mail_handed_over on platform_mail (next_at) where status = 'queued' and handed_over_at is not null;

-- Whoever retries such a job by hand wants the mail sent again.
create function email_job_revived() returns trigger language plpgsql as $$
begin
  update emails set status = 'queued', handed_over_at = null
  where job_id = new.id and status in ('failed', 'unknown') and content_sealed is not null;
  return null;
end $$;
create trigger email_job_revived after update of status on jobs for each row
  when (new.type = 'email.send' and old.finished_at is not null and new.finished_at is null)
  execute function email_job_revived();
`;

export const up = async (knex: Knex): Promise<void> => {
  await knex.raw(unknownMail);
};

export const down = (): Promise<void> => Promise.reject(new Error('Mail of unknown fate is not forgotten.'));
