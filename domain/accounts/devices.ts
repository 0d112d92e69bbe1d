import { randomInt } from 'node:crypto';
import { noteAccount } from '#domain/audit/audit.ts';
import type { Actor } from '#domain/audit/actor.ts';
import { findUserWithPassword } from '#domain/users/users.ts';
import { type ControlDb, type Queryable, maybeOne } from '#lib/control-db.ts';
import { ServiceError, notFound } from '#lib/errors.ts';
import { hashToken, newToken } from '#lib/ids.ts';
import { type SignInRequest, type SignedInUser, beginSignIn } from './accounts.ts';
import { deviceForm } from './sign-ins.ts';

/**
 * Sign-in of a device without a browser, such as the command line (RFC 8628): it shows a code, and a person who is
 * signed in elsewhere approves it.
 */

/** Seconds. */
export const deviceCodeSeconds = 900;
/** Seconds that a device waits between two polls. */
export const pollSeconds = 5;
/** Networks are not punctual. */
const toleranceSeconds = 1;

/** RFC 8628, section 6.1: no vowels, so that no words come about, and nothing that looks like another letter. */
const alphabet = 'BCDFGHJKLMNPQRSTVWXZ';
const codeLength = 8;

const newUserCode = (): string => {
  const letters = Array.from({ length: codeLength }, () => alphabet[randomInt(alphabet.length)]).join('');
  return `${letters.slice(0, codeLength / 2)}-${letters.slice(codeLength / 2)}`;
};

/** A code as people type it: in small letters, without the hyphen, with spaces. */
const readUserCode = (typed: string): string => {
  const letters = typed.toUpperCase().replaceAll(/[^A-Z]/g, '');
  return `${letters.slice(0, codeLength / 2)}-${letters.slice(codeLength / 2)}`;
};

export interface DeviceOrigin {
  readonly clientName: string;
  readonly ip: string;
  readonly userAgent: string | undefined;
}

/** @returns the codes of the device and of its user, shown in this answer only */
export const requestDeviceSignIn = async (
  db: Queryable,
  { clientName, ip, userAgent }: DeviceOrigin,
): Promise<{ readonly deviceCode: string; readonly userCode: string }> => {
  const [deviceCode, userCode] = [newToken('plinth_dc'), newUserCode()];
  await db.query(
    `insert into device_requests (hash, user_code, client_name, ip, user_agent, expires_at)
     values ($1, $2, $3, $4, $5, now() + make_interval(secs => ${deviceCodeSeconds}))`,
    [hashToken(deviceCode), userCode, clientName, ip, userAgent ?? null],
  );
  return { deviceCode, userCode };
};

/** A request that waits for its user, as that user sees it. */
export interface DeviceRequest {
  readonly user_code: string;
  readonly client_name: string;
  readonly ip: string | null;
  readonly user_agent: string | null;
  readonly created_at: Date;
}

export const findDeviceRequest = (db: Queryable, typed: string): Promise<DeviceRequest | undefined> =>
  maybeOne(
    db.query(
      `select user_code, client_name, ip, user_agent, created_at from device_requests
       where user_code = $1 and status = 'pending' and expires_at > now()`,
      [readUserCode(typed)],
    ),
  );

interface Decision {
  readonly userCode: string;
  readonly userId: string;
  readonly signInId: string;
  readonly actor: Actor;
}

/**
 * Approves or denies a request. Needs a transaction.
 * @throws {ServiceError} `not_found` for a code that is unknown, too old or decided already
 */
export const decideDeviceRequest = async (
  db: Queryable,
  status: 'approved' | 'denied',
  { userCode, userId, signInId, actor }: Decision,
): Promise<void> => {
  const decided = await maybeOne(
    db.query<{ client_name: string; ip: string | null }>(
      `update device_requests set status = $2, approved_by = $3
       where user_code = $1 and status = 'pending' and expires_at > now() returning client_name, ip`,
      [readUserCode(userCode), status, signInId],
    ),
  );
  if (decided === undefined) throw notFound('code that waits for an answer');
  const action = status === 'approved' ? 'device.approve' : 'device.deny';
  await noteAccount(db, userId, { actor, action, targetId: userId, after: decided });
};

interface Polled {
  readonly status: 'pending' | 'approved' | 'denied';
  readonly expired: boolean;
  readonly too_soon: boolean;
  /** Null: nobody approved it, or the sign-in that did has ended. */
  readonly user_id: string | null;
}

const poll = (db: Queryable, hash: Buffer): Promise<Polled | undefined> =>
  maybeOne(
    db.query(
      `with before as (select hash, last_polled_at from device_requests where hash = $1 for update)
       update device_requests d set last_polled_at = now() from before where d.hash = before.hash
       returning d.status, d.expires_at <= now() as expired,
         coalesce(before.last_polled_at > now() - make_interval(secs => ${pollSeconds - toleranceSeconds}), false) as too_soon,
         (select user_id from sign_ins s where s.id = d.approved_by and s.ended_at is null) as user_id`,
      [hash],
    ),
  );

const expired = (): ServiceError =>
  new ServiceError('expired_token', 'The code was used or is too old.', { hint: 'Begin again.' });

const denied = (): ServiceError => new ServiceError('access_denied', 'The sign-in was not approved.');

const requireApproved = (found: Polled | undefined): string => {
  if (found === undefined || found.expired) throw expired();
  if (found.status === 'denied') throw denied();
  if (found.too_soon) {
    throw new ServiceError('slow_down', `Ask every ${pollSeconds} s only.`, {
      headers: { 'Retry-After': String(pollSeconds) },
    });
  }
  if (found.status === 'pending') {
    throw new ServiceError('authorization_pending', 'Nobody has approved the code yet.');
  }
  if (found.user_id === null) throw denied();
  return found.user_id;
};

/**
 * Signs the device in once its code is approved; the code works once.
 * @throws {ServiceError} `authorization_pending`, `slow_down`, `expired_token`, `access_denied`
 */
export const signInDevice = async (
  db: ControlDb,
  deviceCode: string,
  request: SignInRequest,
): Promise<SignedInUser> => {
  const hash = hashToken(deviceCode);
  // By itself, so that a refusal does not undo that it was asked.
  const userId = requireApproved(await poll(db, hash));
  return db.transaction(async (tx) => {
    const taken = await tx.query('delete from device_requests where hash = $1 returning hash', [hash]);
    if (taken.length === 0) throw expired();
    const found = await findUserWithPassword(tx, userId);
    const tokens = found && (await beginSignIn(tx, found, { ...request, form: deviceForm }, 'device'));
    if (found === undefined || tokens === undefined) throw denied();
    const { password_hash: _hash, ...user } = found;
    return { user, tokens };
  });
};

/** Removes requests whose time is over, a bounded number at a time. */
export const sweepDeviceRequests = async (db: Queryable): Promise<void> => {
  await db.query(
    `delete from device_requests where hash = any (array(
       select hash from device_requests where expires_at < now() limit 5000 for update skip locked))`,
  );
};
