import type { SignedIn } from '#domain/end-users/sessions.ts';
import type { BaseCall } from '../call.ts';
import { RawReply } from '../endpoint.ts';
import { htmlType } from './html.ts';

/** An address with values behind the #, which no server sees. */
export const withFragment = (to: string, values: Readonly<Record<string, string>>): string =>
  `${to}#${new URLSearchParams(values).toString()}`;

/** An address with values in its query. */
export const withQuery = (to: string, values: Readonly<Record<string, string>>): string => {
  const url = new URL(to);
  for (const [name, value] of Object.entries(values)) url.searchParams.set(name, value);
  return url.href;
};

export const leadTo = (call: BaseCall, address: string): RawReply => {
  call.setHeader('Location', address);
  return new RawReply('', htmlType, 303);
};

/** Where a sign-in leads to. */
interface LeadTarget {
  readonly redirectTo: string;
  /** Null: the application gets the tokens themselves. */
  readonly codeChallenge: string | null;
  /** As clients of auth/v1 name the kind of the sign-in. */
  readonly type?: string;
}

interface LeadWays {
  readonly code: (challenge: string) => Promise<string>;
  readonly signIn: () => Promise<SignedIn>;
}

/** Back to the application: with a code for the browser that asked for it, or with the tokens themselves. */
export const leadIn = async (
  call: BaseCall,
  { redirectTo, codeChallenge, type }: LeadTarget,
  { code, signIn }: LeadWays,
): Promise<RawReply> => {
  if (codeChallenge !== null) return leadTo(call, withQuery(redirectTo, { code: await code(codeChallenge) }));
  const signedIn = await signIn();
  return leadTo(
    call,
    withFragment(redirectTo, {
      access_token: signedIn.accessToken,
      refresh_token: signedIn.refreshToken,
      expires_in: String(signedIn.expiresIn),
      expires_at: String(signedIn.expiresAt),
      token_type: 'bearer',
      ...(type !== undefined && { type }),
    }),
  );
};
