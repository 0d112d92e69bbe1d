import { type Queryable, one } from '#lib/control-db.ts';

/** A mail that a sender took. */
export interface DueMail {
  readonly id: string;
  readonly recipient: string;
  readonly subject: string;
  readonly body_sealed: Buffer;
  /** 1 for the first try. */
  readonly attempts: number;
}

/** Longer than a sender may take: after that, it is taken for dead, and the mail is another one's. */
const leaseSeconds = 120;

/** Mails that may wait for slow answers at a time: each holds a connection of a worker. */
const maxHandedOver = 200;

/** Takes mails whose time has come, notices after all others, the oldest first. */
export const takeDueMail = (db: Queryable, max: number): Promise<DueMail[]> =>
  db.query<DueMail>(
    `update platform_mail set attempts = attempts + 1, next_at = now() + make_interval(secs => $2)
     where id in (
       select id from platform_mail where status = 'queued' and next_at <= now() and handed_over_at is null
         and (select count(*) from (select from platform_mail
              where status = 'queued' and handed_over_at is not null limit $3) waiting) < $3
       order by kind = 'notice', next_at limit $1 for update skip locked)
     returning id, recipient, subject, body_sealed, attempts`,
    [max, leaseSeconds, maxHandedOver],
    'take-due-mail',
  );

/** @param keepText in local development, where the mailbox page shows what was sent */
export const noteSent = async (
  db: Queryable,
  { id, response, keepText }: { readonly id: string; readonly response: string; readonly keepText: boolean },
): Promise<void> => {
  await db.query(
    `update platform_mail set status = 'sent', sent_at = now(), response = $2, error = null, handed_over_at = null,
       body_sealed = case when $3 then body_sealed end
     where id = $1`,
    [id, response, keepText],
  );
};

/** `again`: in so many seconds. */
export type NotSent = { readonly id: string; readonly error: string } & (
  | { readonly status: 'failed' | 'unknown' }
  | { readonly retryInSeconds: number }
);

export const noteNotSent = async (db: Queryable, notSent: NotSent): Promise<void> => {
  const { id, error } = notSent;
  const [status, seconds] = 'status' in notSent ? [notSent.status, 0] : ['queued', notSent.retryInSeconds];
  await db.query(
    `update platform_mail set error = $2, status = $3, handed_over_at = null,
       next_at = case when $3 = 'queued' then now() + make_interval(secs => $4) else next_at end
     where id = $1 and status = 'queued'`,
    [id, error, status, seconds],
  );
};

/** Only the server's answer is missing: for so long no other worker may decide what became of the mail. */
export const noteHandedOver = async (db: Queryable, id: string, forSeconds: number): Promise<void> => {
  await db.query(
    `update platform_mail set handed_over_at = now(), next_at = now() + make_interval(secs => $2)
     where id = $1 and status = 'queued'`,
    [id, forSeconds],
  );
};

/** Mails whose answer is lost, because the worker that waited for it died. */
export const giveUpHandedOver = async (db: Queryable): Promise<void> => {
  await db.query(
    `update platform_mail set status = 'unknown', handed_over_at = null,
       error = 'The mail server had the whole mail, and its answer was not heard. It may have been delivered.'
     where status = 'queued' and handed_over_at is not null and next_at <= now()`,
    [],
    'give-up-handed-over-mail',
  );
};

/**
 * There is no server for the platform's mail: what waits is left to the operators' page. Answers how many there were.
 */
export const keepDueMail = async (db: Queryable): Promise<number> => {
  const kept = await db.query(
    `update platform_mail set status = 'kept' where status = 'queued' and next_at <= now() returning id`,
    [],
    'keep-due-mail',
  );
  return kept.length;
};

/** How long the oldest mail has waited to be sent, in seconds; 0: none waits. */
export const oldestWait = async (db: Queryable): Promise<number> => {
  const row = await one(
    db.query<{ seconds: number | null }>(
      `select extract(epoch from now() - min(created_at))::float8 as seconds from platform_mail
       where status = 'queued'`,
      [],
      'oldest-mail',
    ),
  );
  return row.seconds ?? 0;
};
