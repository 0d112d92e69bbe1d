import { hash } from 'node:crypto';
import type { EndUserDeps } from './end-users.ts';
import { type Tried, tryService } from './trials.ts';
import { AuthError } from './errors.ts';
import type { BreachedPasswords } from './settings.ts';

const prefixLength = 5;
const timeoutMs = 2000;
const maxBytes = 256 * 1024;

/** Whether a list of `<rest of the SHA-1>:<count>` lines has it; padding lines have the count 0. */
const lists = (body: string, rest: string): boolean =>
  body.split(/\r?\n/).some((line) => {
    const [suffix = '', count = '1'] = line.split(':');
    return suffix.toUpperCase() === rest && Number(count) !== 0;
  });

interface ListAnswer {
  /** Null: it answered no list. */
  readonly isListed: boolean | null;
  readonly status: number;
}

const ask = async ({ egress }: Pick<EndUserDeps, 'egress'>, url: string, password: string): Promise<ListAnswer> => {
  const digest = hash('sha1', password).toUpperCase();
  const [prefix, rest] = [digest.slice(0, prefixLength), digest.slice(prefixLength)];
  const { status, body } = await egress.fetch(`${url}${prefix}`, {
    for: 'platform',
    method: 'GET',
    headers: { accept: 'text/plain', 'add-padding': 'true' },
    timeoutMs,
    maxBytes,
  });
  return { isListed: status === 200 ? lists(body.toString(), rest) : null, status };
};

/**
 * Asks a list of breached passwords in the form of the range API of Have I Been Pwned: it gets the first five digits of
 * the SHA-1, and answers with the rest of all that it knows. A list that does not answer within 2 s keeps nobody from
 * signing up: the password is taken.
 * @throws {AuthError} `weak_password`
 */
export const requireUnbreached = async (
  { egress, log }: Pick<EndUserDeps, 'egress' | 'log'>,
  { url }: BreachedPasswords,
  password: string,
): Promise<void> => {
  const { isListed } = await ask({ egress }, url, password).catch((error: unknown) => {
    log.warn({ err: error }, 'a list of breached passwords does not answer; the password is taken');
    return { isListed: null };
  });
  if (isListed !== true) return;
  throw new AuthError('weak_password', 'The password is known from a data breach. Choose another one.', {
    weakness: 'pwned',
  });
};

/** A password that every list has. */
const known = 'password';

const faultOf = ({ isListed, status }: ListAnswer): string | null => {
  if (isListed === null) return `It answered ${status}.`;
  return isListed ? null : `It does not list the password "${known}", which every list of breached passwords has.`;
};

/** Whether a list of breached passwords answers as one. */
export const tryBreachedPasswords = (deps: Pick<EndUserDeps, 'egress'>, { url }: BreachedPasswords): Promise<Tried> =>
  tryService(async () => faultOf(await ask(deps, url, known)));
