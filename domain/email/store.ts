import { type Queryable, type Tx, maybeOne } from '#lib/control-db.ts';
import type { TemplateType } from './defaults.ts';
import { lineOf } from './failure.ts';
import { type EmailSettingsRow, settingsColumns } from './settings.ts';

export type EmailStatus = 'queued' | 'sent' | 'failed' | 'bounced' | 'kept' | 'unknown';

/** The content of a mail, as its row stores it, sealed. */
export interface EmailContent {
  readonly subject: string;
  readonly html: string;
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

export interface NewEmail {
  readonly id: string;
  readonly projectId: string;
  readonly template: TemplateType;
  readonly recipient: string;
  readonly content: Buffer;
  readonly jobId: string;
}

/** The associated data of a mail's sealed content. */
export const aboutContent = (emailId: string): string => `email:${emailId}`;

export const insertEmail = async (tx: Tx, email: NewEmail): Promise<void> => {
  await tx.query(
    'insert into emails (id, project_id, template, recipient, content_sealed, job_id) values ($1, $2, $3, $4, $5, $6)',
    [email.id, email.projectId, email.template, email.recipient, email.content, email.jobId],
    'insert-email',
  );
};

export const deleteEmail = async (db: Queryable, id: string): Promise<void> => {
  await db.query(`delete from emails where id = $1 and status = 'queued'`, [id]);
};

export interface SendableRow {
  readonly id: string;
  readonly recipient: string;
  readonly content_sealed: Buffer | null;
  readonly status: EmailStatus;
  readonly response: string | null;
  readonly error: string | null;
  /** Null unless only the server's answer was missing when a run gave its place up. */
  readonly handed_over_at: Date | null;
  readonly data_key: Buffer;
  /** Null: the project has no server. */
  readonly settings: EmailSettingsRow | null;
}

type JoinedRow = Omit<SendableRow, 'settings'> & {
  readonly [Name in keyof EmailSettingsRow as `s_${Name}`]: EmailSettingsRow[Name] | null;
};

const settingsOf = (row: JoinedRow): EmailSettingsRow | null =>
  row.s_id === null
    ? null
    : (Object.fromEntries(settingsColumns.map((name) => [name, row[`s_${name}`]])) as unknown as EmailSettingsRow);

/** A mail and the way it goes; undefined when its project was deleted. */
export const findSendable = async (db: Queryable, projectId: string, id: string): Promise<SendableRow | undefined> => {
  const row = await maybeOne(
    db.query<JoinedRow>(
      `select e.id, e.recipient, e.content_sealed, e.status, e.response, e.error, e.handed_over_at, p.data_key,
         ${settingsColumns.map((name) => `s.${name} as s_${name}`).join(', ')}
       from emails e join projects p on p.id = e.project_id left join email_settings s on s.project_id = e.project_id
       where e.id = $1 and e.project_id = $2 and p.deleted_at is null`,
      [id, projectId],
      'find-sendable-email',
    ),
  );
  return row && { ...row, settings: settingsOf(row) };
};

/** The result of one attempt. */
export interface EmailTry {
  readonly id: string;
  /** `queued`: it is tried again. */
  readonly status: EmailStatus;
  readonly response: string | null;
  readonly error: string | null;
  readonly messageId: string | null;
}

const maxWordsLength = 2000;

/** Text that Postgres cannot store, whatever its source, must not keep other mails from being recorded. */
const storable = (words: string | null): string | null => words && lineOf(words, maxWordsLength);

/** Records tries. What the server took stays taken, and its content is not kept. */
export const recordTries = async (db: Queryable, tries: readonly EmailTry[]): Promise<void> => {
  await db.query(
    `update emails set status = tried.status, response = tried.response, error = tried.error,
       message_id = tried.message_id, attempts = emails.attempts + 1, handed_over_at = null,
       sent_at = case when tried.status = 'sent' then clock_timestamp() end,
       content_sealed = case when tried.status in ('sent', 'bounced') then null else emails.content_sealed end
     from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[])
       as tried (id, status, response, error, message_id)
     where emails.id = tried.id and emails.status <> 'sent'`,
    [
      tries.map(({ id }) => id),
      tries.map(({ status }) => status),
      tries.map(({ response }) => storable(response)),
      tries.map(({ error }) => storable(error)),
      tries.map(({ messageId }) => storable(messageId)),
    ],
    'record-email-tries',
  );
};

/** Notes that the server has the whole mail and only its answer is missing. */
export const noteHandedOver = async (db: Queryable, id: string): Promise<void> => {
  await db.query(
    `update emails set handed_over_at = now() where id = $1 and status = 'queued'`,
    [id],
    'note-handed-over',
  );
};

const keptDays = 30;

/** Mails and what is known of them go after 30 days. Answers how many went. */
export const deleteOldEmails = async (db: Queryable, max: number): Promise<number> => {
  const gone = await db.query(
    `delete from emails where id in (
       select id from emails where created_at < now() - make_interval(days => $1) order by created_at limit $2
       for update skip locked)
     returning id`,
    [keptDays, max],
  );
  return gone.length;
};
