import { hostname } from 'node:os';
import { type Register, type Run, call, isOn, signedInTarget, targetOf, textOption, urlOf } from '../cli.ts';
import { type LoginAnswer, forgetSignIn, readStored, signInOf, storeSignIn } from '../credentials.ts';
import { Failure, exits, failed, interrupted, usage } from '../errors.ts';
import { type Target, jsonOf, send } from '../http.ts';
import { isLoopback } from '../link.ts';
import { ask, askPassword, isInteractive } from '../prompts.ts';
import { cleanLine } from '../text.ts';
import type { Operations, Schemas } from '../types.ts';

// Secrets are left out of replays alone, and no idempotency key is sent here.
type DeviceAnswer = Required<Operations['POST /auth/device']['answer']>;

const wait = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      reject(interrupted());
    });
  });

const refusals: Readonly<Record<string, string>> = {
  access_denied: 'The sign-in was refused in the browser.',
  expired_token: 'Nobody approved the code in time. Begin again.',
};

/** Asks until the code is approved, as slowly as the platform wants it. */
const pollDevice = async (target: Target, { device_code: code, interval }: DeviceAnswer): Promise<LoginAnswer> => {
  let seconds = interval;
  for (;;) {
    await wait(seconds * 1000, target.signal);
    const request = { method: 'POST', body: { device_code: code }, accept: [400] };
    const response = await send(target, '/auth/device/token', request);
    const answer = await jsonOf<LoginAnswer & { readonly error?: string; readonly message?: string }>(target, response);
    if (response.status !== 400) return answer;
    if (answer.error === 'slow_down') seconds += 5;
    else if (answer.error !== 'authorization_pending') {
      const message = refusals[answer.error ?? ''] ?? answer.message ?? 'The sign-in failed.';
      throw new Failure(exits.signedOut, answer.error ?? 'failed', message);
    }
  }
};

const signInByDevice = async ({ cli }: Run, target: Target): Promise<LoginAnswer> => {
  const name = `plinth on ${hostname()}`.replaceAll(/\p{Cc}/gu, '').slice(0, 100);
  const asks = await call<DeviceAnswer>(target, '/auth/device', { method: 'POST', body: { client_name: name } });
  // Also with --json: without them nobody can go on.
  process.stderr.write(`Open ${cleanLine(asks.verification_uri_complete)}\n`);
  process.stderr.write(`and compare the code: ${cli.out.bold(cleanLine(asks.user_code))}\n`);
  return pollDevice(target, asks);
};

/** A refused sign-in must not be answered by the advice to sign in. */
const withoutAdvice = (error: unknown): unknown =>
  error instanceof Failure && error.exit === exits.signedOut
    ? new Failure(exits.signedOut, error.body.code, error.message, { ...error.body, hint: null })
    : error;

const factorTokenOf = (error: unknown): string | undefined => {
  if (!(error instanceof Failure) || error.body.code !== 'factor_required') return undefined;
  const { details } = error.body;
  const token: unknown =
    typeof details === 'object' && details !== null ? Reflect.get(details, 'factor_token') : undefined;
  return typeof token === 'string' ? token : undefined;
};

const signInByPassword = async (run: Run, target: Target, email: string): Promise<LoginAnswer> => {
  const { terminal } = run.cli;
  if (email.trim() === '') throw usage('The e-mail address must not be empty.');
  const password = await askPassword(terminal, 'Password: ');
  if (password === '') throw usage('The password must not be empty.');
  try {
    return await call(target, '/auth/login', { method: 'POST', body: { email, password } });
  } catch (error) {
    const factorToken = factorTokenOf(error);
    if (factorToken === undefined) throw withoutAdvice(error);
    const code = textOption(run, 'code') ?? (isInteractive(terminal) ? await ask(terminal, 'Code: ') : '');
    if (code === '') throw usage('The account has a second factor: give its code with --code.');
    const body = { factor_token: factorToken, code };
    return call<LoginAnswer>(target, '/auth/login/factor', { method: 'POST', body }).catch((refused: unknown) => {
      throw withoutAdvice(refused);
    });
  }
};

const login = async (run: Run): Promise<void> => {
  const { cli } = run;
  const url = await urlOf(run);
  if (url.startsWith('http:') && !isLoopback(url)) cli.out.warn(`${url} is not encrypted: others can read along.`);
  const target = targetOf(cli, url);
  const email = textOption(run, 'email');
  const answer = email === undefined ? await signInByDevice(run, target) : await signInByPassword(run, target, email);
  if (typeof answer.access_token !== 'string') throw failed('no_platform', `${url} did not answer as plinth does.`);
  await storeSignIn(cli.env, url, signInOf(answer));
  cli.out.say(`Signed in to ${url} as ${cleanLine(answer.user.email)}.`);
  if (cli.out.isJson) cli.out.data({ url, email: answer.user.email }, '');
};

const logout = async (run: Run): Promise<void> => {
  const { cli } = run;
  const url = await urlOf(run);
  if ((await readStored(cli.env)).sign_ins[url] === undefined) {
    cli.out.say(`You were not signed in to ${url}.`);
    return cli.out.isJson ? cli.out.data({ url, signed_out: false }, '') : undefined;
  }
  try {
    const { token } = await signedInTarget({
      ...run,
      cli: { ...cli, env: { ...cli.env, PLINTH_ACCESS_TOKEN: undefined } },
    });
    await send({ ...targetOf(cli, url), ...(token !== undefined && { token }) }, '/auth/logout', {
      method: 'POST',
      body: {},
    });
  } catch (error) {
    if (!(error instanceof Failure) || error.exit === exits.interrupted) throw error;
    // Here it is forgotten in any case; there it ends by itself.
    if (error.exit !== exits.signedOut) cli.out.warn(`The platform could not be told: ${error.message}`);
  }
  await forgetSignIn(cli.env, url);
  cli.out.say(`Signed out of ${url}.`);
  if (cli.out.isJson) cli.out.data({ url, signed_out: true }, '');
};

type User = Schemas['Account'];

const whoami = async (run: Run): Promise<void> => {
  const target = await signedInTarget(run);
  const user = await call<User>(target, '/auth/me');
  run.cli.out.data({ url: target.url, ...user }, `${cleanLine(user.email)} at ${target.url}`);
};

type Token = Schemas['AccessToken'];

const listTokens = async (run: Run): Promise<void> => {
  const target = await signedInTarget(run);
  const { tokens } = await call<{ tokens: Token[] }>(target, '/auth/tokens?limit=200');
  const rows = tokens.map(({ id, name, scopes, last_four: end, expires_at: expires, last_used_at: used }) => ({
    id,
    name,
    scopes: scopes.join(','),
    token: `…${end}`,
    expires,
    used,
  }));
  run.cli.out.table(rows, tokens, 'There are no personal access tokens.');
};

const createToken = async (run: Run): Promise<void> => {
  const scopes = (textOption(run, 'scopes') ?? 'read,write').split(',');
  const days = textOption(run, 'days');
  if (days !== undefined && !/^[1-9]\d{0,3}$/.test(days)) throw usage('--days must be a number from 1 to 9999.');
  const expires = days === undefined ? null : new Date(Date.now() + Number(days) * 86_400_000).toISOString();
  const target = await signedInTarget(run);
  const body = { name: run.args[0] ?? '', scopes, expires_at: expires };
  const made = await call<Token & { token: string }>(target, '/auth/tokens', { method: 'POST', body });
  run.cli.out.say('It is shown this once:');
  run.cli.out.data(made, made.token);
};

const deleteToken = async (run: Run): Promise<void> => {
  const target = await signedInTarget(run);
  const id = run.args[0] ?? '';
  await send(target, `/auth/tokens/${encodeURIComponent(id)}`, { method: 'DELETE' });
  run.cli.out.say('Deleted.');
  if (isOn(run, 'json')) run.cli.out.data({ id, deleted: true }, '');
};

export const registerAccount: Register = (program, act) => {
  program
    .command('login')
    .description('sign in: in the browser, or with --email and the password on standard input')
    .option('--email <address>', 'sign in with a password instead of the browser')
    .option('--code <code>', 'code of the second factor, where nobody can be asked for it')
    .action(act(login));
  program.command('logout').description('end this sign-in').action(act(logout));
  program.command('whoami').description('print who is signed in, and where').action(act(whoami));
  const tokens = program.command('tokens').description('personal access tokens, for build servers');
  tokens.command('list').description('list your tokens').action(act(listTokens));
  tokens
    .command('create <name>')
    .description('make a token; it is printed once')
    .option('--scopes <list>', 'read, write or admin, with commas between them', 'read,write')
    .option('--days <days>', 'days until it expires; left out: it does not')
    .action(act(createToken));
  tokens.command('delete <id>').description('delete a token').action(act(deleteToken));
};
