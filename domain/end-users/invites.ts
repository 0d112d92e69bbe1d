import { type Administrator, audited, createUser, requireUser } from './administration.ts';
import { AuthError } from './errors.ts';
import { type LinkKind, makeLink, urlOfLink } from './links.ts';
import { requireAddress } from './sign-up.ts';
import { type EndUserAccount, findAccountByEmail } from './users.ts';

/*
 * Links that the project's administration hands out: an invitation by mail, and links of every kind that it sends by
 * its own ways.
 */

/** A user who is invited. */
export interface Invitation {
  readonly email: string;
  readonly userMetadata: Readonly<Record<string, unknown>>;
}

const inviteNew = (by: Administrator, { email, userMetadata }: Invitation): Promise<EndUserAccount> =>
  createUser(by, { email, emailVerified: false, userMetadata, appMetadata: {}, isInvited: true });

/**
 * Makes a user without a password and mails an invitation.
 * @throws {AuthError} `email_exists`, `email_address_invalid`, `validation_failed`
 * @throws {ServiceError} `smtp_not_configured`, `plan_limit_exceeded`
 */
export const inviteUser = async (
  by: Administrator,
  invitation: Invitation,
  redirectTo: string | null,
): Promise<EndUserAccount> => {
  const { deps, project } = by;
  await deps.mails.require(project);
  const user = await inviteNew(by, invitation);
  const email = requireAddress(invitation.email);
  await deps.mails.request(project, { kind: 'invite', email, redirectTo, codeChallenge: null });
  return user;
};

/** A link that the administration asks for. */
export interface WantedLink extends Invitation {
  readonly kind: LinkKind;
  /** The password of a new user, with `signup`. */
  readonly password?: string | undefined;
  /** With a change of the address. */
  readonly newEmail?: string | undefined;
  readonly redirectTo: string | null;
}

export interface HandedLink {
  readonly user: EndUserAccount;
  readonly url: string;
  readonly token: string;
  readonly code: string;
  /** The `type` with which a client uses it. */
  readonly type: string;
  readonly redirectTo: string | null;
}

const signUpNew = (by: Administrator, { email, userMetadata, password }: WantedLink): Promise<EndUserAccount> => {
  if (password === undefined) throw new AuthError('validation_failed', 'The field password is missing.');
  return createUser(by, { email, emailVerified: false, userMetadata, appMetadata: {}, password });
};

/** The user whom the link is for; some kinds make one. @throws {AuthError} `user_not_found` */
const userFor = async (by: Administrator, wanted: WantedLink): Promise<EndUserAccount> => {
  const { deps, project } = by;
  const known = await findAccountByEmail(deps.authDb, project.id, requireAddress(wanted.email));
  if (known !== undefined && wanted.kind !== 'signup' && wanted.kind !== 'invite') return known;
  if (known !== undefined) throw new AuthError('email_exists', 'There is a user with this e-mail address already.');
  if (wanted.kind === 'signup') return signUpNew(by, wanted);
  if (wanted.kind === 'invite' || wanted.kind === 'magiclink') return inviteNew(by, wanted);
  throw new AuthError('user_not_found', 'There is no user with this e-mail address.');
};

const isChange = (kind: LinkKind): boolean => kind === 'email_change_current' || kind === 'email_change_new';

/** @returns the address that the link proves */
const addressFor = async (
  { deps, project }: Administrator,
  user: EndUserAccount,
  { kind, newEmail }: WantedLink,
): Promise<string> => {
  if (!isChange(kind)) return user.email ?? '';
  if (newEmail === undefined) throw new AuthError('validation_failed', 'The field new_email is missing.');
  const email = requireAddress(newEmail);
  await deps.authDb.secrets(
    project.id,
    `update auth.accounts set new_email = $2,
       new_email_half = case when new_email = $2 then new_email_half end where user_id = $1`,
    [user.id, email],
  );
  return kind === 'email_change_new' ? email : (user.email ?? '');
};

/**
 * Makes a link and hands it out; mails nothing.
 * @throws {AuthError} `user_not_found`, `email_exists`, `email_address_invalid`, `weak_password`, `validation_failed`
 */
export const generateLink = async (by: Administrator, wanted: WantedLink): Promise<HandedLink> => {
  const { deps, project } = by;
  const user = await userFor(by, wanted);
  const email = await addressFor(by, user, wanted);
  const { kind, redirectTo } = wanted;
  const link = await audited(by, { act: 'generate_link', userId: user.id, after: { kind, email } }, () =>
    makeLink(deps, project, { userId: user.id, kind, email, redirectTo, codeChallenge: null }),
  );
  const { url, type } = urlOfLink(deps, project.ref, { kind, token: link.token });
  return { user: await requireUser(deps, project.id, user.id), url, type, redirectTo, ...link };
};
