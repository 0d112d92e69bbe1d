import type { Project } from '#domain/projects/store.ts';
import { hashPassword, verifyPassword } from '#domain/accounts/passwords.ts';
import type { EndUserDeps } from './end-users.ts';
import { AuthError } from './errors.ts';
import type { AuthSettings } from './settings.ts';
import type { EndUserAccount } from './users.ts';

type PasswordProject = Pick<Project, 'id' | 'data_key'>;

/** As long as no password of a person's is; each is hashed whole. */
const maxPasswordLength = 128;

const aboutPassword = (userId: string): string => `end-user:${userId}:password`;

/** @throws {AuthError} `weak_password` */
export const requireStrong = (password: string, { password_min: min }: AuthSettings): void => {
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

/** A password's hash, sealed: who reads the database alone has nothing to guess against. */
export const sealPassword = async (
  { sealer }: EndUserDeps,
  project: PasswordProject,
  userId: string,
  password: string,
): Promise<Buffer> => sealer(project).seal(aboutPassword(userId), await hashPassword(password, project.id));

/** Takes as long for a user that is not there, or has no password, and is false. */
export const isPasswordOf = (
  { sealer }: EndUserDeps,
  project: PasswordProject,
  account: Pick<EndUserAccount, 'id' | 'password_sealed'> | undefined,
  password: string,
): Promise<boolean> => {
  const sealed = account?.password_sealed ?? null;
  const hash = account && sealed ? sealer(project).open(aboutPassword(account.id), sealed) : undefined;
  return verifyPassword(password, hash, project.id);
};
