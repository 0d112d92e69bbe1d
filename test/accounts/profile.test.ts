import test from 'ava';
import { type Answer, type CallOptions, type TestUser, uniqueName } from '#test/support/client.ts';
import { addFactor, codeNow, wrongCode } from '#test/support/factor.ts';
import { isError } from '#test/support/is-error.ts';
import { createOrganization, ownOrgId } from '#test/support/organization.ts';
import { usePlatform } from '#test/support/platform.ts';
import { linkTokenTo, platformMailsTo } from '#test/support/platform-mail.ts';
import { askForReset } from '#test/support/reset.ts';

const platform = usePlatform(test, { worker: false, shared: true });

const as = ({ token }: Pick<TestUser, 'token'>, method: string, path: string, options: CallOptions = {}) =>
  platform().client.call(method, path, { token, ...options });
const change = (user: TestUser, body: unknown): Promise<Answer> => as(user, 'PATCH', '/auth/me', { body });
const logIn = (email: string, password: string): Promise<Answer> =>
  platform().client.call('POST', '/auth/login', { body: { email, password } });
const confirm = (token: unknown): Promise<Answer> =>
  platform().client.call('POST', '/auth/confirm', { body: { token } });
const move = (user: TestUser, email: string, more: object = {}): Promise<Answer> =>
  change(user, { email, current_password: user.password, ...more });
const newAddress = (): string => `${uniqueName('new')}@example.com`;

test('a name is changed and taken away', async (t) => {
  const user = await platform().client.signUp();
  t.is((await change(user, { full_name: 'Ada Lovelace' })).body.full_name, 'Ada Lovelace');
  t.is((await as(user, 'GET', '/auth/me')).body.full_name, 'Ada Lovelace');
  t.is((await change(user, { full_name: null })).body.full_name, null);
  t.is((await change(user, {})).status, 200);
  t.is((await change(user, { id: 'x' })).status, 400);
});

test('a new password needs the old one, and ends all other sign-ins and links', async (t) => {
  const user = await platform().client.signUp();
  const other = (await logIn(user.email, user.password)).body;
  await askForReset(platform(), user.email);
  const reset = await linkTokenTo(platform(), user.email, 'reset-password');
  const wrong = await change(user, { full_name: 'Eve', password: { old: 'wrong', new: 'a new password' } });
  isError(t, wrong, 401, 'invalid_credentials');
  t.is((await as(user, 'GET', '/auth/me')).body.full_name, null);
  t.is((await change(user, { password: { old: user.password, new: 'short' } })).status, 400);
  t.is((await change(user, { password: { old: user.password, new: 'a new password' } })).status, 200);
  t.is((await as(user, 'GET', '/auth/me')).status, 200);
  t.is((await as({ token: other.access_token }, 'GET', '/auth/me')).status, 401);
  t.is((await logIn(user.email, user.password)).status, 401);
  t.is((await logIn(user.email, 'a new password')).status, 200);
  const late = await platform().client.call('POST', '/auth/reset', { body: { token: reset, password: 'another one' } });
  t.is(late.status, 410);
  t.is((await platformMailsTo(platform(), user.email))[0]?.subject, 'Your password was changed');
});

const changePassword = (user: TestUser): Promise<Answer> =>
  change(user, { password: { old: user.password, new: 'a new password' } });

test('a new address that somebody asked for before the password was changed or reset is not taken over', async (t) => {
  const { client } = platform();
  const byReset = async (user: TestUser) => {
    await askForReset(platform(), user.email);
    const token = await linkTokenTo(platform(), user.email, 'reset-password');
    return client.call('POST', '/auth/reset', { body: { token, password: 'a new password' } });
  };
  for (const renew of [changePassword, byReset]) {
    const user = await client.signUp();
    const thief = (await logIn(user.email, user.password)).body;
    const email = newAddress();
    t.is((await move({ ...user, token: thief.access_token }, email)).status, 200);
    t.true((await renew(user)).status < 300);
    isError(t, await confirm(await linkTokenTo(platform(), email, 'confirm-email')), 410, 'expired');
    t.is((await logIn(user.email, 'a new password')).status, 200);
  }
});

test('of two changes of the password at once one wins', async (t) => {
  const user = await platform().client.signUp();
  const answers = await Promise.all(
    ['password one', 'password two'].map((next) => change(user, { password: { old: user.password, new: next } })),
  );
  const winners = await Promise.all(['password one', 'password two'].map((next) => logIn(user.email, next)));
  t.is(winners.filter(({ status }) => status === 200).length, 1);
  t.true(answers.some(({ status }) => status === 200));
});

test('a new address counts once its link is opened; the former one is told and signs in no more', async (t) => {
  const user = await platform().client.signUp();
  const email = newAddress();
  await askForReset(platform(), user.email);
  const reset = await linkTokenTo(platform(), user.email, 'reset-password');
  t.is((await move(user, email)).body.email, user.email);
  t.like((await as(user, 'GET', '/auth/confirmation')).body, { email_confirmed: false, pending_email: email });
  t.is((await logIn(email, user.password)).status, 401);
  const token = await linkTokenTo(platform(), email, 'confirm-email');
  t.deepEqual((await confirm(token)).body, { email });
  isError(t, await confirm(token), 410, 'expired');
  t.is((await as(user, 'GET', '/auth/me')).body.email, email);
  t.like((await as(user, 'GET', '/auth/confirmation')).body, { email, email_confirmed: true, pending_email: null });
  t.is((await logIn(user.email, user.password)).status, 401);
  t.is((await logIn(email, user.password)).status, 200);
  t.is((await as(user, 'GET', '/team/members')).body[0].email, email);
  t.regex((await platformMailsTo(platform(), user.email))[0]?.subject ?? '', /was changed/);
  const late = await platform().client.call('POST', '/auth/reset', { body: { token: reset, password: 'another one' } });
  t.is(late.status, 410, 'a link in the former mailbox opens nothing');
});

test('a new address needs the present password, and a code where the account has a second factor', async (t) => {
  const user = await platform().client.signUp();
  const email = newAddress();
  const without = await change(user, { email });
  isError(t, without, 400, 'validation_failed');
  t.is(without.body.details[0].path, 'current_password');
  isError(t, await move(user, email, { current_password: 'wrong' }), 401, 'invalid_credentials');
  const { secret } = await addFactor(platform(), user);
  isError(t, await move(user, email), 401, 'factor_required');
  isError(t, await move(user, email, { code: wrongCode(secret) }), 401, 'invalid_credentials');
  t.is((await as(user, 'GET', '/auth/confirmation')).body.pending_email, null);
  t.is((await move(user, email, { code: codeNow(secret) })).status, 200);
  t.is((await as(user, 'GET', '/auth/confirmation')).body.pending_email, email);
  isError(t, await move(user, newAddress(), { code: codeNow(secret) }), 401, 'invalid_credentials');
});

test('the old password of a new one proves a new address, too', async (t) => {
  const user = await platform().client.signUp();
  const email = newAddress();
  t.is((await change(user, { email, password: { old: user.password, new: 'a new password' } })).status, 200);
  t.is((await as(user, 'GET', '/auth/confirmation')).body.pending_email, email);
  t.is((await logIn(user.email, 'a new password')).status, 200);
});

test('the address of another account is refused, before and after the link', async (t) => {
  const { client } = platform();
  const [user, other] = [await client.signUp(), await client.signUp()];
  isError(t, await move(user, other.email.toUpperCase()), 409, 'email_taken');
  const email = newAddress();
  t.is((await move(user, email)).status, 200);
  const token = await linkTokenTo(platform(), email, 'confirm-email');
  await client.signUp(email);
  isError(t, await confirm(token), 409, 'email_taken');
  t.is((await as(user, 'GET', '/auth/me')).body.email, user.email);
});

test('the present address is confirmed by a link, once', async (t) => {
  const user = await platform().client.signUp();
  t.is((await as(user, 'POST', '/auth/confirmation', { body: {} })).status, 202);
  t.is((await confirm(await linkTokenTo(platform(), user.email, 'confirm-email'))).status, 200);
  t.true((await as(user, 'GET', '/auth/confirmation')).body.email_confirmed);
  isError(t, await as(user, 'POST', '/auth/confirmation', { body: {} }), 409, 'conflict');
  t.is((await change(user, { email: user.email })).status, 200);
});

test('only the newest link works, and an address gets five in a day, whoever names it', async (t) => {
  const { client } = platform();
  const users = [await client.signUp(), await client.signUp()];
  const email = newAddress();
  const [first] = users;
  await move(first as TestUser, email);
  const older = await linkTokenTo(platform(), email, 'confirm-email');
  for (let i = 1; i < 5; i += 1) t.is((await move(users[i % 2] as TestUser, email)).status, 200);
  for (const user of users) isError(t, await move(user, email), 429, 'rate_limited');
  t.is((await platformMailsTo(platform(), email)).length, 5);
  isError(t, await confirm(older), 410, 'expired');
});

test('a user has at most twenty links sent in a day, to whatever addresses', async (t) => {
  const user = await platform().client.signUp();
  for (let i = 0; i < 20; i += 1) t.is((await move(user, newAddress())).status, 200);
  t.is((await change(user, { password: { old: user.password, new: 'a new password' } })).status, 200);
  isError(t, await move({ ...user, password: 'a new password' }, newAddress()), 429, 'rate_limited');
});

test('sign-ins are listed and ended by their user alone', async (t) => {
  const { client } = platform();
  const [user, stranger] = [await client.signUp(), await client.signUp()];
  const other = (await logIn(user.email, user.password)).body;
  const { body } = await as(user, 'GET', '/auth/sessions');
  t.is(body.total, 2);
  t.deepEqual(Object.keys(body.sessions[0]).toSorted(), [
    'created_at',
    'current',
    'id',
    'ip',
    'kind',
    'last_seen_at',
    'user_agent',
  ]);
  const theirs = body.sessions.find(({ current }: { current: boolean }) => !current);
  t.like(theirs, { kind: 'api', ip: '127.0.0.1' });
  isError(t, await as(stranger, 'DELETE', `/auth/sessions/${theirs.id}`), 404, 'not_found');
  t.is((await as({ token: other.access_token }, 'GET', '/auth/me')).status, 200);
  t.is((await as(user, 'DELETE', `/auth/sessions/${theirs.id}`)).status, 204);
  t.is((await as({ token: other.access_token }, 'GET', '/auth/me')).status, 401);
  const renewed = await client.call('POST', '/auth/refresh', { body: { refresh_token: other.refresh_token } });
  t.is(renewed.status, 401);
  isError(t, await as(user, 'DELETE', `/auth/sessions/${theirs.id}`), 404, 'not_found');
  t.is((await as(user, 'GET', '/auth/sessions?limit=1')).body.total, 1);
});

test('all other sign-ins are ended at once', async (t) => {
  const user = await platform().client.signUp();
  const others = await Promise.all([logIn(user.email, user.password), logIn(user.email, user.password)]);
  t.is((await as(user, 'DELETE', '/auth/sessions')).status, 204);
  for (const { body } of others) t.is((await as({ token: body.access_token }, 'GET', '/auth/me')).status, 401);
  t.is((await as(user, 'GET', '/auth/sessions')).body.total, 1);
});

test('sign-ins and changes of an account stand in the audit log of each of its organizations', async (t) => {
  const org = await createOrganization(platform());
  const user = await platform().client.signUp();
  const invited = await org.as('owner', 'POST', '/team/invite', { body: { email: user.email, role: 'viewer' } });
  const path = new URL(invited.body.invite_link).pathname.split('/').at(-1);
  await as(user, 'POST', `/team/invite/${path}/accept`, { body: {} });
  const signedIn = (await logIn(user.email, user.password)).body;
  await logIn(user.email, 'wrong');
  await change(user, { password: { old: user.password, new: 'a new password' } });
  const seen = async (entries: Answer) =>
    entries.body.entries.filter(({ actor }: { actor: { id: string } }) => actor.id === user.id);
  const theirs = await seen(await org.as('owner', 'GET', '/team/audit-log'));
  const own = await seen(
    await as(user, 'GET', '/team/audit-log', { headers: { 'x-org-id': await ownOrgId(platform(), user) } }),
  );
  for (const entries of [theirs, own]) {
    const [password, entry] = entries;
    t.like(password, { action: 'user.password', target_type: 'user', target_id: user.id });
    t.like(entry, { action: 'sign_in.create', target_type: 'sign_in', after: { method: 'password' }, ip: '127.0.0.1' });
    t.truthy(entry.request_id);
    t.is(entry.actor.email, user.email);
  }
  t.false(JSON.stringify(theirs).includes(signedIn.access_token));
});
