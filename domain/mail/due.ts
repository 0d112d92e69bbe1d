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

/** Takes mails whose time has come, notices after all others, the oldest first. */
export const takeDueMail = (db: Queryable, most: number): Promise<DueMail[]> =>
  db.query<DueMail>(
    `update platform_mail set attempts = attempts + 1, next_at = now() + make_interval(secs => $2)
     where id in (
       select id from platform_mail where status = 'queued' and next_at <= now()
       order by kind = 'notice', next_at limit $1 for update skip locked)
     returning id, recipient, subject, body_sealed, attempts`,
    [most, leaseSeconds],
    'take-due-mail',
  );

/** @param keepText in local development, where the mailbox page shows what was sent */
export const noteSent = async (
  db: Queryable,
  { id, response, keepText }: { readonly id: string; readonly response: string; readonly keepText: boolean },
): Promise<void> => {
  await db.query(
    `update platform_mail set status = 'sent', sent_at = now(), response = $2, error = null,
       body_sealed = case when $3 then body_sealed end
     where id = $1`,
    [id, response, keepText],
  );
};

/** @param againInSeconds null: not again */
export const noteNotSent = async (
  db: Queryable,
  {
    id,
    error,
    againInSeconds,
  }: { readonly id: string; readonly error: string; readonly againInSeconds: number | null },
): Promise<void> => {
  await db.query(
    `update platform_mail set error = $2, status = case when $3::float8 is null then 'failed' else status end,
       next_at = case when $3 is null then next_at else now() + make_interval(secs => $3) end
     where id = $1 and status = 'queued'`,
    [id, error, againInSeconds],
  );
};

/** There is no server for the platform's mail: what waits is left to the operators' page. Answers how many there were. */
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
      `select extract(epoch from now() - min(created_at))::float8 as seconds from platform_mail where status = 'queued'`,
      [],
      'oldest-mail',
    ),
  );
  return row.seconds ?? 0;
};
