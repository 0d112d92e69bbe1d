import { chmod, mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import test from 'ava';
import { type Workbench, openWorkbench, useWorkbenches } from '#test/support/cli.ts';
import type { TestUser } from '#test/support/client.ts';
import { addFactor, codeNow } from '#test/support/factor.ts';
import { makeToken } from '#test/support/personal-token.ts';
import { usePlatform } from '#test/support/platform.ts';
import { openDashboard } from '#test/support/session-cookie.ts';

const platform = usePlatform(test, { worker: false });
const kept = useWorkbenches(test);

const open = (env: Readonly<Record<string, string>> = {}): Promise<Workbench> =>
  kept(openWorkbench({ PLINTH_URL: platform().base, ...env }));

const signIn = async (bench: Workbench, { email, password }: Pick<TestUser, 'email' | 'password'>) =>
  bench.run(['login', '--email', email], { input: `${password}\n` });

const credentials = (bench: Workbench): string => path.join(bench.home, '.config/plinth/credentials.json');

test('a password on standard input signs in, and signing out ends it', async (t) => {
  const user = await platform().client.signUp();
  const bench = await open();
  const done = await signIn(bench, user);
  t.is(done.code, 0, done.stderr);
  t.is(done.stdout, '');
  t.false((done.stdout + done.stderr).includes(user.password));
  t.like((await bench.json(['whoami'])).value, { email: user.email, url: platform().base });
  const { access_token: token } = JSON.parse(await readFile(credentials(bench), 'utf8')).sign_ins[platform().base];
  t.is((await bench.run(['logout'])).code, 0);
  t.is((await bench.run(['whoami'])).code, 3);
  t.is((await platform().client.call('GET', '/auth/me', { token })).status, 401);
});

test('credentials are for their owner alone', async (t) => {
  const user = await platform().client.signUp();
  const bench = await open();
  await signIn(bench, user);
  t.is((await stat(credentials(bench))).mode & 0o777, 0o600);
  t.is((await stat(path.dirname(credentials(bench)))).mode & 0o777, 0o700);
});

test('a code that is approved in the browser signs in', async (t) => {
  const user = await platform().client.signUp();
  const cookie = await openDashboard(platform(), user);
  const bench = await open();
  let approved: Promise<unknown> | undefined;
  const done = await bench.run(['login'], {
    onOutput: (text) => {
      const [, code] = /user_code=([A-Z]{4}-[A-Z]{4})/.exec(text) ?? [];
      if (code === undefined || approved) return;
      approved = platform().client.call('POST', '/auth/device/approve', {
        headers: { cookie, origin: platform().base },
        body: { user_code: code },
      });
    },
  });
  t.is(done.code, 0, done.stderr);
  t.is((await bench.json(['whoami'])).value.email, user.email);
});

test('a code that is refused ends with 3', async (t) => {
  const user = await platform().client.signUp();
  const cookie = await openDashboard(platform(), user);
  const bench = await open();
  let denied: Promise<unknown> | undefined;
  const done = await bench.run(['login'], {
    onOutput: (text) => {
      const [, code] = /user_code=([A-Z]{4}-[A-Z]{4})/.exec(text) ?? [];
      if (code === undefined || denied) return;
      const headers = { cookie, origin: platform().base };
      denied = platform().client.call('POST', '/auth/device/deny', { headers, body: { user_code: code } });
    },
  });
  t.is(done.code, 3);
  t.regex(done.stderr, /refused in the browser/);
});

test('a second factor is given by --code', async (t) => {
  const user = await platform().client.signUp();
  const factor = await addFactor(platform(), user);
  const bench = await open();
  t.is((await signIn(bench, user)).code, 2, 'nobody can be asked');
  await platform().db.query('update user_factors set last_step = null where user_id = $1', [user.id]);
  const code = codeNow(factor.secret);
  const done = await bench.run(['login', '--email', user.email, '--code', code], { input: user.password });
  t.is(done.code, 0, done.stderr);
});

test('what cannot sign in says why, and with which code', async (t) => {
  const user = await platform().client.signUp();
  const bench = await open();
  const wrong = await signIn(bench, { email: user.email, password: 'wrong' });
  t.is(wrong.code, 3);
  t.regex(wrong.stderr, /password is wrong/);
  t.notRegex(wrong.stderr, /plinth login/);
  t.is((await bench.run(['login', '--email', ''], { input: 'x\n' })).code, 2);
  t.is((await bench.run(['login', '--email', user.email], { input: '\n' })).code, 2);
  const { code, value } = await bench.json(['login', '--email', user.email], { input: 'wrong\n' });
  t.is(code, 3);
  t.is(value.error.code, 'invalid_credentials');
  t.truthy(value.error.request_id);
});

test('a token that expires is renewed once, however many commands run', async (t) => {
  const user = await platform().client.signUp();
  const bench = await open();
  await signIn(bench, user);
  const stored = JSON.parse(await readFile(credentials(bench), 'utf8'));
  stored.sign_ins[platform().base].expires_at = Date.now() - 1;
  await writeFile(credentials(bench), JSON.stringify(stored));
  const answers = await Promise.all(Array.from({ length: 6 }, () => bench.run(['whoami'])));
  t.deepEqual(
    answers.map(({ code, stderr }) => [code, stderr]),
    answers.map(() => [0, '']),
  );
  t.is((await bench.run(['whoami'])).code, 0, 'the sign-in has not ended');
});

test('a lock that a dead process left does not stop anybody', async (t) => {
  const user = await platform().client.signUp();
  const bench = await open();
  await mkdir(path.dirname(credentials(bench)), { recursive: true });
  const { hostname } = await import('node:os');
  await writeFile(`${credentials(bench)}.lock`, `${hostname()} 999999999`);
  t.is((await signIn(bench, user)).code, 0);
});

test('a sign-in that was ended elsewhere is 3', async (t) => {
  const user = await platform().client.signUp();
  const bench = await open();
  await signIn(bench, user);
  await platform().client.call('DELETE', '/auth/sessions', { token: user.token });
  const answer = await bench.run(['projects']);
  t.is(answer.code, 3);
  t.regex(answer.stderr, /plinth login/);
});

test('not signed in comes before not linked', async (t) => {
  const bench = await open();
  t.is((await bench.run(['db', 'status'])).code, 3);
  const user = await platform().client.signUp();
  await signIn(bench, user);
  const unlinked = await bench.run(['db', 'status']);
  t.is(unlinked.code, 2);
  t.regex(unlinked.stderr, /plinth link/);
});

test('a token of the environment signs in without any file, also where there is no home', async (t) => {
  const { client, base } = platform();
  const user = await client.signUp();
  const { token } = await makeToken(client, user);
  const bench = await open({ PLINTH_ACCESS_TOKEN: token });
  const env = { HOME: undefined, XDG_CONFIG_HOME: undefined };
  t.is((await bench.json(['whoami'], { env })).value.email, user.email);
  t.is((await bench.run(['whoami'], { env: { PLINTH_ACCESS_TOKEN: 'plinth_pat_wrong' } })).code, 3);
  await client.call('GET', '/auth/me', { token });
  t.truthy(base);
});

test('a home that cannot be written is said so', async (t) => {
  const user = await platform().client.signUp();
  const bench = await open();
  const file = await bench.write('no-folder', '');
  const answer = await bench.run(['login', '--email', user.email], {
    input: user.password,
    env: { XDG_CONFIG_HOME: file },
  });
  t.is(answer.code, 1);
  t.regex(answer.stderr, /cannot be (?:written|read)/);
  await chmod(file, 0o644);
});

test('credentials that are no JSON are said so', async (t) => {
  const bench = await open();
  await mkdir(path.dirname(credentials(bench)), { recursive: true });
  await writeFile(credentials(bench), '{"sign_ins":');
  const answer = await bench.run(['whoami']);
  t.is(answer.code, 1);
  t.regex(answer.stderr, /not a JSON object/);
});

test('a stored token is sent to its own address only', async (t) => {
  const user = await platform().client.signUp();
  const bench = await open();
  await signIn(bench, user);
  const other = platform().base.replace('127.0.0.1', 'localhost');
  t.is((await bench.run(['whoami', '--url', other])).code, 3);
  await bench.write('plinth/config.json', JSON.stringify({ url: 'http://evil.example', project_id: 'x' }));
  const env = { PLINTH_URL: undefined, PLINTH_ACCESS_TOKEN: 'plinth_pat_secret' };
  const refused = await bench.run(['whoami'], { env });
  t.is(refused.code, 2);
  t.regex(refused.stderr, /is not sent to http:\/\/evil.example/);
});

test('tokens are made, listed and deleted', async (t) => {
  const user = await platform().client.signUp();
  const bench = await open();
  await signIn(bench, user);
  const made = await bench.run(['tokens', 'create', 'build', '--scopes', 'read', '--days', '30']);
  t.regex(made.stdout, /^plinth_pat_[\w-]{43}\n$/);
  const { value } = await bench.json(['tokens', 'list']);
  t.is(value.length, 1);
  t.deepEqual(value[0].scopes, ['read']);
  t.is((await bench.run(['tokens', 'delete', value[0].id])).code, 0);
  t.is((await bench.run(['tokens', 'delete', value[0].id])).code, 4);
  t.is((await bench.run(['tokens', 'create', 'x', '--scopes', 'owner'])).code, 1);
  t.is((await bench.run(['tokens', 'create', 'x', '--days', 'many'])).code, 2);
});
