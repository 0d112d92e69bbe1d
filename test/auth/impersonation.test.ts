import test from 'ava';
import { asAdmin } from '#test/support/databases.ts';
import { addMember } from '#test/support/members.ts';
import { newEmail, password, useAuth } from './auth-scene.ts';

const { ask, developer, newProject, platform, project, refresh, signIn, signedUp } = useAuth(test);

const manage = (method: string, path: string, body?: unknown, of = project()) =>
  platform().client.call(method, `/projects/${of.id}${path}`, {
    token: developer().token,
    ...(body !== undefined && { body }),
  });

const signInAs = (id: string, of = project(), body: object = {}) => manage('POST', `/users/${id}/sign-in-as`, body, of);

const claimsOf = (token: string) =>
  JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as Record<string, unknown>;

test('an admin acts as a user for half an hour, and the audit log and the tokens say so', async (t) => {
  const { user } = await signedUp();
  const given = await signInAs(user.id);
  t.is(given.status, 201, given.text);
  t.is(given.body.expires_in, 1800);
  t.is(given.body.url, null);
  const claims = claimsOf(given.body.access_token);
  t.like(claims, { sub: user.id, aal: 'aal1' });
  t.like((claims['amr'] as object[])[0], { method: 'impersonation', by: developer().id });
  t.is((claims['exp'] as number) - (claims['iat'] as number), 1800);
  const self = await ask('GET', '/user', { token: given.body.access_token });
  t.is(self.body.id, user.id);
  const { body } = await manage('GET', `/users/${user.id}/sessions`);
  t.like(body.sessions[0], { method: 'impersonation' });
  t.truthy(body.sessions[0].ends_at);
  const [entry] = await platform().db.query<{ email: string; after: object }>(
    `select actor ->> 'email' as email, after from audit_entries
     where target_id = $1 and action = 'end_user.sign_in_as'`,
    [user.id],
  );
  t.deepEqual(entry, { email: developer().email, after: { email: user.email, seconds: 1800 } });
});

test('a renewed token ends when the half hour does, and then nothing is renewed', async (t) => {
  const { user } = await signedUp();
  const { body: given } = await signInAs(user.id);
  const renewed = await refresh(given.refresh_token);
  t.is(renewed.status, 200);
  t.true((claimsOf(renewed.body.access_token)['exp'] as number) <= given.expires_at);
  await asAdmin(project().dbName, (client) =>
    client.query(
      `update auth.sessions set not_after = now() - interval '1 second'
      where user_id = $1 and not_after is not null`,
      [user.id],
    ),
  );
  t.is((await refresh(renewed.body.refresh_token)).body.error_code, 'refresh_token_not_found');
});

test('who acts as a user changes nothing of how the user signs in', async (t) => {
  const { user } = await signedUp();
  const { body: given } = await signInAs(user.id);
  const token = given.access_token;
  const refusals = [
    ask('PUT', '/user', { token, body: { password: 'another good password' } }),
    ask('PUT', '/user', { token, body: { email: newEmail() } }),
    ask('POST', '/factors', { token, body: { factor_type: 'totp', friendly_name: 'mine' } }),
    ask('GET', '/user/identities/authorize?provider=google&skip_http_redirect=true', { token }),
  ];
  for (const refused of await Promise.all(refusals)) t.is(refused.body.error_code, 'insufficient_aal', refused.text);
  t.is((await signIn(user.email)).status, 200);
});

test('the sign-ins of the user go on, also where there is one for each user', async (t) => {
  const of = await newProject();
  await manage('PATCH', '/auth/settings', { session: { single: true } }, of);
  const own = await signedUp(of);
  const before = (await manage('GET', `/users/${own.user.id}`, undefined, of)).body.last_sign_in_at;
  const [first, second] = [await signInAs(own.user.id, of), await signInAs(own.user.id, of)];
  t.is((await refresh(own.refresh_token, of)).status, 200);
  t.is((await refresh(first.body.refresh_token, of)).status, 400);
  t.is((await refresh(second.body.refresh_token, of)).status, 200);
  t.is((await manage('GET', `/users/${own.user.id}`, undefined, of)).body.last_sign_in_at, before);
});

test('it leads to an allowed address only, with the tokens behind the #', async (t) => {
  const of = await newProject();
  await manage('PATCH', '/auth/settings', { site_url: 'https://app.example/start' }, of);
  const { user } = await signedUp(of);
  const open = async (body: object): Promise<URL> => new URL((await signInAs(user.id, of, body)).body.url);
  const site = await open({});
  t.is(site.origin + site.pathname, 'https://app.example/start');
  const values = new URLSearchParams(site.hash.slice(1));
  t.like(claimsOf(values.get('access_token') ?? ''), { sub: user.id });
  t.is((await open({ redirect_to: 'https://evil.example/' })).host, 'app.example');
});

test('a banned user, one of another project and a developer are refused, and leave no entry', async (t) => {
  const of = await newProject();
  const { user } = await signedUp(of);
  t.is((await signInAs(user.id)).status, 404);
  const member = await addMember(platform(), of.orgId, 'developer');
  const path = `/projects/${of.id}/users/${user.id}/sign-in-as`;
  t.is((await platform().client.call('POST', path, { token: member.token, body: {} })).status, 403);
  await manage('POST', `/users/${user.id}/ban`, { until: '2099-01-01T00:00:00Z' }, of);
  t.is((await signInAs(user.id, of)).status, 409);
  const entries = await platform().db.query(
    `select from audit_entries where action = 'end_user.sign_in_as' and target_id = $1`,
    [user.id],
  );
  t.is(entries.length, 0);
});

test('a ban ends it, and so does signing the user out everywhere', async (t) => {
  const { user } = await signedUp();
  const { body: given } = await signInAs(user.id);
  t.is((await manage('DELETE', `/users/${user.id}/sessions`)).status, 204);
  t.is((await ask('GET', '/user', { token: given.access_token })).body.error_code, 'session_not_found');
});

test('a link to set a new password is handed out, works once, and ends the sign-ins', async (t) => {
  const session = await signedUp();
  const { email, id } = session.user;
  const made = await manage('POST', `/users/${id}/reset-link`, {});
  t.is(made.status, 201, made.text);
  t.is(made.body.expires_in, 1800);
  const token = new URL(made.body.url).searchParams.get('token') ?? '';
  const used = await ask('POST', '/verify', { body: { type: 'recovery', token_hash: token } });
  t.is(used.body.user.email, email);
  t.is((await ask('POST', '/verify', { body: { type: 'recovery', token_hash: token } })).status, 403);
  const next = 'a wholly new password';
  t.is((await ask('PUT', '/user', { token: used.body.access_token, body: { password: next } })).status, 200);
  t.is((await signIn(email, next)).status, 200);
  t.is((await signIn(email, password)).status, 400);
});

test('a user without an address gets no link for a password', async (t) => {
  const of = await newProject();
  await manage('PATCH', '/auth/settings', { anonymous: true }, of);
  const { body } = await ask('POST', '/signup', { body: {} }, of);
  const refused = await manage('POST', `/users/${body.user.id}/reset-link`, {}, of);
  t.is(refused.status, 409, refused.text);
});

test('one user is shown with identities and factors, and without any secret', async (t) => {
  const session = await signedUp();
  const factor = await ask('POST', '/factors', {
    token: session.access_token,
    body: { factor_type: 'totp', friendly_name: 'Phone' },
  });
  const { body, text } = await manage('GET', `/users/${session.user.id}`);
  t.like(body, { has_password: true, invited_at: null });
  t.like(body.identities[0], { provider: 'email', email: session.user.email });
  t.like(body.factors[0], { id: factor.body.id, friendly_name: 'Phone', status: 'unverified' });
  t.false(text.includes(factor.body.totp.secret) || text.includes('sealed'));
});
