import { type Platform, openPlatform } from '#domain/platform.ts';
import { createPlatformMail } from '#domain/mail/mail.ts';
import type { Config } from '#lib/config.ts';
import type { TestPlatform } from '#test/support/platform.ts';
import { memoryLog } from '#test/support/platform.ts';
import { type SmtpOptions, type TestSmtp, startSmtp } from '#test/support/smtp.ts';
import { openPlatformMailServer } from '#workers/mail/server.ts';
import type { SenderDeps } from '#workers/mail/sender.ts';

/** A sender as a worker has it, and the server that it sends to. */
export interface MailScene {
  readonly deps: SenderDeps;
  readonly smtp: TestSmtp;
  readonly platform: Platform;
  readonly logged: () => string;
  /** Writes a mail to that address. */
  readonly write: (to: string) => Promise<void>;
  /** The row without its text. */
  readonly row: (to: string) => Promise<{ status: string; attempts: number; error: string | null; hasText: boolean }>;
  /** Mails that wait for their time are due now. */
  readonly hurry: (to: string) => Promise<void>;
  readonly close: () => Promise<void>;
}

const withServer = (config: Config, smtp: TestSmtp): Config => ({
  ...config,
  PLINTH_SMTP_URL: `smtp://127.0.0.1:${smtp.port}`,
  PLINTH_MAIL_FROM: 'Plinth here <no-reply@plinth.test>',
});

/** @param test a platform without workers, whose database the sender works with */
export const openMailScene = async (test: TestPlatform, options: SmtpOptions = {}): Promise<MailScene> => {
  const smtp = await startSmtp(options);
  const { log, text } = memoryLog();
  const platform = await openPlatform(test.config, log);
  const { db, sealer } = platform;
  const server = openPlatformMailServer(withServer(test.config, smtp));
  const mail = createPlatformMail(sealer, 'http://plinth.test');
  return {
    deps: { db, sealer, log, server, keepText: false },
    smtp,
    platform,
    logged: text,
    write: (to) =>
      mail.send(db, { kind: 'password-reset', to, url: 'http://plinth.test/reset/secret-token', minutes: 60 }),
    row: async (to) => {
      const [row] = await db.query<{ status: string; attempts: number; error: string | null; hasText: boolean }>(
        `select status, attempts, error, body_sealed is not null as "hasText" from platform_mail where recipient = $1`,
        [to],
      );
      if (row === undefined) throw new Error(`no mail to ${to}`);
      return row;
    },
    hurry: async (to) => {
      await db.query('update platform_mail set next_at = now() where recipient = $1', [to]);
    },
    close: async () => {
      server?.end();
      await smtp.close();
      await platform.close();
    },
  };
};
