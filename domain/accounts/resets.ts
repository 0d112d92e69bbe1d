import type { PlatformMail } from '#domain/mail/mail.ts';
import type { ControlDb, Queryable } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import { hashToken, newId, newToken } from '#lib/ids.ts';
import type { Log } from '#lib/log.ts';
import { type Poller, startPoller } from '#lib/poller.ts';
import { clearFailures } from './proof.ts';
import { deleteFactor } from './codes.ts';
import { endAllSignIns } from './sign-ins.ts';
import { findUser, findUserByEmail, lockUser, setEmail, setPassword } from '#domain/users/users.ts';
import {
  countResets,
  deleteResets,
  endConfirmations,
  findProfile,
  findResetUser,
  insertReset,
  insertResetRequest,
  takeResetRequest,
} from './store.ts';

const resetMinutes = 60;
// A stranger who asks again and again must not fill somebody's mailbox; the links that were sent keep working.
const maxResetLinks = 5;

/**
 * Notes that somebody asks for a reset link. The same single statement for known and unknown addresses, so that the
 * time of the answer says nothing; the poller of `createResetSender` does the rest after the answer.
 */
export const requestReset = (db: Queryable, email: string): Promise<void> => insertResetRequest(db, newId(), email);

/** Mails a reset link when the address is known. Needs a transaction. */
const sendReset = async (db: Queryable, mail: PlatformMail, email: string): Promise<void> => {
  const user = await findUserByEmail(db, email);
  if (user === undefined) return;
  await lockUser(db, user.id);
  if ((await countResets(db, user.id)) >= maxResetLinks) return;
  const token = newToken('plinth_reset');
  await insertReset(db, { hash: hashToken(token), userId: user.id, minutes: resetMinutes });
  await mail.send(db, {
    to: user.email,
    kind: 'password-reset',
    url: mail.link(`/reset-password/${token}`),
    minutes: resetMinutes,
  });
};

/** @returns false: there is no request */
const sendNext = (db: ControlDb, mail: PlatformMail): Promise<boolean> =>
  db.transaction(async (tx) => {
    const email = await takeResetRequest(tx);
    if (email === undefined) return false;
    await sendReset(tx, mail, email);
    return true;
  });

export interface ResetSenderOptions {
  readonly db: ControlDb;
  readonly mail: PlatformMail;
  readonly log: Log;
  /** The interval at which it polls for requests that another process left behind. */
  readonly everyMs?: number;
}

const usualMs = 30_000;

/** Serves requests for reset links, one at a time: `wake` says that there may be one. */
export const createResetSender = ({ db, mail, log, everyMs = usualMs }: ResetSenderOptions): Poller => {
  const serve = async (stopping: AbortSignal): Promise<void> => {
    let isMore = true;
    while (isMore && !stopping.aborted) isMore = await sendNext(db, mail);
  };
  return startPoller(serve, {
    everyMs,
    firstInMs: everyMs,
    // The request is still there: the next poll finds it.
    onFailure: (error) => log.warn({ err: error }, 'a reset link could not be sent yet'),
  });
};

/**
 * The user of a reset link. Also asked before a new password is hashed, so that made-up links cost little.
 * @throws {ServiceError} `expired` when the token was used, is too old or never was
 */
export const userOfReset = async (db: Queryable, token: string): Promise<string> => {
  const userId = await findResetUser(db, hashToken(token));
  if (userId !== undefined) return userId;
  throw new ServiceError('expired', 'This reset link was used or is too old.', { hint: 'Ask for a new one.' });
};

/**
 * Somebody who signed up with another person's address could otherwise keep its owner out by a second factor. A factor
 * of an account whose address was confirmed stays: the reader of the mail may not be the user.
 */
const removeForeignFactor = async (db: Queryable, userId: string): Promise<void> => {
  if (!(await findProfile(db, userId)).email_confirmed) await deleteFactor(db, userId);
};

/**
 * Sets a new password by the token of a reset link; all sign-ins and links of the user end, those to a new address
 * included. The second factor goes, too, when the address was never confirmed before. Needs a transaction.
 * @throws {ServiceError} `expired`
 */
export const resetPassword = async (db: Queryable, token: string, passwordHash: string): Promise<void> => {
  const userId = await userOfReset(db, token);
  await lockUser(db, userId);
  // The previous holder of the lock may have used the link, or another link of the user.
  await userOfReset(db, token);
  await setPassword(db, userId, passwordHash);
  await endAllSignIns(db, userId);
  await deleteResets(db, userId);
  // Another person who knew the password may have requested a new address, which would take the account over later.
  await endConfirmations(db, userId);
  await removeForeignFactor(db, userId);
  // The link came by mail, so the address is the user's; guesses at the former password lock nobody out.
  const user = await findUser(db, userId);
  if (user === undefined) return;
  await setEmail(db, userId, user.email);
  await clearFailures(db, user.email);
};
