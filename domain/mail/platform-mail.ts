import type { Queryable } from '#lib/control-db.ts';
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

/** Mails are kept for a while, for operators who look for one. */
export const sweepPlatformMail = async (db: Queryable): Promise<void> => {
  await db.query('delete from platform_mail where created_at < now() - make_interval(days => $1)', [keptDays]);
};
