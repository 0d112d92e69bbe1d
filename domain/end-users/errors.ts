import { Refusal } from '#lib/errors.ts';

/** The codes that supabase-js knows, with their statuses (auth-js 2.119, `lib/error-codes.ts`). */
const authErrorStatus = {
  access_denied: 403,
  anonymous_provider_disabled: 422,
  bad_code_verifier: 400,
  bad_json: 400,
  bad_jwt: 403,
  captcha_failed: 400,
  conflict: 409,
  email_address_invalid: 400,
  email_exists: 422,
  email_not_confirmed: 400,
  flow_state_not_found: 404,
  identity_already_exists: 422,
  identity_not_found: 404,
  insufficient_aal: 403,
  invalid_credentials: 400,
  mfa_challenge_expired: 422,
  mfa_factor_name_conflict: 422,
  mfa_factor_not_found: 404,
  mfa_totp_enroll_not_enabled: 422,
  mfa_verification_failed: 422,
  no_authorization: 401,
  not_admin: 403,
  otp_expired: 403,
  over_request_rate_limit: 429,
  phone_provider_disabled: 400,
  reauthentication_needed: 401,
  reauthentication_not_valid: 422,
  refresh_token_not_found: 400,
  request_timeout: 504,
  same_password: 422,
  session_not_found: 403,
  signup_disabled: 422,
  single_identity_not_deletable: 422,
  too_many_enrolled_mfa_factors: 422,
  unexpected_failure: 500,
  user_already_exists: 422,
  user_banned: 403,
  user_not_found: 404,
  validation_failed: 400,
  weak_password: 422,
} as const satisfies Record<string, number>;

export type AuthErrorCode = keyof typeof authErrorStatus;

export interface AuthErrorExtras {
  readonly hint?: string;
  /** Where another status than the code's own is read by clients. */
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** Why a password is too weak. */
  readonly weakness?: 'length' | 'characters' | 'pwned';
  readonly cause?: unknown;
}

/** A refusal of `{rest_url}/auth/v1`, in the words of the clients that call it. */
export class AuthError extends Refusal {
  override readonly name = 'AuthError';
  readonly code: AuthErrorCode;
  readonly status: number;
  readonly hint: string | null;
  readonly headers: Readonly<Record<string, string>>;
  readonly weakness: 'length' | 'characters' | 'pwned' | undefined;

  constructor(code: AuthErrorCode, message: string, extras: AuthErrorExtras = {}) {
    super(message, { cause: extras.cause });
    this.code = code;
    this.status = extras.status ?? authErrorStatus[code];
    this.hint = extras.hint ?? null;
    this.headers = extras.headers ?? {};
    this.weakness = extras.weakness;
  }
}
