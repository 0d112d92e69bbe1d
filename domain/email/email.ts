/*
 * E-mail that projects send to their users. The way through this folder: this file (queueing a mail, and its row),
 * templates.ts and render.ts (what it says), settings.ts (the project's server and DKIM key), transports.ts (who sends
 * it: resend.ts, or transport.ts over pooled connections of smtp.ts), failure.ts (why it was not sent). smtp-check.ts
 * tries settings; mailbox.ts shows operators what nothing could send.
 */

import type { JobRequest, Jobs } from '#domain/jobs/jobs.ts';
import type { Projects } from '#domain/projects/projects.ts';
import type { Project } from '#domain/projects/store.ts';
import { type Queryable, type Tx, maybeOne } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import { oneLineOf } from '#lib/one-line.ts';
import { emailSend } from '#queues/email-send.ts';
import { isAddress, isOneLine } from './address.ts';
import { type Variables, renderHtml, renderSubject } from './render.ts';
import { findMailProvider } from './resend.ts';
import { type EmailSettingsRow, findEmailSettings, settingsColumns } from './settings.ts';
import { type TemplateType, findTemplate } from './templates.ts';

interface EmailDeps {
  readonly db: Queryable;
  readonly projects: Pick<Projects, 'sealer'>;
  /** On a developer's machine a mail without a server is kept for the mailbox page. */
  readonly local: boolean;
}

/** A mail that a project writes to somebody. */
export interface EmailOrder {
  readonly project: Pick<Project, 'id' | 'name' | 'data_key'>;
  readonly template: TemplateType;
  readonly to: string;
  /** Beside `project_name`. Those that end in `_url` must be addresses of the web. */
  readonly variables: Variables;
  /** Such as List-Unsubscribe; they go out as they are given. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly requestId: string;
}

const headerName = /^[A-Za-z][A-Za-z0-9-]{0,60}$/;

const refuse = (path: string, message: string): ServiceError =>
  new ServiceError('validation_failed', 'The mail is not valid.', { details: [{ path, message }] });

const checkOrder = ({ to, variables, headers = {} }: EmailOrder): void => {
  if (!isAddress(to)) throw refuse('email', 'must be one e-mail address');
  for (const [name, value] of Object.entries(variables)) {
    if (name.endsWith('_url') && (typeof value !== 'string' || !/^https?:\/\//i.test(value)))
      throw refuse(name, 'must be an http address');
  }
  for (const [name, value] of Object.entries(headers)) {
    if (!headerName.test(name) || !isOneLine(value)) throw refuse(name, 'is not a header');
  }
};

/** @throws {ServiceError} `smtp_not_configured` when nothing can send a mail of this project */
export const requireSender = async (deps: EmailDeps, project: EmailOrder['project']): Promise<void> => {
  if (deps.local || (await findEmailSettings(deps.db, project.id))) return;
  if (await findMailProvider(deps.db, deps.projects.sealer(project), project)) return;
  throw new ServiceError('smtp_not_configured', 'The project has no mail server.', {
    hint: 'PUT /projects/{id}/email/smtp sets one.',
  });
};

/**
 * The job that sends a mail; its row is written with the job's own.
 * @throws {ServiceError} `smtp_not_configured`, `validation_failed`
 */
export const emailRequest = async (deps: EmailDeps, order: EmailOrder): Promise<JobRequest<typeof emailSend>> => {
  const { project, to, requestId } = order;
  checkOrder(order);
  await requireSender(deps, project);
  const template = await findTemplate(deps.db, project.id, order.template);
  const variables = { ...order.variables, project_name: project.name };
  const content: EmailContent = {
    subject: renderSubject(template.subject, variables).text,
    html: renderHtml(template.html_body, variables).text,
    headers: order.headers,
  };
  const id = newId();
  const sealed = deps.projects.sealer(project).seal(aboutContent(id), JSON.stringify(content));
  return {
    job: emailSend,
    projectId: project.id,
    requestId,
    data: { email_id: id },
    alongside: (tx, jobId) =>
      insertEmail(tx, { id, projectId: project.id, template: order.template, recipient: to, content: sealed, jobId }),
    undo: (tx) => deleteEmail(tx, id),
  };
};

/**
 * Sends a mail to a project's user soon; null when the project has turned mails of this type off.
 * @throws {ServiceError} `smtp_not_configured`, `validation_failed`, `queue_full`
 */
export const queueEmail = async (
  deps: EmailDeps & { readonly jobs: Pick<Jobs, 'run'> },
  order: EmailOrder,
): Promise<{ readonly jobId: string } | null> => {
  const { enabled } = await findTemplate(deps.db, order.project.id, order.template);
  if (!enabled) return null;
  const { id } = await deps.jobs.run(await emailRequest(deps, order), 0);
  return { jobId: id };
};

type EmailStatus = 'queued' | 'sent' | 'failed' | 'bounced' | 'kept' | 'unknown';

/** The content of a mail, as its row stores it, sealed. */
export interface EmailContent {
  readonly subject: string;
  readonly html: string;
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

interface NewEmail {
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

const deleteEmail = async (db: Queryable, id: string): Promise<void> => {
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

type JoinedRow = Omit<SendableRow, 'id' | 'settings'> & { readonly email_id: string } & {
  readonly [Name in keyof EmailSettingsRow]: EmailSettingsRow[Name] | null;
};

/** A mail and the way it goes; undefined when its project was deleted. */
export const findSendable = async (db: Queryable, projectId: string, id: string): Promise<SendableRow | undefined> => {
  const row = await maybeOne(
    db.query<JoinedRow>(
      `select e.id as email_id, e.recipient, e.content_sealed, e.status, e.response, e.error, e.handed_over_at,
         p.data_key, ${settingsColumns}
       from emails e join projects p on p.id = e.project_id left join email_settings s on s.project_id = e.project_id
       where e.id = $1 and e.project_id = $2 and p.deleted_at is null`,
      [id, projectId],
      'find-sendable-email',
    ),
  );
  return row && { ...row, id: row.email_id, settings: row.host === null ? null : (row as EmailSettingsRow) };
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
const storable = (words: string | null): string | null => words && oneLineOf(words, maxWordsLength);

/** A mail after a try. */
interface TriedEmail {
  readonly id: string;
  readonly project_id: string;
  readonly created_at: Date;
  readonly template: string;
  readonly recipient: string;
  readonly status: EmailStatus;
  readonly attempts: number;
  readonly response: string | null;
  readonly error: string | null;
  /** Null: the job is not kept any more. */
  readonly request_id: string | null;
}

/**
 * Records tries. What the server took stays taken, and its content is not kept.
 * @returns the mails that have changed
 */
export const recordTries = (db: Queryable, tries: readonly EmailTry[]): Promise<TriedEmail[]> =>
  db.query<TriedEmail>(
    `update emails set status = tried.status, response = tried.response, error = tried.error,
       message_id = tried.message_id, attempts = emails.attempts + 1, handed_over_at = null,
       sent_at = case when tried.status = 'sent' then clock_timestamp() end,
       content_sealed = case when tried.status in ('sent', 'bounced') then null else emails.content_sealed end
     from unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[])
       as tried (id, status, response, error, message_id)
     where emails.id = tried.id and emails.status <> 'sent'
     returning emails.id, project_id, created_at, template, recipient, emails.status, attempts, emails.response,
       emails.error, (select j.request_id from jobs j where j.id = emails.job_id) as request_id`,
    [
      tries.map(({ id }) => id),
      tries.map(({ status }) => status),
      tries.map(({ response }) => storable(response)),
      tries.map(({ error }) => storable(error)),
      tries.map(({ messageId }) => storable(messageId)),
    ],
    'record-email-tries',
  );

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
