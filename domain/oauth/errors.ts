import { Refusal } from '#lib/errors.ts';

/** RFC 6749, section 5.2, with their statuses. */
const statusOf = {
  invalid_request: 400,
  invalid_client: 401,
  invalid_grant: 400,
  invalid_scope: 400,
  unauthorized_client: 400,
} as const;

export type OAuthErrorCode = keyof typeof statusOf;

/** A refusal of the OpenID provider, as its clients read it. */
export class OAuthError extends Refusal {
  override readonly name = 'OAuthError';
  readonly code: OAuthErrorCode;
  readonly status: number;

  constructor(code: OAuthErrorCode, message: string) {
    super(message);
    this.code = code;
    this.status = statusOf[code];
  }
}
