// First: it must see every call of argon2.
import { argon2Calls, argon2Load } from '#test/support/count-argon2.ts';
import test from 'ava';
import { hashPassword, verifyPassword } from '#domain/accounts/passwords.ts';
import { untilBlocked } from '#test/support/blocked.ts';
import {
  type Attempt,
  badEmails,
  brokenText,
  expectFieldRefused,
  expectShapeRefused,
  noText,
} from '#test/support/malformed.ts';
import { usePlatform } from '#test/support/platform.ts';
import { statusCounts } from '#test/support/status-counts.ts';

const platform = usePlatform(test, { worker: false });

const logIn = (email: string, password: string) =>
  platform().client.call('POST', '/auth/login', { body: { email, password } });

test('a log-in answers as a sign-up does, with tokens of its own', async (t) => {
  const user = await platform().client.signUp();
  const answer = await logIn(user.email, user.password);
  t.is(answer.status, 200);
  t.like(answer.body, { token_type: 'Bearer', expires_in: 3600, user: { id: user.id, email: user.email } });
  t.not(answer.body.access_token, user.token);
  t.not(answer.body.refresh_token, user.refreshToken);
  t.deepEqual(Object.keys(answer.body.user).toSorted(), ['created_at', 'email', 'full_name', 'id']);
});

test('the case of the address and white space around it do not matter', async (t) => {
  const user = await platform().client.signUp();
  t.is((await logIn(user.email.toUpperCase(), user.password)).status, 200);
  t.is((await logIn(` ${user.email}\n`, user.password)).status, 200);
});

const measured = async (email: string, password: string) => {
  argon2Calls.length = 0;
  const { status, body, headers } = await logIn(email, password);
  const { request_id: _id, ...rest } = body;
  return { status, rest, challenge: headers.get('www-authenticate'), work: [...argon2Calls] };
};

test.serial('an unknown address and a wrong password get the same answer for the same work', async (t) => {
  const user = await platform().client.signUp();
  const wrong = await measured(user.email, 'not the password');
  const unknown = await measured('nobody@example.com', user.password);
  t.is(wrong.status, 401);
  t.like(wrong.rest, { code: 'invalid_credentials', details: null });
  t.is(wrong.work.length, 1);
  t.deepEqual(unknown, wrong);
});

test.serial('a made-up reset link does not cost the making of a hash', async (t) => {
  argon2Calls.length = 0;
  const body = { token: 'plinth_reset_made-up', password: 'a new password' };
  t.is((await platform().client.call('POST', '/auth/reset', { body })).status, 410);
  t.is(argon2Calls.length, 0);
});

test('however many log in at once, only a few passwords are checked at a time', async (t) => {
  const user = await platform().client.signUp();
  argon2Load.max = 0;
  const answers = await Promise.all(Array.from({ length: 20 }, () => logIn(user.email, user.password)));
  t.deepEqual(statusCounts(answers), { 200: 20 });
  t.true(argon2Load.max >= 1 && argon2Load.max <= 2, `${argon2Load.max} at a time`);
});

test('malformed log-ins are refused field by field', async (t) => {
  const user = await platform().client.signUp();
  const good = { email: user.email, password: user.password };
  const attempt: Attempt = { client: platform().client, path: '/auth/login', good };
  await expectShapeRefused(t, attempt);
  await expectFieldRefused(t, attempt, 'email', [...noText, ...badEmails]);
  await expectFieldRefused(t, attempt, 'password', [...noText, ...brokenText(user.password), 'x'.repeat(129)]);
});

test('what looks like SQL in a password is only a wrong password', async (t) => {
  const user = await platform().client.signUp();
  for (const password of ["' or '1'='1", "'; drop table users; --", '$1', '%', '']) {
    t.is((await logIn(user.email, password)).status, 401, password);
  }
  t.is((await logIn(user.email, user.password)).status, 200);
});

test('each sign-in keeps the address and the program that it came from', async (t) => {
  const { client, db } = platform();
  const user = await client.signUp();
  const headers = { 'user-agent': `tester/1.0 ${'x'.repeat(500)}` };
  await client.call('POST', '/auth/login', { headers, body: { email: user.email, password: user.password } });
  const [row] = await db.query(
    'select ip, user_agent from sign_ins where user_id = $1 order by created_at desc limit 1',
    [user.id],
  );
  t.is(row?.['ip'], '127.0.0.1');
  t.is(row?.['user_agent'], headers['user-agent'].slice(0, 300));
});

test.serial('a log-in whose password is changed while it runs is refused', async (t) => {
  const { client, db } = platform();
  const user = await client.signUp();
  const changed = await hashPassword('a new password');
  const { login } = await db.transaction(async (tx) => {
    await tx.query('update users set password_hash = $2 where id = $1', [user.id, changed]);
    const running = logIn(user.email, user.password);
    await untilBlocked(db);
    return { login: running };
  });
  t.is((await login).status, 401);
  const [row] = await db.query<{ n: number }>('select count(*) as n from sign_ins where user_id = $1', [user.id]);
  t.is(row?.n, 1, 'only the sign-up began a sign-in');
});

test('log-out ends the access and the refresh token of this sign-in, and no other', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  const other = (await logIn(user.email, user.password)).body;
  const refreshed = await client.call('POST', '/auth/refresh', { body: { refresh_token: user.refreshToken } });
  const out = await client.call('POST', '/auth/logout', { token: user.token });
  t.is(out.status, 204);
  t.is(out.text, '');
  for (const token of [user.token, refreshed.body.access_token]) {
    t.is((await client.call('GET', '/auth/me', { token })).status, 401);
    t.is((await client.call('POST', '/auth/logout', { token })).status, 401);
  }
  const again = await client.call('POST', '/auth/refresh', { body: { refresh_token: refreshed.body.refresh_token } });
  t.is(again.status, 401);
  t.is((await client.call('GET', '/auth/me', { token: other.access_token })).status, 200);
});

test('a stored hash says how it was made, so that the cost can change', async (t) => {
  const hash = await hashPassword('correct horse battery');
  t.regex(hash, /^\$argon2id\$v=19\$m=19456,t=2,p=1\$[\w+/]{22}\$[\w+/]{43}$/);
  t.not(await hashPassword('correct horse battery'), hash);
  t.true(await verifyPassword('correct horse battery', hash));
  t.false(await verifyPassword('correct horse batterz', hash));
  // From the tests of the reference implementation: 256 KiB, two passes, the salt "somesalt".
  const cheaper = '$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4';
  t.true(await verifyPassword('password', cheaper));
  t.false(await verifyPassword('Password', cheaper));
});
