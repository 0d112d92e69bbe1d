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

const sameJson = (one: unknown, other: unknown): boolean => JSON.stringify(one) === JSON.stringify(other);

/** With what the function itself said, where it said something. */
const reasonOf = (error: AuthError): string =>
  error.cause instanceof Error && error.cause.message !== ''
    ? `${error.message} ${error.cause.message}`
    : error.message;

/** Claims go with every request, in a header of at most 16 KB. */
const maxClaimBytes = 6 * 1024;

const small = (claims: Claims): Claims => {
  if (Buffer.byteLength(JSON.stringify(claims)) <= maxClaimBytes) return claims;
  throw new AuthError('validation_failed', 'The metadata of the user is too large for an access token.', {
    hint: `user_metadata and app_metadata may have ${maxClaimBytes} bytes together.`,
  });
};

interface ClaimsCall {
  readonly project: Project;
  readonly functionId: string;
  readonly user: EndUserRow;
  /** Without the function's. */
  readonly claims: Claims;
}

/** The answer of a claims function, unmerged. @throws {AuthError} `unexpected_failure` (422) */
const answerOf = async (
  deps: Pick<EndUserDeps, 'runClaimsFunction'>,
  { project, functionId, user, claims }: ClaimsCall,
): Promise<Claims> => {
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
  return answer['claims'];
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
  const answer = await answerOf(deps, { project, functionId, user, claims });
  return small({ ...part(answer, false), ...part(claims, true) });
};

/** The outcome of a claims function that was tried. */
export interface TriedClaims {
  /** As an access token would have them; null: the sign-in would be refused. */
  readonly claims: Claims | null;
  /** Names that the function answered and may not set. */
  readonly ignored: readonly string[];
  readonly durationMs: number;
  /** Why the sign-in would be refused. */
  readonly error: string | null;
}

/** Runs a claims function as a sign-in would, without one. */
export const tryClaims = async (
  deps: Pick<EndUserDeps, 'runClaimsFunction'>,
  call: ClaimsCall,
): Promise<TriedClaims> => {
  const began = performance.now();
  const outcome = (found: Pick<TriedClaims, 'claims' | 'ignored' | 'error'>): TriedClaims => ({
    ...found,
    durationMs: Math.round(performance.now() - began),
  });
  try {
    const answer = await answerOf(deps, call);
    const claims = small({ ...part(answer, false), ...part(call.claims, true) });
    const ignored = Object.keys(part(answer, true)).filter((name) => !sameJson(answer[name], call.claims[name]));
    return outcome({ claims, ignored, error: null });
  } catch (error) {
    if (!(error instanceof AuthError)) throw error;
    return outcome({ claims: null, ignored: [], error: reasonOf(error) });
  }
};
