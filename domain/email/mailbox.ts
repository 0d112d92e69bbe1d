import { aboutMail } from '#domain/mail/mail.ts';
import { htmlOf } from '#domain/mail/message.ts';
import type { Projects } from '#domain/projects/projects.ts';
import { type Queryable, maybeOne, one } from '#lib/control-db.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import type { Sealer } from '#lib/secrets.ts';
import { type EmailContent, aboutContent } from './email.ts';
import { textOf } from './render.ts';

export const mailStatuses = ['queued', 'sent', 'failed', 'unknown', 'kept'] as const;
type MailStatus = (typeof mailStatuses)[number];

/** A mail as operators see it: the platform's own, or one of a project that nothing could send. */
export interface Mailed {
  readonly id: string;
  /** Null: the platform's own. */
  readonly project_id: string | null;
  readonly recipient: string;
  readonly subject: string;
  readonly status: MailStatus;
  readonly attempts: number;
  readonly response: string | null;
  readonly error: string | null;
  readonly created_at: Date;
  readonly sent_at: Date | null;
  /** Null: not for operators to read, or gone. */
  readonly content: MailContent | null;
}

/** The content of a mail. */
interface MailContent {
  readonly subject: string;
  readonly text: string;
  readonly html: string;
}

export interface MailboxDeps {
  readonly db: Queryable;
  readonly sealer: Sealer;
  readonly projects: Pick<Projects, 'sealer'>;
  /** In local development the page shows what was sent, too. */
  readonly local: boolean;
  /** Whether there is a server for the platform's mail. */
  readonly hasServer: boolean;
}

interface Row extends Omit<Mailed, 'content' | 'subject'> {
  /** Null: it stands in the content. */
  readonly subject: string | null;
  readonly sealed: Buffer | null;
  readonly data_key: Buffer | null;
}

// Projects' mails are here only when there was no server for them.
const mails = `(
  select id, null::uuid as project_id, recipient, subject, status, attempts, response, error, created_at, sent_at,
    body_sealed as sealed, null::bytea as data_key
  from platform_mail
  union all
  select e.id, e.project_id, e.recipient, null, e.status, e.attempts, e.response, e.error, e.created_at, e.sent_at,
    e.content_sealed, p.data_key
  from emails e join projects p on p.id = e.project_id where e.status = 'kept'
) as mail`;

/** A mail that is on its way to somebody lets them in somewhere: only what nobody else can deliver is read here. */
const mayRead = ({ local }: MailboxDeps, { status }: Row): boolean => local || status === 'kept';

const contentOf = (deps: MailboxDeps, row: Row): MailContent | null => {
  if (row.sealed === null || !mayRead(deps, row)) return null;
  if (row.project_id !== null && row.data_key !== null) {
    const sealer = deps.projects.sealer({ id: row.project_id, data_key: row.data_key });
    const { subject, html } = JSON.parse(sealer.open(aboutContent(row.id), row.sealed)) as EmailContent;
    return { subject, text: textOf(html), html };
  }
  const text = deps.sealer.open(aboutMail(row.id), row.sealed);
  const subject = row.subject ?? '';
  return { subject, text, html: htmlOf({ subject, text }) };
};

const mailedOf = (deps: MailboxDeps, { sealed, data_key, ...row }: Row): Mailed => {
  const content = contentOf(deps, { ...row, sealed, data_key });
  return { ...row, subject: row.subject ?? content?.subject ?? '', content };
};

interface MailboxPage {
  readonly status?: MailStatus | undefined;
  readonly limit: number;
  readonly offset: number;
}

/** The newest first. */
export const listMails = async (
  deps: MailboxDeps,
  { status, limit, offset }: MailboxPage,
): Promise<{ mails: Mailed[]; total: number }> => {
  const rows = await deps.db.query<Row>(
    `select * from ${mails} where $3::text is null or status = $3 order by created_at desc, id desc limit $1 offset $2`,
    [limit, offset, status ?? null],
  );
  const { total } = await one(
    deps.db.query<{ total: number }>(`select count(*) as total from ${mails} where $1::text is null or status = $1`, [
      status ?? null,
    ]),
  );
  return { mails: rows.map((row) => mailedOf(deps, row)), total };
};

/** @throws {ServiceError} `not_found` */
export const findMail = async (deps: MailboxDeps, id: string): Promise<Mailed> => {
  const row = await maybeOne(deps.db.query<Row>(`select * from ${mails} where id = $1`, [id]));
  if (row === undefined) throw notFound('mail');
  return mailedOf(deps, row);
};

/**
 * Has a mail of the platform sent that was given up, or kept while there was no server.
 * @throws {ServiceError} `not_found`; `smtp_not_configured`; `conflict` in any other state
 */
export const retrySend = async (deps: MailboxDeps, id: string): Promise<Mailed> => {
  if (!deps.hasServer) {
    throw new ServiceError('smtp_not_configured', 'The platform has no mail server.', {
      hint: 'PLINTH_SMTP_URL names one.',
    });
  }
  const queued = await deps.db.query(
    `update platform_mail set status = 'queued', attempts = 0, next_at = now(), error = null
     where id = $1 and status in ('failed', 'unknown', 'kept') and body_sealed is not null returning id`,
    [id],
  );
  if (queued.length > 0) return findMail(deps, id);
  const { status, project_id: projectId } = await findMail(deps, id);
  if (projectId !== null) {
    throw new ServiceError('conflict', 'Mails of projects are sent by their jobs.', {
      hint: 'Configure the project’s mail server, then retry the job.',
    });
  }
  throw new ServiceError('conflict', `The mail is ${status} already.`);
};
