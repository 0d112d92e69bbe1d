/*
 * Mail of the platform itself: rows that are written with the change that causes them. message.ts says what each mail
 * says, due.ts hands rows to the senders in workers/mail.
 */

import { type Queryable, one } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { Sealer } from '#lib/secrets.ts';
import { type PlatformMessage, textOf } from './message.ts';

/** The platform's outgoing mail: rows that are written with the change that causes them, and sent by workers. */
export interface PlatformMail {
  readonly send: (db: Queryable, ...messages: readonly PlatformMessage[]) => Promise<void>;
  /** A link for a mail. Never made from a request's Host header, which a stranger can choose. */
  readonly link: (path: string) => string;
}

/** The associated data of a mail's sealed text. */
export const aboutMail = (id: string): string => `mail:${id}`;

export const createPlatformMail = (sealer: Sealer, baseUrl: string): PlatformMail => ({
  link: (path) => `${baseUrl}${path}`,
  send: async (db, ...messages) => {
    const rows = messages.map((message) => ({ id: newId(), message, ...textOf(message) }));
    await db.query(
      `insert into platform_mail (id, kind, org_id, project_id, recipient, subject, body_sealed)
       select * from unnest($1::uuid[], $2::text[], $3::text[], $4::uuid[], $5::text[], $6::text[], $7::bytea[])`,
      [
        rows.map(({ id }) => id),
        rows.map(({ message }) => message.kind),
        rows.map(({ message }) => (message.kind === 'invite' ? message.orgId : null)),
        rows.map(({ message }) => (message.kind === 'notice' ? message.projectId : null)),
        rows.map(({ message }) => message.to),
        rows.map(({ subject }) => subject),
        rows.map(({ id, text }) => sealer.seal(aboutMail(id), text)),
      ],
    );
  },
});

const keptDays = 30;

/** Mails are kept for a while, for operators who search for one. */
export const sweepPlatformMail = async (db: Queryable): Promise<void> => {
  await db.query('delete from platform_mail where created_at < now() - make_interval(days => $1)', [keptDays]);
};

/** The content of a notice to a project's admins. */
export interface Notice {
  readonly projectId: string;
  readonly subject: string;
  /** Plain text; those of `linkTo` are shown as buttons. */
  readonly paragraphs: readonly string[];
}

// An organization may have any number of admins; readers of the first of these notices inform the others.
const maxRecipients = 50;

/**
 * Writes to the admins and owners of a project's organization, in the transaction of the reported change. Once an hour
 * at most: a user who causes failures must not fill their mailboxes. `paragraphs` must hold no names as people wrote
 * them (`quoted`).
 */
export const noticeToAdmins = async (mail: PlatformMail, tx: Queryable, notice: Notice): Promise<void> => {
  const { projectId, subject, paragraphs } = notice;
  const rows = await tx.query<{ email: string }>(
    `select u.email from projects p join members m on m.org_id = p.org_id join users u on u.id = m.user_id
     where p.id = $1 and m.status = 'active' and m.role in ('owner', 'admin')
       and not exists (
         select from platform_mail o where o.project_id = p.id and o.created_at > now() - interval '1 hour')
     order by m.role desc, m.created_at limit $2`,
    [projectId, maxRecipients],
  );
  if (rows.length === 0) return;
  await mail.send(
    tx,
    ...rows.map(({ email }) => ({ kind: 'notice' as const, to: email, projectId, subject, paragraphs })),
  );
};

/** Invites that one address may be sent in a day, from all senders. */
const maxToAddress = 5;
/** Invites that one organization may have sent in an hour. */
const maxOfOrganization = 200;

const tooMany = (message: string, seconds: number): ServiceError =>
  new ServiceError('rate_limited', message, { headers: { 'Retry-After': String(seconds) } });

/**
 * Before an invite is mailed: an address is not to be flooded, by one organization or by many.
 * @throws {ServiceError} `rate_limited`
 */
export const requireRoomForInvite = async (
  db: Queryable,
  { orgId, to }: { readonly orgId: string; readonly to: string },
): Promise<void> => {
  const sent = await one(
    db.query<{ to_address: number; of_organization: number }>(
      `select (select count(*) from platform_mail
           where kind = 'invite' and lower(recipient) = lower($2)
             and created_at > now() - interval '1 day') as to_address,
         (select count(*) from platform_mail
           where kind = 'invite' and org_id = $1 and created_at > now() - interval '1 hour') as of_organization`,
      [orgId, to],
    ),
  );
  if (sent.to_address >= maxToAddress) {
    throw tooMany(`This address has been sent ${maxToAddress} invites in a day. Nothing was sent.`, 24 * 3600);
  }
  if (sent.of_organization >= maxOfOrganization) {
    throw tooMany(`The organization has sent ${maxOfOrganization} invites in an hour. Nothing was sent.`, 3600);
  }
};

/** Confirmation links that one address may be sent in a day, from all accounts. */
const maxConfirmations = 5;

/** @throws {ServiceError} `rate_limited` */
export const requireRoomForConfirmation = async (db: Queryable, to: string): Promise<void> => {
  const { sent } = await one(
    db.query<{ sent: number }>(
      `select count(*) as sent from platform_mail
       where kind = 'confirm-email' and lower(recipient) = lower($1) and created_at > now() - interval '1 day'`,
      [to],
    ),
  );
  if (sent < maxConfirmations) return;
  throw tooMany(`This address has been sent ${maxConfirmations} links in a day. Nothing was sent.`, 24 * 3600);
};
