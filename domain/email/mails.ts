/*
 * The mails of a project as its members see them: which ones went, which ones did not and why, and those that are sent
 * again. What a mail says lets its reader in somewhere, so that it is in no list: `readMail` is for those who may sign in
 * as a user anyway.
 */
import type { Jobs } from '#domain/jobs/jobs.ts';
import type { Starter } from '#domain/jobs/store.ts';
import type { Projects } from '#domain/projects/projects.ts';
import type { Project } from '#domain/projects/store.ts';
import { type ControlDb, type Queryable, type Tx, maybeOne, one } from '#lib/control-db.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import { lastId, readPage } from '#lib/examined-page.ts';
import { emailSend } from '#queues/email-send.ts';
import { type EmailContent, aboutContent } from './email.ts';
import { textOf } from './render.ts';
import type { TemplateType } from './templates.ts';

export const emailStatuses = ['queued', 'sent', 'failed', 'bounced', 'kept', 'unknown'] as const;
type EmailStatus = (typeof emailStatuses)[number];

/** Mails of these states went to nobody, as far as is known, and nothing is going to send them by itself. */
export const undelivered = ['failed', 'bounced', 'unknown', 'kept'] as const satisfies readonly EmailStatus[];
/** The part of them whose text is still stored: a bounced mail's is not. */
export const resendable = ['failed', 'unknown', 'kept'] as const satisfies readonly EmailStatus[];

/** A mail without what it says. */
export interface ListedEmail {
  readonly id: string;
  readonly template: TemplateType;
  readonly recipient: string;
  readonly status: EmailStatus;
  readonly attempts: number;
  /** The server's answer. */
  readonly response: string | null;
  /** Why it was not sent. */
  readonly error: string | null;
  readonly message_id: string | null;
  readonly job_id: string;
  /** Null: the job is not kept any more. */
  readonly request_id: string | null;
  readonly next_attempt_at: Date | null;
  readonly created_at: Date;
  readonly sent_at: Date | null;
  readonly can_be_resent: boolean;
}

/** Which mails; what is left out does not matter. */
export interface EmailFilter {
  readonly ids?: readonly string[] | undefined;
  readonly statuses?: readonly EmailStatus[] | undefined;
  readonly template?: TemplateType | undefined;
  /** A part of the address, without regard to case. */
  readonly recipient?: string | undefined;
  /** A part of the error, without regard to case. */
  readonly error?: string | undefined;
  readonly requestId?: string | undefined;
  readonly since?: Date | undefined;
  readonly until?: Date | undefined;
}

const columns = `id, template, recipient, status, attempts, response, error, message_id, job_id, created_at, sent_at,
  (select j.request_id from jobs j where j.id = job_id) as request_id,
  (select j.next_run_at from jobs j where j.id = job_id and j.status = 'queued' and j.next_run_at < 'infinity')
    as next_attempt_at,
  status = any ('{${resendable.join(',')}}') and content_sealed is not null as can_be_resent`;

const pattern = (text: string | undefined): string | null =>
  text === undefined ? null : `%${text.replaceAll(/[\\%_]/g, String.raw`\$&`)}%`;

/** SQL: the mail fits the filter whose values begin at `$2`. */
const fits = `($2::uuid[] is null or id = any ($2)) and ($3::text[] is null or status = any ($3))
  and ($4::text is null or template = $4) and ($5::text is null or recipient ilike $5)
  and ($6::text is null or error ilike $6)
  and ($7::text is null or job_id in (select j.id from jobs j where j.request_id = $7))
  and ($8::timestamptz is null or created_at >= $8) and ($9::timestamptz is null or created_at < $9)`;

const valuesOf = (projectId: string, filter: EmailFilter): readonly unknown[] => [
  projectId,
  filter.ids ?? null,
  filter.statuses ?? null,
  filter.template ?? null,
  pattern(filter.recipient),
  pattern(filter.error),
  filter.requestId ?? null,
  filter.since ?? null,
  filter.until ?? null,
];

type Listed<Time> = Omit<ListedEmail, 'created_at' | 'sent_at' | 'next_attempt_at'> & {
  readonly created_at: Time;
  readonly sent_at: Time | null;
  readonly next_attempt_at: Time | null;
};

const timeOf = (text: string | null): Date | null => (text === null ? null : new Date(text));

const listedOf = (row: Listed<string>): ListedEmail => ({
  ...row,
  created_at: new Date(row.created_at),
  sent_at: timeOf(row.sent_at),
  next_attempt_at: timeOf(row.next_attempt_at),
});

/** The mails that fit, the latest first; `next` is the `before` of the page behind. */
export const listEmails = async (
  db: Queryable,
  projectId: string,
  { before, limit, ...filter }: EmailFilter & { readonly before?: string | undefined; readonly limit: number },
): Promise<{ readonly mails: ListedEmail[]; readonly next: string | null }> => {
  const { rows, next } = await readPage<Listed<string>>(db, {
    examined: ['select * from emails where project_id = $1 and id < $10'],
    columns,
    fits,
    isFiltered: Object.values(filter).some((value) => value !== undefined),
    values: [...valuesOf(projectId, filter), before ?? lastId],
    limit,
  });
  return { mails: rows.map(listedOf), next };
};

/** @throws {ServiceError} `not_found`, for those of other projects, too */
export const getEmail = async (db: Queryable, projectId: string, id: string): Promise<ListedEmail> => {
  const row = await maybeOne(
    db.query<ListedEmail>(`select ${columns} from emails where project_id = $1 and id = $2`, [projectId, id]),
  );
  if (row === undefined) throw notFound('mail');
  return row;
};

/** The content of a mail, as text: what its links lead to is in it. */
interface ReadEmail {
  readonly subject: string;
  readonly text: string;
}

/**
 * Reads the text of a mail.
 * @throws {ServiceError} `not_found`; `expired`: a mail that was sent, or bounced, is not kept
 */
export const readEmail = async (
  { db, projects }: { readonly db: Queryable; readonly projects: Pick<Projects, 'sealer'> },
  project: Pick<Project, 'id' | 'data_key'>,
  id: string,
): Promise<ReadEmail> => {
  const row = await maybeOne(
    db.query<{ content_sealed: Buffer | null }>('select content_sealed from emails where project_id = $1 and id = $2', [
      project.id,
      id,
    ]),
  );
  if (row === undefined) throw notFound('mail');
  if (row.content_sealed === null) throw new ServiceError('expired', 'The text of the mail is no longer stored.');
  const opened = projects.sealer(project).open(aboutContent(id), row.content_sealed);
  const { subject, html } = JSON.parse(opened) as EmailContent;
  return { subject, text: textOf(html) };
};

interface Resending {
  readonly db: ControlDb;
  readonly jobs: Pick<Jobs, 'retry' | 'run'>;
  readonly startedBy: Starter;
  readonly requestId: string;
}

interface Match {
  readonly id: string;
  readonly job_id: string;
  readonly status: EmailStatus;
}

/** Claims a mail for the job that sends it again. @throws {ServiceError} `conflict` when another call has claimed it */
const claim = async (tx: Tx, { id, job_id: earlier, status }: Match, jobId: string): Promise<void> => {
  const claimed = await tx.query(
    `update emails set status = 'queued', job_id = $3, handed_over_at = null
     where id = $1 and job_id = $2 and status = $4 and content_sealed is not null returning id`,
    [id, earlier, jobId, status],
  );
  if (claimed.length === 0) throw new ServiceError('conflict', 'The mail is being sent already.');
};

/** For a mail whose job has succeeded, since nothing could send it, or is not kept any more. */
const sendByNewJob = async (
  { jobs, startedBy, requestId }: Resending,
  projectId: string,
  match: Match,
): Promise<void> => {
  const { id, job_id: earlier, status } = match;
  await jobs.run(
    {
      job: emailSend,
      projectId,
      requestId,
      startedBy,
      data: { email_id: id },
      alongside: (tx, jobId) => claim(tx, match, jobId),
      undo: async (tx) => {
        await tx.query(`update emails set status = $3, job_id = $2 where id = $1 and status = 'queued'`, [
          id,
          earlier,
          status,
        ]);
      },
    },
    0,
  );
};

const isCode = (error: unknown, ...codes: readonly string[]): boolean =>
  error instanceof ServiceError && codes.includes(error.code);

/** @returns whether it is sent again: somebody else may have been faster */
const sendOne = async (how: Resending, projectId: string, match: Match): Promise<boolean> => {
  try {
    await how.jobs.retry(projectId, match.job_id);
    return true;
  } catch (error) {
    if (!isCode(error, 'conflict', 'not_found')) throw error;
  }
  try {
    await sendByNewJob(how, projectId, match);
    return true;
  } catch (error) {
    if (isCode(error, 'conflict')) return false;
    throw error;
  }
};

const beginning = '00000000-0000-0000-0000-000000000000';
const batchSize = 200;
const together = 8;
const maxCounted = 100_000;
/** A call answers within this time, whatever is left; proxies end calls that take much longer. */
const maxMs = 20_000;

const canBeResent = `status = any ('{${resendable.join(',')}}') and content_sealed is not null`;

const nextBatch = (db: Queryable, projectId: string, filter: EmailFilter, after: string): Promise<Match[]> =>
  db.query<Match>(
    `select id, job_id, status from emails where project_id = $1 and ${canBeResent} and ${fits} and id > $10
     order by id limit ${batchSize}`,
    [...valuesOf(projectId, filter), after],
  );

const sendBatch = async (how: Resending, projectId: string, batch: readonly Match[]): Promise<number> => {
  let changed = 0;
  for (let at = 0; at < batch.length; at += together) {
    const done = await Promise.all(batch.slice(at, at + together).map((match) => sendOne(how, projectId, match)));
    changed += done.filter(Boolean).length;
  }
  return changed;
};

interface ResendOrder {
  readonly filter: EmailFilter;
  /** Counts only. */
  readonly dryRun: boolean;
}

/**
 * Sends mails again that were not delivered and whose text is stored, the oldest first, for at most 20 s: a caller calls
 * again while `changed` is less than `matched`. Each mail is sent by one job at a time, whoever asks.
 * @returns `matched`: how many fit, counted up to 100,000, before any was changed
 * @throws {ServiceError} `queue_full`
 */
export const resendEmails = async (
  how: Resending,
  projectId: string,
  { filter, dryRun }: ResendOrder,
): Promise<{ readonly matched: number; readonly changed: number }> => {
  const { db } = how;
  const { matched } = await one(
    db.query<{ matched: number }>(
      `select count(*)::int as matched from (
         select from emails where project_id = $1 and ${canBeResent} and ${fits} limit ${maxCounted}) found`,
      valuesOf(projectId, filter),
    ),
  );
  if (dryRun) return { matched, changed: 0 };
  const until = performance.now() + maxMs;
  let changed = 0;
  for (let after = beginning; performance.now() < until;) {
    const batch = await nextBatch(db, projectId, filter, after);
    changed += await sendBatch(how, projectId, batch);
    if (batch.length < batchSize) break;
    after = batch.at(-1)?.id ?? after;
  }
  return { matched, changed };
};
