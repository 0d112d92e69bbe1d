import test from 'ava';
import { type Answer, type TestUser, uniqueName } from '#test/support/client.ts';
import { addFactor, codeNow, wrongCode } from '#test/support/factor.ts';
import { createOrganization, tokenOfLink } from '#test/support/organization.ts';
import { usePlatform } from '#test/support/platform.ts';
import { linkTokenTo } from '#test/support/platform-mail.ts';
import { askForReset } from '#test/support/reset.ts';

const platform = usePlatform(test, { worker: false });

const open = (path: string): Promise<Answer> => platform().client.call('GET', path);

const send = (path: string, fields: Readonly<Record<string, string>>): Promise<Answer> =>
  platform().client.call('POST', path, {
    raw: new URLSearchParams(fields).toString(),
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
  });

const logIn = (email: string, password: string): Promise<Answer> =>
  platform().client.call('POST', '/auth/login', { body: { email, password } });

const twice = (password: string) => ({ password, repeated: password });

const resetPath = async (user: TestUser): Promise<string> => {
  await askForReset(platform(), user.email);
  return `/reset-password/${await linkTokenTo(platform(), user.email, 'reset-password')}`;
};

const invite = async (email: string, role = 'developer') => {
  const org = await createOrganization(platform());
  const { body } = await org.as('owner', 'POST', '/team/invite', { body: { email, role } });
  return { org, id: String(body.id), path: `/invite/${tokenOfLink(body.invite_link)}` };
};

test('pages may do nothing but send their own form, and tell nobody their address', async (t) => {
  const user = await platform().client.signUp();
  const { headers, text, status } = await open(await resetPath(user));
  t.is(status, 200);
  t.is(headers.get('content-type'), 'text/html; charset=utf-8');
  const policy = headers.get('content-security-policy') ?? '';
  t.regex(
    policy,
    /^default-src 'none'; style-src 'sha256-[^']+'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'$/,
  );
  t.is(headers.get('referrer-policy'), 'no-referrer');
  t.is(headers.get('cache-control'), 'no-store');
  t.notRegex(text, /<script|\son\w+=|\sstyle=|https?:\/\//i);
  t.regex(text, /<html lang="en">/);
});

test('a reset link leads to a page that sets the password, once', async (t) => {
  const user = await platform().client.signUp();
  const path = await resetPath(user);
  const short = await send(path, twice('short'));
  t.is(short.status, 400);
  t.regex(short.text, /role="alert">The password needs at least 8 characters/);
  const different = await send(path, { password: 'a new password', repeated: 'another password' });
  t.is(different.status, 400);
  t.regex(different.text, /not the same/);
  t.is((await logIn(user.email, user.password)).status, 200);
  const done = await send(path, twice('a new password'));
  t.is(done.status, 200);
  t.regex(done.text, /Your password is set/);
  t.false(done.text.includes('a new password'));
  t.is((await logIn(user.email, 'a new password')).status, 200);
  for (const answer of [await open(path), await send(path, twice('a third password'))]) {
    t.is(answer.status, 410);
    t.is(answer.headers.get('content-type'), 'text/html; charset=utf-8');
    t.regex(answer.text, /This link no longer works/);
  }
});

test('an invite leads somebody without an account to one, and into the organization', async (t) => {
  const email = `${uniqueName('guest')}@example.com`;
  const { org, path } = await invite(email);
  const shown = await open(path);
  t.is(shown.status, 200);
  t.regex(shown.text, /Create your account/);
  t.true(shown.text.includes(`value="${email}"`));
  t.is((await send(path, twice('short'))).status, 400);
  const done = await send(path, { full_name: ' Grace Hopper ', ...twice('a good password') });
  t.is(done.status, 200, done.text);
  t.regex(done.text, /a developer of/);
  const { body } = await logIn(email, 'a good password');
  t.is(body.user.full_name, 'Grace Hopper');
  const orgs = (await platform().client.call('GET', '/team/orgs', { token: body.access_token })).body;
  t.like(
    orgs.find((each: { org_id: string }) => each.org_id === org.id),
    { role: 'developer' },
  );
  const { sessions } = (await platform().client.call('GET', '/auth/sessions', { token: body.access_token })).body;
  t.is(sessions.length, 1, 'the page left no sign-in behind');
  const again = await open(path);
  t.is(again.status, 409);
  t.regex(again.text, /You have accepted already/);
});

test('an invite asks somebody with an account for the password', async (t) => {
  const user = await platform().client.signUp();
  const { org, path } = await invite(user.email, 'viewer');
  t.regex((await open(path)).text, /autocomplete="current-password"/);
  const wrong = await send(path, { password: 'wrong' });
  t.is(wrong.status, 401);
  t.regex(wrong.text, /The password is wrong/);
  t.is((await send(path, { password: user.password })).status, 200);
  const headers = { 'x-org-id': org.id };
  t.is((await platform().client.call('GET', '/team/members', { token: user.token, headers })).status, 200);
});

test('where the account has a second factor, the page asks for it, too', async (t) => {
  const user = await platform().client.signUp();
  const { secret } = await addFactor(platform(), user);
  const { org, path } = await invite(user.email, 'viewer');
  t.false((await open(path)).text.includes('name="code"'));
  const requested = await send(path, { password: user.password });
  t.is(requested.status, 401);
  t.true(requested.text.includes('name="code"'));
  const wrong = await send(path, { password: user.password, code: wrongCode(secret) });
  t.is(wrong.status, 401);
  t.true(wrong.text.includes('name="code"'));
  const headers = { 'x-org-id': org.id };
  const members = () => platform().client.call('GET', '/team/members', { token: user.token, headers });
  t.is((await members()).status, 404);
  t.is((await send(path, { password: user.password, code: codeNow(secret) })).status, 200);
  t.is((await members()).status, 200);
});

test('an invite that was taken back, is too old or never was is no form', async (t) => {
  const { db } = platform();
  const { org, id, path } = await invite(`${uniqueName('guest')}@example.com`);
  await db.transaction((tx) => tx.query('update members set invite_expires_at = now() where id = $1', [id]), {
    'plinth.actor': '{"type":"system"}',
  });
  t.is((await open(path)).status, 410);
  t.is((await org.as('owner', 'DELETE', `/team/members/${id}`)).status, 204);
  for (const at of [path, '/invite/x', '/reset-password/x/y']) t.is((await open(at)).status, 404, at);
  for (const at of ['/reset-password/x', '/confirm-email/x']) {
    t.is((await open(at)).status, 410, at);
    t.is((await send(at, twice('a new password'))).status, 410, at);
  }
});

test('a name is text on the page, whatever it holds', async (t) => {
  const org = await createOrganization(platform());
  const name = `<img src=x onerror=alert(1)>"'&`;
  t.is((await org.as('owner', 'PATCH', '/team/orgs/current', { body: { org_name: name } })).status, 200);
  const email = `${uniqueName('guest')}@example.com`;
  const { body } = await org.as('owner', 'POST', '/team/invite', { body: { email, role: 'viewer' } });
  const { text } = await open(`/invite/${tokenOfLink(body.invite_link)}`);
  t.false(text.includes('<img'));
  t.true(text.includes('&#60;img src=x onerror=alert(1)&#62;&#34;&#39;&#38;'));
});

test('opening the page of a confirmation changes nothing; its button does', async (t) => {
  const user = await platform().client.signUp();
  const email = `${uniqueName('new')}@example.com`;
  await platform().client.call('PATCH', '/auth/me', {
    token: user.token,
    body: { email, current_password: user.password },
  });
  const path = `/confirm-email/${await linkTokenTo(platform(), email, 'confirm-email')}`;
  t.true((await open(path)).text.includes(email));
  t.is((await logIn(email, user.password)).status, 401);
  t.is((await send(path, {})).status, 200);
  t.is((await logIn(email, user.password)).status, 200);
});

test('a page takes what its own form sends, and nothing else', async (t) => {
  const path = await resetPath(await platform().client.signUp());
  const json = await platform().client.call('POST', path, { body: twice('a new password') });
  t.is(json.status, 400);
  t.regex(json.text, /what its own form sends/);
  t.is((await platform().client.call('DELETE', path)).status, 405);
});
