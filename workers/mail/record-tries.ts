import { type EmailTry, noteHandedOver, recordTries } from '#domain/email/email.ts';
import { createBatcher, splitRefused } from '#lib/batch.ts';
import type { Queryable } from '#lib/control-db.ts';
import type { Log } from '#lib/log.ts';
import { retryEachUntilDone, retryUntilDone } from '#workers/retry-until-done.ts';

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
  readonly log: Log;
}

/** Writes what becomes of mails, however long Postgres is away: what is not recorded would be sent again. */
export interface TryRecorder {
  readonly record: (tried: EmailTry) => Promise<void>;
  /** Only the server's answer to this mail is missing. */
  readonly handedOver: (emailId: string) => Promise<void>;
}

export const createTryRecorder = ({ db, log }: RecorderDeps): TryRecorder => {
  const storeAll = async (tries: readonly EmailTry[]): Promise<boolean[]> => {
    await recordTries(db, tries);
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
        await retryUntilDone(log, 'recording a mail', () => recordTries(db, [withoutWords(tried)]));
    },
    handedOver: (emailId) =>
      retryUntilDone(log, 'recording that a mail was handed over', () => noteHandedOver(db, emailId)),
  };
};
