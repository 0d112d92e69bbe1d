import { isOwnForm, hashPassword, tooManyPasswords, verifyPassword } from '#domain/accounts/passwords.ts';
import type { Project } from '#domain/projects/store.ts';
import { createFairPermits } from '#lib/fair-permits.ts';
import { requireUnbreached } from './breached-passwords.ts';
import type { EndUserDeps } from './end-users.ts';
import { AuthError } from './errors.ts';
import { type ForeignHash, parseForeignHash } from './foreign-hashes.ts';
import type { AuthSettings } from './settings.ts';
import type { EndUserAccount } from './users.ts';

type PasswordProject = Pick<Project, 'id' | 'data_key'>;

/** As long as no password of a person's is; each is hashed whole. */
const maxPasswordLength = 128;

const aboutPassword = (userId: string): string => `end-user:${userId}:password`;

const requireForm = (password: string, min: number): void => {
  if (password.length < min) {
    throw new AuthError('weak_password', `The password must have at least ${min} characters.`, { weakness: 'length' });
  }
  if (password.length > maxPasswordLength) {
    throw new AuthError('weak_password', `The password must have at most ${maxPasswordLength} characters.`, {
      weakness: 'length',
    });
  }
  if (password.isWellFormed() && !password.includes('\0')) return;
  throw new AuthError('weak_password', 'The password must be well-formed Unicode without NUL.', {
    weakness: 'characters',
  });
};

/**
 * Whether a new password may be taken by the project's settings.
 * @throws {AuthError} `weak_password`
 */
export const requireStrong = async (
  deps: EndUserDeps,
  password: string,
  { password_min: min, breached_passwords: list }: AuthSettings,
): Promise<void> => {
  requireForm(password, min);
  if (list !== null) await requireUnbreached(deps, list, password);
};

/** Seals a hash: who reads the database alone has nothing to guess against. */
export const sealHash = (
  { sealer }: Pick<EndUserDeps, 'sealer'>,
  project: PasswordProject,
  userId: string,
  hash: string,
): Buffer => sealer(project).seal(aboutPassword(userId), hash);

export const sealPassword = async (
  deps: EndUserDeps,
  project: PasswordProject,
  userId: string,
  password: string,
): Promise<Buffer> => sealHash(deps, project, userId, await hashPassword(password, project.id));

/** The hash of a user's password; null: none. */
const hashOf = (
  { sealer }: EndUserDeps,
  project: PasswordProject,
  account: Pick<EndUserAccount, 'id' | 'password_sealed'> | undefined,
): string | null =>
  account?.password_sealed ? sealer(project).open(aboutPassword(account.id), account.password_sealed) : null;

/**
 * A check of a foreign hash may take 3 s of a thread. It waits in a line of its own, so that a project with dear hashes
 * holds up no sign-in of others.
 */
const foreignLine = createFairPermits({
  total: 1,
  each: 1,
  maxWaiting: 100,
  waitMs: 30_000,
  refusal: tooManyPasswords,
});

const verifyForeign = async (hash: ForeignHash, password: string, group: string): Promise<boolean> => {
  await foreignLine.acquire(group);
  try {
    return await hash.verify(password);
  } finally {
    foreignLine.release(group);
  }
};

/** Verifies against the hash of a user, or against a decoy that is nobody's. */
const verifyHash = (hash: string | null, password: string, group: string): Promise<boolean> => {
  const foreign = hash === null || isOwnForm(hash) ? null : parseForeignHash(hash);
  return foreign === null
    ? verifyPassword(password, hash ?? undefined, group)
    : verifyForeign(foreign, password, group);
};

/** The outcome of a check of a password. */
export interface PasswordCheck {
  readonly isRight: boolean;
  /** The hash that the user was imported with; null: it is one of ours. */
  readonly foreign: string | null;
}

/**
 * @param decoy a hash to verify against where there is no such user, or none with a password: it takes as long as for
 * one whom the project imported; null: as long as for any other
 */
export const checkPassword = async (
  deps: EndUserDeps,
  project: PasswordProject,
  account: Pick<EndUserAccount, 'id' | 'password_sealed'> | undefined,
  { password, decoy }: { readonly password: string; readonly decoy: string | null },
): Promise<PasswordCheck> => {
  const hash = hashOf(deps, project, account);
  const isRight = (await verifyHash(hash ?? decoy, password, project.id)) && hash !== null;
  return { isRight, foreign: hash === null || isOwnForm(hash) ? null : hash };
};

/** Whether a password is the one of a user who is signed in. */
export const isPasswordOf = async (
  deps: EndUserDeps,
  project: PasswordProject,
  account: Pick<EndUserAccount, 'id' | 'password_sealed'>,
  password: string,
): Promise<boolean> => (await checkPassword(deps, project, account, { password, decoy: null })).isRight;

const renewSql = `
  with renewed as (
    update auth.accounts set password_sealed = $3 where user_id = $1 and password_sealed = $2 returning 1),
  counted as (
    update auth.foreign_hashes set users = users - 1 where decoy = $4 and exists (select from renewed))
  select exists (select from renewed) as renewed`;

/**
 * Replaces the hash that a user was imported with by one of ours, of the password that was right a moment ago.
 * @returns what is stored now
 */
export const renewHash = async (
  deps: EndUserDeps,
  project: PasswordProject,
  { id, password_sealed: former }: Pick<EndUserAccount, 'id' | 'password_sealed'>,
  { password, foreign }: { readonly password: string; readonly foreign: string },
): Promise<Buffer | null> => {
  const sealed = await sealPassword(deps, project, id, password);
  const decoy = parseForeignHash(foreign)?.decoy ?? null;
  const [row] = await deps.authDb.secrets<{ renewed: boolean }>(project.id, renewSql, [id, former, sealed, decoy]);
  return row?.renewed === true ? sealed : former;
};
