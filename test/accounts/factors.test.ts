import test from 'ava';
import { type Answer, type TestUser, uniqueName } from '#test/support/client.ts';
import { addFactor, codeNow, confirmAddress, forgetStep, wrongCode } from '#test/support/factor.ts';
import { isError } from '#test/support/is-error.ts';
import { opsToken, usePlatform } from '#test/support/platform.ts';
import { linkTokenTo } from '#test/support/platform-mail.ts';
import { askForReset } from '#test/support/reset.ts';
import { statusCounts } from '#test/support/status-counts.ts';

const platform = usePlatform(test, { worker: false });

const logIn = ({ email, password }: Pick<TestUser, 'email' | 'password'>): Promise<Answer> =>
  platform().client.call('POST', '/auth/login', { body: { email, password } });

const finish = (factorToken: unknown, code: unknown): Promise<Answer> =>
  platform().client.call('POST', '/auth/login/factor', { body: { factor_token: factorToken, code } });

const begin = async (user: TestUser): Promise<string> => (await logIn(user)).body.details.factor_token;

test('a factor counts once it is verified; then a sign-in asks for a code and gives nothing before it', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  const { token, password } = user;
  const made = await client.call('POST', '/auth/factors', { token, body: { password } });
  t.is(made.status, 201);
  t.regex(made.body.secret, /^[A-Z2-7]{32}$/);
  t.true(made.body.uri.startsWith('otpauth://totp/plinth:'));
  t.is((await logIn(user)).status, 200);
  const path = `/auth/factors/${made.body.id}/verify`;
  isError(
    t,
    await client.call('POST', path, { token, body: { code: wrongCode(made.body.secret) } }),
    401,
    'invalid_credentials',
  );
  const verified = await client.call('POST', path, { token, body: { code: codeNow(made.body.secret) } });
  t.is(verified.status, 200);
  t.is(new Set(verified.body.recovery_codes).size, 10);
  await forgetStep(platform(), user.id);
  const requested = await logIn(user);
  isError(t, requested, 401, 'factor_required');
  t.regex(requested.body.details.factor_token, /^plinth_ft_/);
  t.false(requested.text.includes('plinth_at_'));
  const done = await finish(requested.body.details.factor_token, codeNow(made.body.secret));
  t.is(done.status, 200);
  t.is((await client.call('GET', '/auth/me', { token: done.body.access_token })).status, 200);
  const { body } = await client.call('GET', '/auth/factors', { token });
  t.like(body, { total: 1, recovery_codes_left: 10 });
  t.false(JSON.stringify(body).includes('secret'));
});

test('a code works once, and so does a factor token', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  const factor = await addFactor(platform(), user);
  const [first, second] = [await begin(user), await begin(user)];
  const code = codeNow(factor.secret);
  t.is((await finish(first, code)).status, 200);
  isError(t, await finish(second, code), 401, 'invalid_credentials');
  await forgetStep(platform(), user.id);
  isError(t, await finish(first, codeNow(factor.secret)), 401, 'unauthenticated');
  t.is((await finish(second, codeNow(factor.secret))).status, 200);
});

test('of ten sign-ins with one code at once one succeeds', async (t) => {
  const user = await platform().client.signUp();
  const { secret } = await addFactor(platform(), user);
  const tokens = await Promise.all(Array.from({ length: 10 }, () => begin(user)));
  const code = codeNow(secret);
  t.deepEqual(statusCounts(await Promise.all(tokens.map((token) => finish(token, code)))), { 200: 1, 401: 9 });
});

test('a recovery code works once in the place of a code, however it is typed', async (t) => {
  const user = await platform().client.signUp();
  const { recoveryCodes } = await addFactor(platform(), user);
  const [one = '', other = ''] = recoveryCodes;
  t.is((await finish(await begin(user), one)).status, 200);
  isError(t, await finish(await begin(user), one), 401, 'invalid_credentials');
  t.is((await finish(await begin(user), ` ${other.toLowerCase().replaceAll('-', ' ')}`)).status, 200);
  const { body } = await platform().client.call('GET', '/auth/factors', { token: user.token });
  t.is(body.recovery_codes_left, 8);
});

test('a factor token dies with five wrong codes, and with a new password', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  await confirmAddress(platform(), user.id);
  const { secret } = await addFactor(platform(), user);
  const guessed = await begin(user);
  for (let i = 0; i < 5; i += 1) t.is((await finish(guessed, wrongCode(secret))).status, 401);
  isError(t, await finish(guessed, codeNow(secret)), 401, 'unauthenticated');
  const late = await begin(user);
  await askForReset(platform(), user.email);
  const { body } = await client.call('GET', '/ops/api/mail?limit=200', { token: opsToken });
  const mail = body.mails.find(({ recipient }: { recipient: string }) => recipient === user.email);
  const token = /reset-password\/(\S+)/.exec(mail.body)?.[1];
  t.is((await client.call('POST', '/auth/reset', { body: { token, password: 'a new password' } })).status, 204);
  isError(t, await finish(late, codeNow(secret)), 401, 'unauthenticated');
  isError(t, await logIn({ email: user.email, password: 'a new password' }), 401, 'factor_required');
});

test('the code of somebody else’s factor is none', async (t) => {
  const { client } = platform();
  const [user, other] = [await client.signUp(), await client.signUp()];
  await addFactor(platform(), user);
  const theirs = await addFactor(platform(), other);
  isError(t, await finish(await begin(user), codeNow(theirs.secret)), 401, 'invalid_credentials');
  isError(t, await finish(await begin(user), theirs.recoveryCodes[0]), 401, 'invalid_credentials');
  const path = `/auth/factors/${theirs.id}`;
  const body = { password: user.password, code: codeNow(theirs.secret) };
  isError(t, await client.call('DELETE', path, { token: user.token, body }), 404, 'not_found');
});

test('a factor is removed with the password and a code only, and its recovery codes go with it', async (t) => {
  const { client, db } = platform();
  const user = await client.signUp();
  const { id, secret } = await addFactor(platform(), user);
  const { token, password } = user;
  const remove = (code: string, given: string | undefined = password) =>
    client.call('DELETE', `/auth/factors/${id}`, { token, body: { password: given, code } });
  isError(t, await remove(wrongCode(secret)), 401, 'invalid_credentials');
  isError(t, await remove(codeNow(secret), 'wrong'), 401, 'invalid_credentials');
  isError(
    t,
    await client.call('DELETE', `/auth/factors/${id}`, { token, body: { code: codeNow(secret) } }),
    400,
    'validation_failed',
  );
  isError(t, await client.call('POST', '/auth/factors', { token, body: { password } }), 409, 'conflict');
  t.is((await remove(codeNow(secret))).status, 204);
  t.is((await logIn(user)).status, 200);
  t.is((await db.query('select from recovery_codes where user_id = $1', [user.id])).length, 0);
  isError(t, await remove(codeNow(secret)), 404, 'not_found');
});

test('an access token alone adds no factor', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  const add = (body: unknown) => client.call('POST', '/auth/factors', { token: user.token, body });
  isError(t, await add({ password: 'wrong' }), 401, 'invalid_credentials');
  isError(t, await add({}), 400, 'validation_failed');
  t.is((await client.call('GET', '/auth/factors', { token: user.token })).body.total, 0);
});

test('a reset by mail removes the factor of whoever signed up with an address that was never confirmed', async (t) => {
  const { client } = platform();
  const stranger = await client.signUp();
  await addFactor(platform(), stranger);
  const halfDone = await begin(stranger);
  await askForReset(platform(), stranger.email);
  const token = await linkTokenTo(platform(), stranger.email, 'reset-password');
  t.is((await client.call('POST', '/auth/reset', { body: { token, password: 'a new password' } })).status, 204);
  const owner = await logIn({ email: stranger.email, password: 'a new password' });
  t.is(owner.status, 200, owner.text);
  const { body } = await client.call('GET', '/auth/factors', { token: owner.body.access_token });
  t.like(body, { total: 0, recovery_codes_left: 0 });
  t.is((await client.call('GET', '/auth/me', { token: stranger.token })).status, 401);
  isError(t, await finish(halfDone, '123456'), 401, 'unauthenticated');
});

test('neither secrets nor recovery codes can be read from the database', async (t) => {
  const { client, db } = platform();
  const user = await client.signUp();
  const { secret, recoveryCodes } = await addFactor(platform(), user);
  const [factor] = await db.query<{ dump: string }>(`select f::text as dump from user_factors f where user_id = $1`, [
    user.id,
  ]);
  const codes = await db.query<{ dump: string }>(`select c::text as dump from recovery_codes c where user_id = $1`, [
    user.id,
  ]);
  const dump = [factor, ...codes].map((row) => row?.dump).join('\n');
  t.is(codes.length, 10);
  t.false(dump.includes(secret));
  for (const code of recoveryCodes) t.false(dump.includes(Buffer.from(code.replaceAll('-', '')).toString('hex')));
});

test('malformed factor tokens and codes are refused', async (t) => {
  for (const token of ['', 'x', `plinth_ft_${'a'.repeat(43)}`, uniqueName('plinth_at')]) {
    isError(t, await finish(token, '123456'), 401, 'unauthenticated');
  }
  for (const code of ['', 'x'.repeat(41), 5, null]) t.is((await finish('x', code)).status, 400);
});
