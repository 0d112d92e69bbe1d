import { base32, newTotpSecret, stepOfCode, totpUri } from '#domain/accounts/codes.ts';
import type { Project } from '#domain/projects/store.ts';
import { newId } from '#lib/ids.ts';
import { DatabaseError } from 'pg';
import { renderSVG } from 'uqr';
import { clearCount, countCode } from './attempts.ts';
import type { EndUserDeps, SignInCall } from './end-users.ts';
import { AuthError } from './errors.ts';
import { type SignedInUser, requireFullSignIn, userOfSession } from './profile.ts';
import { type SignedIn, raiseSession } from './sessions.ts';

type FactorProject = Pick<Project, 'id' | 'data_key' | 'name'>;

const aboutFactor = (id: string): string => `end-user-factor:${id}`;

const notFound = (): AuthError => new AuthError('mfa_factor_not_found', 'There is no such factor.');

/** A second factor as it is set up: the secret is shown here only. */
export interface NewFactor {
  readonly id: string;
  readonly friendlyName: string;
  readonly secret: string;
  readonly uri: string;
  /** SVG text without `#` and `%`: clients put it into a data URL as it is. */
  readonly qrCode: string;
}

const maxFactors = 10;

const insertSql = `
  with room as (
    select a.user_id from auth.accounts a where a.user_id = $2
      and (select count(*) from auth.factors f where f.user_id = $2) < ${maxFactors} for no key update of a),
  stale as (
    delete from auth.factors f using room where f.user_id = room.user_id and f.verified_at is null
      and f.created_at < now() - interval '1 day')
  insert into auth.factors (id, user_id, friendly_name, secret_sealed) select $1, user_id, $3, $4 from room returning id`;

const isNameTaken = (error: unknown): boolean => error instanceof DatabaseError && error.constraint === 'factors_name';

/**
 * Sets up a factor, which counts once a code of it was verified.
 * @throws {AuthError} `mfa_totp_enroll_not_enabled`, `too_many_enrolled_mfa_factors`, `mfa_factor_name_conflict`,
 * `insufficient_aal`, and as `userOfSession`
 */
export const enrolFactor = async (
  deps: EndUserDeps,
  project: FactorProject,
  signedIn: SignedInUser,
  given: { readonly friendlyName: string; readonly issuer: string | undefined },
): Promise<NewFactor> => {
  const { mfa } = await deps.settings.of(project.id);
  if (mfa === 'off') throw new AuthError('mfa_totp_enroll_not_enabled', 'Second factors are turned off.');
  const user = await userOfSession(deps, project.id, signedIn);
  requireFullSignIn(user);
  const id = newId();
  const secret = newTotpSecret();
  const sealed = deps.sealer(project).seal(aboutFactor(id), secret.toString('base64'));
  const rows = await deps.authDb
    .secrets<{ id: string }>(project.id, insertSql, [id, user.id, given.friendlyName, sealed])
    .catch((error: unknown) => {
      if (!isNameTaken(error)) throw error;
      throw new AuthError('mfa_factor_name_conflict', 'The user has a factor of this name already.');
    });
  if (rows.length === 0) {
    throw new AuthError('too_many_enrolled_mfa_factors', `A user may have ${maxFactors} factors.`);
  }
  const uri = totpUri(secret, user.email ?? user.id, given.issuer ?? project.name);
  const qrCode = renderSVG(uri, { border: 2 });
  return { id, friendlyName: given.friendlyName, secret: base32(secret), uri, qrCode };
};

const challengeSeconds = 300;

/** A question for a code, to which the answer must come within the time. */
export interface Challenge {
  readonly id: string;
  readonly expiresAt: Date;
}

/** @throws {AuthError} `mfa_factor_not_found` */
export const challengeFactor = async (
  { authDb }: EndUserDeps,
  projectId: string,
  { userId, sessionId }: SignedInUser,
  factorId: string,
): Promise<Challenge> => {
  const [row] = await authDb.secrets<{ id: string; expires_at: Date }>(
    projectId,
    `with f as (
       update auth.factors set last_challenged_at = now() where id = $2 and user_id = $3 returning id),
     stale as (delete from auth.challenges c where c.session_id = $4 and c.factor_id = $2)
     insert into auth.challenges (id, factor_id, session_id, expires_at)
     select $1, f.id, s.id, now() + make_interval(secs => $5) from f join auth.sessions s on s.id = $4 and s.user_id = $3
     returning id, expires_at`,
    [newId(), factorId, userId, sessionId, challengeSeconds],
  );
  if (row === undefined) throw notFound();
  return { id: row.id, expiresAt: row.expires_at };
};

interface ChallengedFactor {
  readonly secret_sealed: Buffer;
  readonly last_step: string | null;
}

/** Counted before it is judged: codes at the same moment cannot pass the limit together. */
const attemptSql = `
  update auth.challenges c set attempts = attempts + 1 from auth.factors f
  where c.id = $1 and c.factor_id = $2 and c.session_id = $3 and f.id = c.factor_id and f.user_id = $4
    and c.expires_at > now() and c.attempts < 5
  returning f.secret_sealed, f.last_step`;

const wrongCode = (): AuthError => new AuthError('mfa_verification_failed', 'The code is wrong, or was used before.');

/**
 * Takes a code of a factor: the sign-in is one with two factors from here on. The first code makes the factor count, and
 * ends the user's sign-ins with the password alone.
 * @throws {AuthError} `mfa_verification_failed`, `mfa_challenge_expired`, `over_request_rate_limit`, `user_banned`
 */
export const verifyFactor = async (
  deps: EndUserDeps,
  call: SignInCall,
  signedIn: SignedInUser,
  given: { readonly factorId: string; readonly challengeId: string; readonly code: string },
): Promise<SignedIn> => {
  const { project } = call;
  const { authDb, sealer } = deps;
  const user = await userOfSession(deps, project.id, signedIn);
  await countCode(authDb, project.id, user.id, deps.isLimited);
  const [factor] = await authDb.secrets<ChallengedFactor>(project.id, attemptSql, [
    given.challengeId,
    given.factorId,
    signedIn.sessionId,
    user.id,
  ]);
  if (factor === undefined) {
    throw new AuthError('mfa_challenge_expired', 'The challenge is over. Ask for a new one.');
  }
  const secret = Buffer.from(sealer(project).open(aboutFactor(given.factorId), factor.secret_sealed), 'base64');
  const lastStep = factor.last_step === null ? null : Number(factor.last_step);
  const step = stepOfCode(secret, given.code.replaceAll(/\s/g, ''), { now: Date.now(), lastStep });
  if (step === undefined) throw wrongCode();
  const raised = await raiseSession(deps, call, user, { sessionId: signedIn.sessionId, ...given, step });
  if (raised === undefined) throw wrongCode();
  await clearCount(authDb, project.id, user.id);
  return raised;
};

/**
 * Takes a code of any of a user's factors, where no sign-in is there yet. It works once.
 * @throws {AuthError} `mfa_verification_failed`, `over_request_rate_limit`
 */
export const takeFactorCode = async (
  { authDb, sealer, isLimited }: EndUserDeps,
  project: FactorProject,
  userId: string,
  code: string,
): Promise<void> => {
  await countCode(authDb, project.id, userId, isLimited);
  const factors = await authDb.secrets<ChallengedFactor & { readonly id: string }>(
    project.id,
    'select id, secret_sealed, last_step from auth.factors where user_id = $1 and verified_at is not null',
    [userId],
  );
  const given = code.replaceAll(/\s/g, '');
  for (const { id, secret_sealed: sealed, last_step: last } of factors) {
    const secret = Buffer.from(sealer(project).open(aboutFactor(id), sealed), 'base64');
    const step = stepOfCode(secret, given, { now: Date.now(), lastStep: last === null ? null : Number(last) });
    if (step === undefined) continue;
    const taken = await authDb.secrets(
      project.id,
      `update auth.factors set last_step = $2, updated_at = now()
       where id = $1 and (last_step is null or last_step < $2) returning 1`,
      [id, step],
    );
    if (taken.length === 0) throw wrongCode();
    return clearCount(authDb, project.id, userId);
  }
  throw wrongCode();
};

/** @throws {AuthError} `mfa_factor_not_found`, `insufficient_aal` */
export const removeOwnFactor = async (
  deps: EndUserDeps,
  projectId: string,
  signedIn: SignedInUser,
  factorId: string,
): Promise<void> => {
  const user = await userOfSession(deps, projectId, signedIn);
  const factor = user.factors.find(({ id }) => id === factorId);
  if (factor === undefined) throw notFound();
  if (factor.status === 'verified' || user.session.method === 'impersonation') requireFullSignIn(user);
  await deleteFactor(deps, projectId, user.id, factorId);
};

/** @throws {AuthError} `mfa_factor_not_found` */
export const deleteFactor = async (
  { authDb }: EndUserDeps,
  projectId: string,
  userId: string,
  factorId: string,
): Promise<void> => {
  const rows = await authDb.secrets(projectId, 'delete from auth.factors where id = $1 and user_id = $2 returning id', [
    factorId,
    userId,
  ]);
  if (rows.length === 0) throw notFound();
};
