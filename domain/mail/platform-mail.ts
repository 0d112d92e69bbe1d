import type { Queryable } from '#lib/control-db.ts';
import { newId } from '#lib/ids.ts';
import type { Sealer } from '#lib/secrets.ts';

/** Mail that the platform itself writes to its users. */
export type PlatformMessage =
  | { readonly kind: 'password-reset'; readonly to: string; readonly url: string; readonly minutes: number }
  | {
      readonly kind: 'invite';
      readonly to: string;
      readonly url: string;
      readonly orgName: string;
      readonly days: number;
    };

export interface StoredMail {
  readonly id: string;
  readonly recipient: string;
  readonly subject: string;
  readonly body: string;
  readonly created_at: Date;
}

/** The platform's outgoing mail: rows that are written with the change that causes them. */
export interface PlatformMail {
  readonly send: (db: Queryable, message: PlatformMessage) => Promise<void>;
  /** The newest first, for operators. */
  readonly list: (db: Queryable, limit: number) => Promise<StoredMail[]>;
  /** A link for a mail. Never made from a request's Host header, which a stranger can choose. */
  readonly link: (path: string) => string;
}

const subjectOf = (message: PlatformMessage): string =>
  message.kind === 'invite' ? 'You are invited to an organization' : 'Reset your password';

// The name of an organization comes from its members: kept on one line, it cannot pose as text of ours.
const quoted = (name: string): string => `"${name.replaceAll(/[\s\p{C}]+/gu, ' ').replaceAll('"', "'")}"`;

const bodyOf = (message: PlatformMessage): string =>
  message.kind === 'invite'
    ? `You are invited to join ${quoted(message.orgName)}. The link works for ${message.days} days:\n\n${message.url}\n`
    : `Someone, we hope you, asked to reset your password. The link works for ${message.minutes} minutes:\n\n${message.url}\n\nIf it was not you, nothing needs to be done.\n`;

export const createPlatformMail = (sealer: Sealer, baseUrl: string): PlatformMail => ({
  link: (path) => `${baseUrl}${path}`,
  send: async (db, message) => {
    const id = newId();
    await db.query('insert into platform_mail (id, recipient, subject, body_sealed) values ($1, $2, $3, $4)', [
      id,
      message.to,
      subjectOf(message),
      sealer.seal(`mail:${id}`, bodyOf(message)),
    ]);
  },
  list: async (db, limit) => {
    const rows = await db.query<{
      id: string;
      recipient: string;
      subject: string;
      body_sealed: Buffer;
      created_at: Date;
    }>(
      'select id, recipient, subject, body_sealed, created_at from platform_mail order by created_at desc, id desc limit $1',
      [limit],
    );
    return rows.map(({ body_sealed, ...row }) => ({ ...row, body: sealer.open(`mail:${row.id}`, body_sealed) }));
  },
});

const keptDays = 30;

/** Mails are kept for a while, for operators who look for one. */
export const sweepPlatformMail = async (db: Queryable): Promise<void> => {
  await db.query('delete from platform_mail where created_at < now() - make_interval(days => $1)', [keptDays]);
};
