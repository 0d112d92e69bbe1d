import { mkdir, open, readFile, rm, stat } from 'node:fs/promises';
import { homedir, hostname } from 'node:os';
import path from 'node:path';
import { Failure, exits, failed, systemCode } from './errors.ts';
import { fileFailure, readJsonFile, writeWhole } from './files.ts';
import { type Target, jsonOf, send } from './http.ts';
import type { Schemas } from './types.ts';

/** A sign-in to one platform. */
export interface SignIn {
  readonly access_token: string;
  readonly refresh_token: string;
  /** In ms. */
  readonly expires_at: number;
  readonly email: string;
}

interface Stored {
  /** The address that is meant where none is named. */
  readonly current?: string;
  /** By address: a token is sent to no other. */
  readonly sign_ins: Readonly<Record<string, SignIn>>;
}

type Env = Readonly<Record<string, string | undefined>>;

/**
 * The folder of the person's own settings.
 * @throws {Failure} where neither it nor the home folder is known
 */
const settingsFolder = (env: Env): string => {
  const given = env['XDG_CONFIG_HOME'];
  if (given !== undefined && path.isAbsolute(given)) return path.join(given, 'plinth');
  const home = env['HOME'] || homedirOrNone();
  if (home !== '') return path.join(home, '.config', 'plinth');
  throw failed(
    'no_home',
    'HOME is not set, so there is no place for credentials.',
    'Set HOME or XDG_CONFIG_HOME, or use PLINTH_ACCESS_TOKEN.',
  );
};

const homedirOrNone = (): string => {
  try {
    return homedir();
  } catch {
    return '';
  }
};

export const credentialsFile = (env: Env): string => path.join(settingsFolder(env), 'credentials.json');

export const readStored = async (env: Env): Promise<Stored> => {
  const value = await readJsonFile(credentialsFile(env));
  const signIns = value?.['sign_ins'];
  const current = value?.['current'];
  return {
    sign_ins: (typeof signIns === 'object' && signIns !== null ? signIns : {}) as Stored['sign_ins'],
    ...(typeof current === 'string' && { current }),
  };
};

const writeStored = (env: Env, stored: Stored): Promise<void> =>
  writeWhole(credentialsFile(env), `${JSON.stringify(stored, undefined, 2)}\n`, 0o600);

const pollMs = 25;
/** A refresh takes one request. A lock that is older was left by a process that died. */
const staleMs = 20_000;
const patienceMs = 40_000;

const wait = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return systemCode(error) === 'EPERM';
  }
};

/** Whether the holder of a lock is gone; a home folder may be shared by several machines, whose processes are unknown here. */
const isStale = async (lock: string): Promise<boolean> => {
  const [text, found] = await Promise.all([readFile(lock, 'utf8').catch(() => ''), stat(lock).catch(() => undefined)]);
  if (found === undefined) return false;
  if (Date.now() - found.mtimeMs > staleMs) return true;
  const [host = '', pid = ''] = text.split(' ');
  return host === hostname() && Number(pid) > 0 && !isAlive(Number(pid));
};

const take = async (lock: string): Promise<boolean> => {
  try {
    const handle = await open(lock, 'wx', 0o600);
    await handle.writeFile(`${hostname()} ${process.pid}`);
    await handle.close();
    return true;
  } catch (error) {
    if (systemCode(error) !== 'EEXIST') throw fileFailure('written', lock, error);
    return false;
  }
};

/** A refresh token works once, and its second use ends the sign-in: of two commands at a time one refreshes. */
const withLock = async <T>(env: Env, work: () => Promise<T>): Promise<T> => {
  const lock = `${credentialsFile(env)}.lock`;
  await mkdir(path.dirname(lock), { recursive: true, mode: 0o700 }).catch((error: unknown) => {
    throw fileFailure('written', lock, error);
  });
  const deadline = Date.now() + patienceMs;
  while (!(await take(lock))) {
    if (await isStale(lock)) await rm(lock, { force: true });
    else await wait(pollMs);
    if (Date.now() > deadline) throw failed('locked', `${lock} is held by another command.`);
  }
  try {
    return await work();
  } finally {
    await rm(lock, { force: true });
  }
};

export const storeSignIn = (env: Env, url: string, signIn: SignIn): Promise<void> =>
  withLock(env, async () => {
    const { sign_ins: signIns } = await readStored(env);
    await writeStored(env, { current: url, sign_ins: { ...signIns, [url]: signIn } });
  });

export const forgetSignIn = (env: Env, url: string): Promise<void> =>
  withLock(env, async () => {
    const { current, sign_ins: signIns } = await readStored(env);
    const left = Object.fromEntries(Object.entries(signIns).filter(([one]) => one !== url));
    await writeStored(env, { sign_ins: left, ...(current !== undefined && current !== url && { current }) });
  });

/** The answer to a sign-in. */
export type LoginAnswer = Schemas['SignedIn'];

export const signInOf = (answer: LoginAnswer): SignIn => ({
  access_token: answer.access_token,
  refresh_token: answer.refresh_token,
  expires_at: Date.now() + answer.expires_in * 1000,
  email: answer.user.email,
});

const signedOut = (url: string): Failure =>
  new Failure(exits.signedOut, 'signed_out', `You are not signed in to ${url}.`, {
    hint: 'Sign in with `plinth login`, or set PLINTH_ACCESS_TOKEN.',
  });

const earlyMs = 60_000;

const lasts = (signIn: SignIn | undefined): signIn is SignIn =>
  signIn !== undefined && signIn.expires_at - earlyMs > Date.now();

const refresh = async (env: Env, target: Target, { refresh_token: token }: SignIn): Promise<string> => {
  const response = await send(target, '/auth/refresh', { method: 'POST', body: { refresh_token: token } }).catch(
    (error: unknown) => {
      if (error instanceof Failure && error.exit === exits.signedOut) throw signedOut(target.url);
      throw error;
    },
  );
  const signIn = signInOf(await jsonOf<LoginAnswer>(target, response));
  const stored = await readStored(env);
  await writeStored(env, { ...stored, sign_ins: { ...stored.sign_ins, [target.url]: signIn } });
  return signIn.access_token;
};

/**
 * The access token for an address, renewed where it is about to expire.
 * @throws {Failure} `signed_out`
 */
export const accessToken = async (env: Env, target: Target): Promise<string> => {
  const known = (await readStored(env)).sign_ins[target.url];
  if (known === undefined) throw signedOut(target.url);
  if (lasts(known)) return known.access_token;
  return withLock(env, async () => {
    // The previous holder of the lock may have refreshed it.
    const now = (await readStored(env)).sign_ins[target.url];
    if (now === undefined) throw signedOut(target.url);
    return lasts(now) ? now.access_token : refresh(env, target, now);
  });
};
