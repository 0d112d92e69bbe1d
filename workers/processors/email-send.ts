import { MailFailure } from '#domain/email/failure.ts';
import { type EmailContent, type EmailTry, type SendableRow, aboutContent } from '#domain/email/store.ts';
import { findSendable, recordTries } from '#domain/email/store.ts';
import { textOf } from '#domain/email/text-part.ts';
import type { Sender, Transports } from '#domain/email/transports.ts';
import type { Projects } from '#domain/projects/projects.ts';
import { createBatcher } from '#lib/batch.ts';
import type { Queryable } from '#lib/control-db.ts';
import { ServiceError, isDependencyFailure } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import type { Sealer } from '#lib/secrets.ts';
import type { JobData, JobOutcome } from '#queues/define.ts';
import type { emailSend } from '#queues/email-send.ts';
import { insist, insistOnEach } from '../insist.ts';
import type { JobContext, Processor } from '../processor.ts';

export interface EmailSendDeps {
  readonly db: Queryable;
  readonly projects: Pick<Projects, 'sealer'>;
  readonly transports: Pick<Transports, 'senderOf'>;
  /** What nobody can send is kept for the mailbox page. */
  readonly local: boolean;
  readonly log: Log;
}

/** From the first word to the last, whatever the server does in between. */
const sendTimeoutMs = 60_000;
/** A mail that may be on its way when the job is to stop has so long to be answered: its fate would be unknown. */
const stopGraceMs = 8000;

const keptWords = 'Nothing was sent: no mail server is configured. The mail is in the mailbox page.';

const succeeded = (id: string, response: string): JobOutcome => ({
  status: 'succeeded',
  result: JSON.stringify({ email_id: id, response }),
  error: null,
});

const failed = (code: string, message: string): JobOutcome => ({
  status: 'failed',
  result: null,
  error: { code, message },
});

/** What ends a sending: too long a time, or a job that was told to stop a while ago. */
const endingOf = (stopped: AbortSignal): { readonly signal: AbortSignal; readonly clear: () => void } => {
  const controller = new AbortController();
  const end = (): void => controller.abort();
  const timers = [setTimeout(end, sendTimeoutMs)];
  const stop = (): void => void timers.push(setTimeout(end, stopGraceMs));
  if (stopped.aborted) end();
  else stopped.addEventListener('abort', stop, { once: true });
  return {
    signal: controller.signal,
    clear: () => {
      stopped.removeEventListener('abort', stop);
      for (const timer of timers) clearTimeout(timer);
    },
  };
};

type Attempt = { readonly said: string } | { readonly failure: MailFailure };

interface Outgoing {
  readonly row: SendableRow;
  readonly sealer: Sealer;
  readonly messageId: string;
}

const attempt = async (
  sender: Sender,
  { row, sealer, messageId }: Outgoing,
  stopped: AbortSignal,
): Promise<Attempt> => {
  const { id, recipient: to, content_sealed: sealed } = row;
  if (sealed === null) return { failure: new MailFailure('rejected', 'What the mail said is not kept any more.') };
  const content = JSON.parse(sealer.open(aboutContent(id), sealed)) as EmailContent;
  const { from, dkim } = sender;
  const ending = endingOf(stopped);
  try {
    const mail = { ...content, text: textOf(content.html), messageId, from, to, dkim };
    return { said: await sender.transport.send(mail, ending.signal) };
  } catch (error) {
    if (error instanceof MailFailure) return { failure: error };
    throw error;
  } finally {
    ending.clear();
  }
};

const unrecordable = 'What was said about it could not be recorded.';

/** What became of it, without the words that Postgres refused. */
const withoutWords = ({ id, status, response, error }: EmailTry): EmailTry => ({
  id,
  status,
  response: response && unrecordable,
  error: error && unrecordable,
  messageId: null,
});

/** However long Postgres is away: what is not recorded would be sent again. */
const recorderWith = ({ db, log }: EmailSendDeps): ((tried: EmailTry) => Promise<void>) => {
  /** Whether Postgres could store it. */
  const recordOne = async (tried: EmailTry): Promise<boolean> => {
    try {
      await recordTries(db, [tried]);
      return true;
    } catch (error) {
      if (isDependencyFailure(error)) throw error;
      log.error({ err: error, email_id: tried.id }, 'Postgres refused the record of a mail');
      return false;
    }
  };
  const recordEach = async (tries: readonly EmailTry[]): Promise<boolean[]> => {
    const stored: boolean[] = [];
    for (const tried of tries) stored.push(await recordOne(tried));
    return stored;
  };
  const batches = createBatcher(
    insistOnEach(log, 'recording mails', async (tries: readonly EmailTry[]) => {
      try {
        await recordTries(db, tries);
        return tries.map(() => true);
      } catch (error) {
        if (isDependencyFailure(error)) throw error;
        return recordEach(tries);
      }
    }),
  );
  return async (tried) => {
    // By itself from here on: what is refused once more holds up no mail but this one.
    if (!(await batches.add(tried)))
      await insist(log, 'recording a mail', () => recordTries(db, [withoutWords(tried)]));
  };
};

/** A mail that needs no sending: it was done by a run that could not say so, or is over for good. */
const whenDone = ({ id, status, response }: SendableRow): JobOutcome | null => {
  if (status === 'sent' || status === 'kept') return succeeded(id, response ?? '');
  return status === 'bounced' ? failed('mail_rejected', response ?? 'The recipient was refused.') : null;
};

type Record = ReturnType<typeof recorderWith>;

/** @throws {ServiceError} `mail_failed` when another try may do */
const conclude = async (record: Record, tried: Attempt, { row, messageId }: Outgoing): Promise<JobOutcome> => {
  const of = { id: row.id, messageId };
  if ('said' in tried) {
    await record({ ...of, status: 'sent', response: tried.said, error: null });
    return succeeded(row.id, tried.said);
  }
  const { fault, message } = tried.failure;
  if (fault === 'again') {
    await record({ ...of, status: 'queued', response: null, error: message });
    throw new ServiceError('mail_failed', message);
  }
  const status = fault === 'bounced' ? 'bounced' : 'failed';
  await record({ ...of, status, response: fault === 'bounced' ? message : null, error: message });
  return failed('mail_rejected', message);
};

const withoutSender = async ({ local }: EmailSendDeps, record: Record, { row }: Outgoing): Promise<JobOutcome> => {
  const of = { id: row.id, messageId: null };
  if (local) {
    await record({ ...of, status: 'kept', response: keptWords, error: null });
    return succeeded(row.id, keptWords);
  }
  const message = 'The project has no mail server.';
  await record({ ...of, status: 'failed', response: null, error: message });
  return failed('smtp_not_configured', message);
};

const sendMail = async (
  deps: EmailSendDeps,
  record: Record,
  emailId: string,
  { projectId, signal }: Pick<JobContext, 'projectId' | 'signal'>,
): Promise<JobOutcome> => {
  const row = await findSendable(deps.db, projectId, emailId);
  if (row === undefined) return failed('not_found', 'The mail or its project was deleted.');
  const done = whenDone(row);
  if (done) return done;
  const sealer = deps.projects.sealer({ id: projectId, data_key: row.data_key });
  const sender = await deps.transports.senderOf({ id: projectId, sealer, settings: row.settings });
  const outgoing = { row, sealer, messageId: `${emailId}@${sender?.domain ?? ''}` };
  if (sender === null) return withoutSender(deps, record, outgoing);
  return conclude(record, await attempt(sender, outgoing, signal), outgoing);
};

/**
 * Sends one mail. The server's 250 is recorded before anything else, so that no later run sends it again; what ended
 * without a word of the server's is sent again, under the same message id.
 */
export const emailSendProcessor = (deps: EmailSendDeps): Processor => {
  const record = recorderWith(deps);
  const underWay = new Map<string, Promise<JobOutcome>>();
  return {
    run: async (data, context) => {
      const { email_id: id } = data as JobData<typeof emailSend>;
      // A run that was given up may have had its 250 and not have been able to record it yet: the next waits for it.
      const present = underWay.get(id);
      if (present) return present;
      const sending = sendMail(deps, record, id, context);
      underWay.set(id, sending);
      try {
        return await sending;
      } finally {
        underWay.delete(id);
      }
    },
  };
};
