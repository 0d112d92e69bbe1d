import { type EmailTry, noteHandedOver, recordTries } from '#domain/email/email.ts';
import { createBatcher } from '#lib/batch.ts';
import type { Queryable } from '#lib/control-db.ts';
import { isDependencyFailure } from '#lib/errors.ts';
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
    retryEachUntilDone(log, 'recording mails', async (tries: readonly EmailTry[]) => {
      try {
        await recordTries(db, tries);
        return tries.map(() => true);
      } catch (error) {
        if (isDependencyFailure(error)) throw error;
        return recordEach(tries);
      }
    }),
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
