import { Counter, Gauge } from 'prom-client';
import { MailFailure } from '#domain/email/failure.ts';
import { usualTimeouts } from '#domain/email/smtp.ts';
import {
  type DueMail,
  giveUpHandedOver,
  keepDueMail,
  noteHandedOver,
  noteNotSent,
  noteSent,
  oldestWait,
  takeDueMail,
} from '#domain/mail/due.ts';
import { aboutMail } from '#domain/mail/mail.ts';
import { htmlOf } from '#domain/mail/message.ts';
import type { Queryable } from '#lib/control-db.ts';
import type { Log } from '#lib/log.ts';
import { registry } from '#lib/metrics.ts';
import { type Poller, startPoller } from '#lib/poller.ts';
import type { Sealer } from '#lib/secrets.ts';
import { retryUntilDone } from '#workers/retry-until-done.ts';
import type { PlatformMailServer } from './server.ts';

const mailTries = new Counter({
  name: 'plinth_platform_mail_tries_total',
  help: 'Tries to send mail of the platform itself, by their outcome: sent, again or failed.',
  labelNames: ['outcome'] as const,
  registers: [registry],
});

const mailOldestWait = new Gauge({
  name: 'plinth_platform_mail_oldest_wait_seconds',
  help: 'How long the oldest mail of the platform itself has waited to be sent.',
  registers: [registry],
});

export interface SenderDeps {
  readonly db: Queryable;
  readonly sealer: Sealer;
  readonly log: Log;
  /** Null: there is none, and mails are kept for the operators' page. */
  readonly server: PlatformMailServer | null;
  /** In local development the mailbox page shows what was sent. */
  readonly keepText: boolean;
  /** How long the server may take to answer to a whole mail; 10 minutes unless given. */
  readonly answerMs?: number;
}

const atOnce = 4;
/** How much later than the last possible answer a mail's fate counts as unknown. */
const answerSlackMs = 60_000;
const maxTries = 10;
const firstPauseSeconds = 5;
const maxPauseSeconds = 3600;
const pollIntervalMs = 1000;
/** In polls; sent mail changes the figure at once. */
const measureEvery = 10;

/** Doubling, with a tenth more or less: 5 s, 10 s … an hour. */
const pauseAfter = (tries: number): number =>
  Math.min(maxPauseSeconds, firstPauseSeconds * 2 ** (tries - 1)) * (0.9 + Math.random() * 0.2);

const mailOf = ({ sealer }: SenderDeps, { from, domain }: PlatformMailServer, row: DueMail) => {
  const text = sealer.open(aboutMail(row.id), row.body_sealed);
  return {
    messageId: `${row.id}@${domain}`,
    from,
    to: row.recipient,
    subject: row.subject,
    text,
    html: htmlOf({ subject: row.subject, text }),
  };
};

/** Again later, unless the server refused the mail, may have taken it, or it was tried often enough. */
const noteFailure = async ({ db, log }: SenderDeps, { id, attempts }: DueMail, error: unknown): Promise<void> => {
  const fault = error instanceof MailFailure ? error.fault : 'again';
  const isFinal = fault !== 'again' || attempts >= maxTries;
  const message = error instanceof MailFailure ? error.message : 'The mail could not be made or sent.';
  mailTries.inc({ outcome: isFinal ? 'failed' : 'again' });
  log.warn({ err: error, mail_id: id, attempts }, isFinal ? 'a mail was given up' : 'a mail is sent later');
  if (!isFinal) await noteNotSent(db, { id, error: message, retryInSeconds: pauseAfter(attempts) });
  else await noteNotSent(db, { id, error: message, status: fault === 'unknown' ? 'unknown' : 'failed' });
};

/** @param onSlow called when only the server's answer is missing */
const sendOne = async (
  deps: SenderDeps,
  server: PlatformMailServer,
  row: DueMail,
  onSlow: () => Promise<void>,
): Promise<void> => {
  const { db, log, keepText } = deps;
  let noted = Promise.resolve();
  let response: string;
  try {
    const mail = mailOf(deps, server, row);
    response = await server.transport.send(mail, new AbortController().signal, () => {
      noted = onSlow();
    });
  } catch (error) {
    await noted;
    await noteFailure(deps, row, error);
    return;
  }
  mailTries.inc({ outcome: 'sent' });
  await noted;
  // The server has it: forgotten now, it would be sent again.
  await retryUntilDone(log, 'noting that a mail was sent', () => noteSent(db, { id: row.id, response, keepText }));
};

/** Resolves when the mail needs no more attention, or when only the answer of a slow server is missing. */
const sendOrLeave = async (deps: SenderDeps, server: PlatformMailServer, row: DueMail): Promise<void> => {
  const { db, log, answerMs = usualTimeouts.answerMs } = deps;
  const slow = Promise.withResolvers<void>();
  const sent = sendOne(deps, server, row, async () => {
    const seconds = (answerMs + answerSlackMs) / 1000;
    await retryUntilDone(log, 'noting that a mail was handed over', () => noteHandedOver(db, row.id, seconds));
    slow.resolve();
  });
  await Promise.race([sent, slow.promise]);
  sent.catch((error: unknown) =>
    log.warn({ err: error, mail_id: row.id }, 'the outcome of a mail could not be recorded'),
  );
};

/** Sends what is due; answers how many mails it took. */
export const sendDueMail = async (deps: SenderDeps): Promise<number> => {
  const { db, server } = deps;
  if (server === null) return keepDueMail(db);
  await giveUpHandedOver(db);
  const due = await takeDueMail(db, atOnce);
  const results = await Promise.allSettled(due.map((row) => sendOrLeave(deps, server, row)));
  const failure = results.find((result) => result.status === 'rejected');
  // Not even the failure could be noted: the mail is taken again when its lease is over.
  if (failure) throw failure.reason;
  return due.length;
};

/** Sends the platform's mail, a second after it was written at most. Every system worker does this. */
export const startMailSender = (deps: SenderDeps): Pick<Poller, 'stop'> => {
  let untilMeasured = 0;
  const round = async (stopping: AbortSignal): Promise<void> => {
    untilMeasured -= 1;
    for (let taken = 1; taken > 0 && !stopping.aborted;) {
      taken = await sendDueMail(deps);
      if (taken > 0) untilMeasured = 0;
    }
    if (untilMeasured > 0) return;
    mailOldestWait.set(await oldestWait(deps.db));
    untilMeasured = measureEvery;
  };
  const poller = startPoller(round, {
    everyMs: pollIntervalMs,
    onFailure: (error) => deps.log.debug({ err: error }, 'the platform’s mail could not be polled'),
  });
  return {
    stop: async () => {
      await poller.stop();
      deps.server?.end();
    },
  };
};
