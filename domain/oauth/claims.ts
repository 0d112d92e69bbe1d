import type { EndUserAccount, EndUserRow } from '#domain/end-users/users.ts';

/** Claims of a user by the scope that asks for them (OpenID Connect Core 1.0, section 5.4). */
export const claimsByScope = {
  openid: ['sub'],
  email: ['email', 'email_verified'],
  profile: [
    'name',
    'given_name',
    'family_name',
    'middle_name',
    'nickname',
    'preferred_username',
    'profile',
    'picture',
    'website',
    'gender',
    'birthdate',
    'zoneinfo',
    'locale',
    'updated_at',
  ],
} as const;

/** Names that applications give to the same in `user_metadata`. */
const otherNames: Readonly<Record<string, string>> = { name: 'full_name', picture: 'avatar_url' };

const maxTextLength = 1000;

const textOf = (metadata: Readonly<Record<string, unknown>>, name: string): string | undefined => {
  const value = metadata[name] ?? metadata[otherNames[name] ?? name];
  return typeof value === 'string' && value.length <= maxTextLength ? value : undefined;
};

const profileOf = ({ raw_user_meta_data: metadata, updated_at: updatedAt }: EndUserRow): Record<string, unknown> => ({
  ...Object.fromEntries(
    claimsByScope.profile
      .map((name) => [name, textOf(metadata, name)] as const)
      .filter(([, value]) => value !== undefined),
  ),
  updated_at: Math.floor(updatedAt.getTime() / 1000),
});

/** A user, and whether the address is known to be theirs: other applications rely on it. */
export type ClaimedUser = EndUserRow & Pick<EndUserAccount, 'is_email_proved'>;

/** The claims of a user that scopes ask for. @param scope separated by spaces */
export const claimsOf = (user: ClaimedUser, scope: string): Record<string, unknown> => {
  const requested = new Set(scope.split(' '));
  return {
    sub: user.id,
    ...(requested.has('email') && user.email !== null && { email: user.email, email_verified: user.is_email_proved }),
    ...(requested.has('profile') && profileOf(user)),
  };
};

/** How a user proved who they are (RFC 8176). */
export type Amr = readonly ('pwd' | 'otp' | 'mfa')[];

/** A sign-in of a client, as its tokens name it. */
export interface ClientSession {
  readonly id: string;
  readonly clientId: string;
  readonly scope: string;
  readonly amr: Amr;
}

export const aalOf = (amr: Amr): 1 | 2 => (amr.includes('mfa') ? 2 : 1);

/** The claims of an access token beside the registered ones: policies read them as those of `auth/v1`. */
export const accessClaimsOf = (user: EndUserRow, session: ClientSession): Record<string, unknown> => {
  const requested = new Set(session.scope.split(' '));
  return {
    client_id: session.clientId,
    scope: session.scope,
    session_id: session.id,
    role: 'authenticated',
    aal: `aal${aalOf(session.amr)}`,
    amr: session.amr,
    is_anonymous: user.is_anonymous,
    app_metadata: user.raw_app_meta_data,
    ...(requested.has('email') && user.email !== null && { email: user.email }),
    ...(requested.has('profile') && { user_metadata: user.raw_user_meta_data }),
  };
};
