import type { Project } from '#domain/projects/store.ts';
import type { EndUserDeps } from './end-users.ts';
import { AuthError } from './errors.ts';
import type { EndUserRow } from './users.ts';

type Claims = Readonly<Record<string, unknown>>;

/** Set by the platform alone: they say who it is, how they proved it, and as whom the database is used. */
const reserved = new Set([
  'iss',
  'sub',
  'aud',
  'exp',
  'nbf',
  'iat',
  'jti',
  'role',
  'client_id',
  'scope',
  'session_id',
  'aal',
  'amr',
  'is_anonymous',
]);

const failed = (message: string, cause?: unknown): AuthError =>
  new AuthError('unexpected_failure', message, {
    // A 5xx would be tried again and again by clients.
    status: 422,
    hint: 'custom_claims_function_id of the settings names a function that must answer {claims} within 2 s.',
    cause,
  });

const isObject = (value: unknown): value is Claims =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const part = (claims: Claims, isReserved: boolean): Claims =>
  Object.fromEntries(Object.entries(claims).filter(([name]) => reserved.has(name) === isReserved));

/** Claims go with every request, in a header of at most 16 KB. */
const maxClaimBytes = 6 * 1024;

const small = (claims: Claims): Claims => {
  if (Buffer.byteLength(JSON.stringify(claims)) <= maxClaimBytes) return claims;
  throw new AuthError('validation_failed', 'The metadata of the user is too large for an access token.', {
    hint: `user_metadata and app_metadata may have ${maxClaimBytes} bytes together.`,
  });
};

/**
 * The claims of an access token as a function of the project wants them, where its settings name one. Its failure
 * refuses the token.
 * @throws {AuthError} `unexpected_failure` (422); `validation_failed` when they are too large for a token
 */
export const tokenClaims = async (
  deps: Pick<EndUserDeps, 'settings' | 'runClaimsFunction'>,
  project: Project,
  user: EndUserRow,
  claims: Claims,
): Promise<Claims> => {
  const { custom_claims_function_id: functionId } = await deps.settings.of(project.id);
  if (functionId === null) return small(claims);
  const given = {
    user: {
      id: user.id,
      email: user.email,
      is_anonymous: user.is_anonymous,
      user_metadata: user.raw_user_meta_data,
      app_metadata: user.raw_app_meta_data,
      created_at: user.created_at,
    },
    claims,
  };
  const answer = await deps.runClaimsFunction(project, functionId, JSON.stringify(given)).catch((error: unknown) => {
    throw failed('The claims function of the project failed.', error);
  });
  if (answer === undefined) throw failed('The claims function of the project took too long.');
  if (!isObject(answer) || !isObject(answer['claims'])) {
    throw failed('The claims function of the project did not answer claims.');
  }
  return small({ ...part(answer['claims'], false), ...part(claims, true) });
};
