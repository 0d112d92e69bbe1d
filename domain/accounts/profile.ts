import { noteAccount } from '#domain/audit/audit.ts';
import type { Actor } from '#domain/audit/actor.ts';
import { type PlatformMail, requireRoomForConfirmation } from '#domain/mail/mail.ts';
import type { ControlDb, Queryable } from '#lib/control-db.ts';
import { ServiceError } from '#lib/errors.ts';
import { hashToken, newToken } from '#lib/ids.ts';
import { type Proof, acceptProof, clearFailures, lockProven, provePassword } from './proof.ts';
import { type FactorDeps, deleteChallenges } from './codes.ts';
import { hashPassword } from './passwords.ts';
import { endOtherSessions } from './sign-ins.ts';
import {
  type User,
  deleteUser,
  findUser,
  findUserByEmail,
  lockUser,
  setEmail,
  setFullName,
  setPassword,
} from '#domain/users/users.ts';
import {
  type Profile,
  countConfirmations,
  deleteResets,
  endConfirmations,
  findConfirmation,
  findProfile,
  insertConfirmation,
} from './store.ts';
import { dissolve } from '#domain/teams/teams.ts';
import {
  type Membership,
  deleteInvitesBy,
  deleteMember,
  lockOrganizations,
  membershipsOf,
} from '#domain/teams/store.ts';

const confirmHours = 24;
/**
 * Links that one user may have sent in a day, to whatever addresses: strangers are not to be written to in our name.
 */
const maxConfirmations = 20;

/** A new password in the place of one that was proven. */
interface NewPassword {
  readonly provenHash: string;
  readonly newHash: string;
}

/** The work on passwords, before the transaction. */
export const prepareNewPassword = async (
  db: ControlDb,
  user: User,
  { old, next, isLimited }: { readonly old: string; readonly next: string; readonly isLimited: boolean },
): Promise<NewPassword> => {
  const provenHash = await provePassword(db, user, { password: old, isLimited });
  return { provenHash, newHash: await hashPassword(next) };
};

/**
 * The user who changes the own account, and the sign-in that is used. All changes are made in the caller's transaction.
 */
interface Self {
  readonly user: User;
  readonly signInId: string;
  readonly actor: Actor;
}

/**
 * All other sign-ins, reset links and half-done sign-ins end: somebody who knew the old password is out. A link that
 * waits for a new address is deleted, too: it may be theirs, and would take the account over later.
 */
const changePassword = async (
  db: Queryable,
  mail: PlatformMail,
  { user, signInId, actor }: Self,
  { provenHash, newHash }: NewPassword,
): Promise<void> => {
  await lockProven(db, user.id, provenHash);
  await setPassword(db, user.id, newHash);
  await endOtherSessions(db, { userId: user.id, signInId });
  await deleteResets(db, user.id);
  await endConfirmations(db, user.id);
  await deleteChallenges(db, user.id);
  await noteAccount(db, user.id, { actor, action: 'user.password', targetId: user.id });
  await mail.send(db, {
    kind: 'account',
    to: user.email,
    subject: 'Your password was changed',
    paragraphs: [
      'The password of your plinth account was changed, and all other sign-ins were ended.',
      'If it was not you, reset your password now.',
    ],
  });
};

/**
 * Mails a link that proves that an address is the user's; where it is another than the present one, the link changes
 * it.
 * @throws {ServiceError} `email_taken`; `conflict` when the present one is confirmed; `rate_limited`
 */
export const sendConfirmation = async (
  db: Queryable,
  mail: PlatformMail,
  user: User,
  email: string = user.email,
): Promise<void> => {
  await lockUser(db, user.id);
  const holder = await findUserByEmail(db, email);
  if (holder !== undefined && holder.id !== user.id) {
    throw new ServiceError('email_taken', 'There is an account with this e-mail address.');
  }
  if (email === user.email && (await findProfile(db, user.id)).email_confirmed) {
    throw new ServiceError('conflict', 'Your e-mail address is confirmed already.');
  }
  if ((await countConfirmations(db, user.id)) >= maxConfirmations) {
    throw new ServiceError('rate_limited', `You have had ${maxConfirmations} links sent in a day. Nothing was sent.`, {
      headers: { 'Retry-After': String(24 * 3600) },
    });
  }
  await requireRoomForConfirmation(db, email);
  await endConfirmations(db, user.id);
  const token = newToken('plinth_confirm');
  await insertConfirmation(db, { hash: hashToken(token), userId: user.id, email, hours: confirmHours });
  await mail.send(db, {
    kind: 'confirm-email',
    to: email,
    url: mail.link(`/confirm-email/${token}`),
    hours: confirmHours,
  });
};

export interface ProfileChange {
  readonly fullName?: string | null | undefined;
  readonly email?: { readonly address: string; readonly proof: Proof } | undefined;
  readonly password?: NewPassword | undefined;
}

/**
 * Changes the own account. A new address becomes the account's once the link that is mailed there is opened.
 * @throws {ServiceError} `invalid_credentials`, `factor_required`, `email_taken`, `rate_limited`
 */
export const changeProfile = async (
  deps: FactorDeps & { readonly mail: PlatformMail },
  self: Self,
  { fullName, email, password }: ProfileChange,
): Promise<Profile> => {
  const { db, mail } = deps;
  // Before the password changes: the present one was proven.
  if (email !== undefined) await acceptProof(deps, self.user.id, email.proof);
  if (fullName !== undefined) await setFullName(db, self.user.id, fullName);
  if (password !== undefined) await changePassword(db, mail, self, password);
  if (email !== undefined) await sendConfirmation(db, mail, self.user, email.address);
  return findProfile(db, self.user.id);
};

const notifyFormerAddress = (db: Queryable, mail: PlatformMail, to: string): Promise<void> =>
  mail.send(db, {
    kind: 'account',
    to,
    subject: 'The e-mail address of your account was changed',
    paragraphs: [
      'Your plinth account has another e-mail address now, and this one no longer signs in.',
      'If it was not you, tell the operators of this installation.',
    ],
  });

/** The user and the address of a confirmation link. @throws {ServiceError} `expired` */
export const confirmationOf = async (
  db: Queryable,
  token: string,
): Promise<{ readonly user: User; readonly email: string }> => {
  const found = await findConfirmation(db, hashToken(token));
  const user = found && (await findUser(db, found.user_id));
  if (found && user) return { user, email: found.email };
  throw new ServiceError('expired', 'This link was used or is too old.', { hint: 'Ask for a new one.' });
};

/**
 * Confirms an address by the token of its link. Needs a transaction.
 * @throws {ServiceError} `expired`; `email_taken` when somebody else has the address by now
 */
export const confirmEmail = async (
  db: Queryable,
  mail: PlatformMail,
  token: string,
  from: Omit<Actor, 'type' | 'id' | 'email'>,
): Promise<string> => {
  await lockUser(db, (await confirmationOf(db, token)).user.id);
  const { user, email } = await confirmationOf(db, token);
  await setEmail(db, user.id, email);
  await endConfirmations(db, user.id);
  if (email === user.email) return email;
  // Links that were mailed to the former address, and failures that were counted for it, are of no use any more.
  await deleteResets(db, user.id);
  await clearFailures(db, email);
  const actor: Actor = { ...from, type: 'user', id: user.id, email: user.email };
  await noteAccount(db, user.id, { actor, action: 'user.email', targetId: user.id, after: { email } });
  await notifyFormerAddress(db, mail, user.email);
  return email;
};

/** The user's memberships, held back from changes. In the order in which all lock: organizations, then the user. */
const lockMemberships = async (deps: FactorDeps, user: User, proof: Proof): Promise<readonly Membership[]> => {
  const { db } = deps;
  const seen = await membershipsOf(db, user.id);
  await lockOrganizations(
    db,
    seen.map((membership) => membership.org_id),
  );
  await acceptProof(deps, user.id, proof);
  const ownMemberships = await membershipsOf(db, user.id);
  const isSame =
    ownMemberships.length === seen.length && ownMemberships.every(({ org_id: id }, i) => id === seen[i]?.org_id);
  if (!isSame) throw new ServiceError('conflict', 'Your organizations changed meanwhile.', { hint: 'Try again.' });
  return ownMemberships;
};

/** Others would be left without an owner. */
const requireNobodyLeftBehind = (memberships: readonly Membership[]): void => {
  const stuck = memberships.filter((each) => each.is_last_owner && each.others > 0);
  if (stuck.length === 0) return;
  throw new ServiceError('last_owner', 'You are the last owner of an organization with other members.', {
    details: stuck.map(({ org_id, org_name }) => ({ org_id, org_name })),
    hint: 'Transfer it to one of them, or delete it.',
  });
};

/**
 * Deletes an account: organizations of which the user is the only member go with their projects, from all others the
 * user is removed, with the invites that rest on their right. Needs a transaction.
 * @returns the projects, whose deletion is to be finished after the commit
 * @throws {ServiceError} `last_owner`, `invalid_credentials`, `factor_required`, `conflict`
 */
export const deleteAccount = async (
  deps: FactorDeps,
  user: User,
  { proof, actor }: { readonly proof: Proof; readonly actor: Actor },
): Promise<readonly string[]> => {
  const { db } = deps;
  const memberships = await lockMemberships(deps, user, proof);
  requireNobodyLeftBehind(memberships);
  await noteAccount(db, user.id, { actor, action: 'user.delete', targetId: user.id });
  const projects: string[] = [];
  for (const membership of memberships) {
    if (membership.is_last_owner) projects.push(...(await dissolve(db, membership.org_id, user.id)));
    else {
      await deleteMember(db, membership.id);
      await deleteInvitesBy(db, membership.org_id, user.id, []);
    }
  }
  await deleteUser(db, user.id);
  return projects;
};
