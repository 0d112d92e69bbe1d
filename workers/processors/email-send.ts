import {
  type EmailContent,
  type EmailTry,
  type SendableRow,
  aboutContent,
  findSendable,
  noteHandedOver,
  recordTries,
} from '#domain/email/email.ts';
import { MailFailure } from '#domain/email/failure.ts';
import { textOf } from '#domain/email/render.ts';
import { usualTimeouts } from '#domain/email/smtp.ts';
import type { Sender, Transports } from '#domain/email/transports.ts';
import { mailLine } from '#domain/logs/lines.ts';
import type { Projects } from '#domain/projects/projects.ts';
import { createBatcher, splitRefused } from '#lib/batch.ts';
import type { Queryable } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import type { Sealer } from '#lib/secrets.ts';
import type { JobData, JobOutcome } from '#queues/define.ts';
import { emailSend } from '#queues/email-send.ts';
import type { Signals } from '#queues/signals.ts';
import { retryEachUntilDone, retryUntilDone } from '#workers/retry-until-done.ts';
import { type JobContext, type Processor, JobParked, failed } from '../processor.ts';

const unrecordable = 'What was said about it could not be recorded.';

/** The outcome of the attempt, without the text that Postgres refused. */
const withoutWords = ({ id, status, response, error }: EmailTry): EmailTry => ({
  id,
  status,
  response: response && unrecordable,
  error: error && unrecordable,
  messageId: null,
});

interface RecorderDeps {
  readonly db: Queryable;
  /** Left out: nobody is told. */
  readonly announceLines?: Signals['announceLines'];
  readonly log: Log;
}

/** Writes what becomes of mails, however long Postgres is away: what is not recorded would be sent again. */
interface TryRecorder {
  readonly record: (tried: EmailTry) => Promise<void>;
  /** Only the server's answer to this mail is missing. */
  readonly handedOver: (emailId: string) => Promise<void>;
}

const createTryRecorder = ({ db, announceLines = () => undefined, log }: RecorderDeps): TryRecorder => {
  const store = async (tries: readonly EmailTry[]): Promise<void> => {
    const mails = await recordTries(db, tries);
    for (const [projectId, ofProject] of Map.groupBy(mails, (mail) => mail.project_id))
      announceLines(projectId, ofProject.map(mailLine));
  };
  const storeAll = async (tries: readonly EmailTry[]): Promise<boolean[]> => {
    await store(tries);
    return tries.map(() => true);
  };
  /** Answers which could be stored. */
  const batches = createBatcher(
    retryEachUntilDone(
      log,
      'recording mails',
      splitRefused(storeAll, async (tried, error) => {
        log.error({ err: error, email_id: tried.id }, 'Postgres refused the record of a mail');
        return false;
      }),
    ),
  );
  return {
    record: async (tried) => {
      // From here on each mail is recorded by itself: one that is refused again holds up no other.
      if (!(await batches.add(tried)))
        await retryUntilDone(log, 'recording a mail', () => store([withoutWords(tried)]));
    },
    handedOver: (emailId) =>
      retryUntilDone(log, 'recording that a mail was handed over', () => noteHandedOver(db, emailId)),
  };
};

export interface EmailSendDeps extends Pick<RecorderDeps, 'announceLines'> {
  readonly db: Queryable;
  readonly projects: Pick<Projects, 'sealer'>;
  readonly transports: Pick<Transports, 'senderOf'>;
  /** A mail that nobody can send is kept for the mailbox page. */
  readonly local: boolean;
  readonly log: Log;
  /** How long a server may take to answer to a whole mail; 10 minutes unless given. */
  readonly answerMs?: number;
  /** 20 of one project and 500 of all unless given. */
  readonly maxParked?: { readonly ofProject: number; readonly ofAll: number };
  /** How long a mail that cannot be parked waits in its slot for a slow answer, in ms; a minute unless given. */
  readonly unparkedMs?: number;
}

/** How much later than the last possible answer a mail's fate counts as unknown. */
const parkSlackMs = 90_000;
const usuallyParked = { ofProject: 20, ofAll: 500 };
/**
 * As long as a server may take before it has the mail: a few projects with slow servers must not hold all slots for
 * longer.
 */
const usuallyUnparkedMs = 60_000;
/** A mail that may be on its way when the job is to stop has so long to be answered: its fate would be unknown. */
const stopGraceMs = 8000;

const keptWords = 'Nothing was sent: no mail server is configured. The mail is in the mailbox page.';

const succeeded = (id: string, response: string): JobOutcome => ({
  status: 'succeeded',
  result: JSON.stringify({ email_id: id, response }),
  error: null,
});

/** Ends a transmission some time after its job was cancelled. */
const endingOf = (stopped: AbortSignal): { readonly signal: AbortSignal; readonly clear: () => void } => {
  const controller = new AbortController();
  const end = (): void => controller.abort();
  const timers: NodeJS.Timeout[] = [];
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

type Attempt = { readonly reply: string } | { readonly failure: MailFailure };

interface Outgoing {
  readonly row: SendableRow;
  readonly sealer: Sealer;
  readonly messageId: string;
}

/** The signals that a run receives, and the events that it reports. */
interface SendContext extends Pick<JobContext, 'projectId' | 'signal' | 'attempt'> {
  /** Only the server's answer is missing, and it takes its time. */
  readonly onSlow: () => void;
  /** Aborted when the answer is not waited for any longer. */
  readonly givenUp: AbortSignal;
}

const attempt = async (
  sender: Sender,
  { row, sealer, messageId }: Outgoing,
  { signal: stopped, onSlow, givenUp }: SendContext,
): Promise<Attempt> => {
  const { id, recipient: to, content_sealed: sealed } = row;
  if (sealed === null) return { failure: new MailFailure('rejected', 'The text of the mail is no longer stored.') };
  const content = JSON.parse(sealer.open(aboutContent(id), sealed)) as EmailContent;
  const { from, dkim } = sender;
  const ending = endingOf(stopped);
  try {
    const mail = { ...content, text: textOf(content.html), messageId, from, to, dkim };
    const signal = AbortSignal.any([ending.signal, givenUp]);
    return { reply: await sender.transport.send(mail, signal, onSlow) };
  } catch (error) {
    if (error instanceof MailFailure) return { failure: error };
    throw error;
  } finally {
    ending.clear();
  }
};

/** A mail that needs no sending: it was done by a run that could not say so, or is over for good. */
const whenDone = ({ id, status, response }: SendableRow): JobOutcome | null => {
  if (status === 'sent' || status === 'kept') return succeeded(id, response ?? '');
  return status === 'bounced' ? failed('mail_rejected', response ?? 'The recipient was refused.') : null;
};

type Record = TryRecorder['record'];

const lostAnswer =
  'The mail server had the whole mail, and its answer was not heard. ' +
  'It may have been delivered, so it is not sent again by itself.';

/**
 * Null: it may be sent. A mail that was handed over and is not under way here has lost the worker that waited for the
 * answer.
 * @throws {ServiceError} `mail_failed` when the last allowed try failed while the job was parked
 */
const whenHandedOver = async (record: Record, row: SendableRow, tries: number): Promise<JobOutcome | null> => {
  if (row.status === 'unknown') return failed('mail_unknown', row.error ?? lostAnswer);
  if (row.handed_over_at !== null) {
    await record({ id: row.id, status: 'unknown', response: null, error: lostAnswer, messageId: null });
    return failed('mail_unknown', lostAnswer);
  }
  if (tries > emailSend.maxAttempts) throw new ServiceError('mail_failed', row.error ?? 'The mail was not sent.');
  return null;
};

/** @throws {ServiceError} `mail_failed` when another try may do */
const conclude = async (record: Record, tried: Attempt, { row, messageId }: Outgoing): Promise<JobOutcome> => {
  const of = { id: row.id, messageId };
  if ('reply' in tried) {
    await record({ ...of, status: 'sent', response: tried.reply, error: null });
    return succeeded(row.id, tried.reply);
  }
  const { fault, message } = tried.failure;
  if (fault === 'again') {
    await record({ ...of, status: 'queued', response: null, error: message });
    throw new ServiceError('mail_failed', message);
  }
  if (fault === 'unknown') {
    await record({ ...of, status: 'unknown', response: null, error: message });
    return failed('mail_unknown', message);
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
  context: SendContext,
): Promise<JobOutcome> => {
  const { projectId } = context;
  const row = await findSendable(deps.db, projectId, emailId);
  if (row === undefined) return failed('not_found', 'The mail or its project was deleted.');
  const done = whenDone(row) ?? (await whenHandedOver(record, row, context.attempt));
  if (done) return done;
  const sealer = deps.projects.sealer({ id: projectId, data_key: row.data_key });
  const sender = await deps.transports.senderOf({ id: projectId, sealer, settings: row.settings });
  const outgoing = { row, sealer, messageId: `${emailId}@${sender?.domain ?? ''}` };
  if (sender === null) return withoutSender(deps, record, outgoing);
  return conclude(record, await attempt(sender, outgoing, context), outgoing);
};

/** Counts mails that wait for a slow answer without a slot: each still holds a connection. */
const createParking = (max: NonNullable<EmailSendDeps['maxParked']>) => {
  const parked = new Map<string, number>();
  let all = 0;
  const change = (projectId: string, by: 1 | -1): void => {
    all += by;
    const count = (parked.get(projectId) ?? 0) + by;
    if (count === 0) parked.delete(projectId);
    else parked.set(projectId, count);
  };
  return {
    /** False: there are too many, and the mail keeps its slot. */
    enter: (projectId: string): boolean => {
      if (all >= max.ofAll || (parked.get(projectId) ?? 0) >= max.ofProject) return false;
      change(projectId, 1);
      return true;
    },
    leave: (projectId: string): void => change(projectId, -1),
  };
};

type Parking = ReturnType<typeof createParking>;

interface SlowMail {
  readonly projectId: string;
  readonly sending: Promise<JobOutcome>;
  /** Resolves when Postgres knows that only the answer is missing. */
  readonly noted: Promise<void>;
  readonly giveUp: () => void;
}

/** @throws {JobParked} unless too many mails are parked already: then it waits for the outcome, and not for long */
const parkSlow = async (
  { answerMs = usualTimeouts.answerMs, unparkedMs = usuallyUnparkedMs }: EmailSendDeps,
  parking: Parking,
  { projectId, sending, noted, giveUp }: SlowMail,
): Promise<JobOutcome> => {
  if (!parking.enter(projectId)) {
    const timer = setTimeout(giveUp, unparkedMs);
    return sending.finally(() => clearTimeout(timer));
  }
  const leave = (): void => parking.leave(projectId);
  sending.then(leave, leave);
  await noted;
  throw new JobParked(sending, answerMs + parkSlackMs);
};

/**
 * Sends one mail. The server's 250 is recorded before anything else, so that no later run sends it again. What ended
 * without an answer before the server had the whole mail is sent again, under the same message id; after that its fate
 * is unknown and it is not.
 */
export const emailSendProcessor = (deps: EmailSendDeps): Processor => {
  const recorder = createTryRecorder(deps);
  const parking = createParking(deps.maxParked ?? usuallyParked);
  const underWay = new Map<string, Promise<JobOutcome>>();

  const begin = (id: string, { projectId, signal, attempt: tries }: JobContext) => {
    const slow = Promise.withResolvers<'slow'>();
    const late = new AbortController();
    let noted = Promise.resolve();
    const onSlow = (): void => {
      noted = recorder.handedOver(id);
      slow.resolve('slow');
    };
    const record: Record = async (tried) => {
      // In this order: noted after it, a mail that may be tried again would count as handed over.
      await noted;
      await recorder.record(tried);
    };
    const context = { projectId, signal, attempt: tries, onSlow, givenUp: late.signal };
    const sending = sendMail(deps, record, id, context).finally(() => underWay.delete(id));
    underWay.set(id, sending);
    return { sending, slow: slow.promise, noted: () => noted, giveUp: () => late.abort() };
  };

  return {
    run: async (data, context) => {
      const { email_id: id } = data as JobData<typeof emailSend>;
      // A run that was given up may have had its 250 and not have been able to record it yet: the next waits for it.
      const present = underWay.get(id);
      if (present) return present;
      const { sending, slow, noted, giveUp } = begin(id, context);
      const first = await Promise.race([sending, slow]);
      if (first !== 'slow') return first;
      return parkSlow(deps, parking, { projectId: context.projectId, sending, noted: noted(), giveUp });
    },
  };
};
