import test from 'ava';
import { until } from '#test/support/until.ts';
import { useDatabase } from '../database/guard-scene.ts';
import { newEmail, password, useAuth } from './auth-scene.ts';

const { app, ask, developer, newProject, platform, project, refresh, signIn, signedUp } = useAuth(test);

const admin = (of = project()) => app(of, of.key).auth.admin;

/** Calls the administration of users as the project's owner. */
const manage = (method: string, path = '', body?: unknown, of = project()) =>
  platform().client.call(method, `/projects/${of.id}/users${path}`, {
    token: developer().token,
    ...(body !== undefined && { body }),
  });

test('supabase-js makes, lists, reads, changes, bans and deletes users with a secret key', async (t) => {
  const email = newEmail();
  const made = await admin().createUser({ email, password, email_confirm: true, app_metadata: { plan: 'gold' } });
  t.is(made.error, null);
  const id = made.data.user?.id ?? '';
  t.deepEqual(made.data.user?.app_metadata, { plan: 'gold', provider: 'email', providers: ['email'] });
  t.truthy(made.data.user?.email_confirmed_at);
  t.is((await admin().getUserById(id)).data.user?.email, email);
  const list = await admin().listUsers({ page: 1, perPage: 1000 });
  t.true(list.data.users.some((user) => user.id === id));
  const changed = await admin().updateUserById(id, { user_metadata: { name: 'Ada' }, ban_duration: '1h30m' });
  t.is(changed.error, null);
  t.deepEqual(changed.data.user?.user_metadata, { name: 'Ada' });
  t.is((await signIn(email)).body.error_code, 'user_banned');
  await admin().updateUserById(id, { ban_duration: 'none' });
  t.is((await signIn(email)).status, 200);
  t.is((await admin().deleteUser(id)).error, null);
  t.is((await admin().getUserById(id)).error?.code, 'user_not_found');
  t.is((await signIn(email)).body.error_code, 'invalid_credentials');
});

test('lists have pages, with the totals that supabase-js reads', async (t) => {
  const of = await newProject();
  for (let n = 0; n < 5; n += 1) await signedUp(of);
  const { data } = await admin(of).listUsers({ page: 2, perPage: 2 });
  t.like(data, { total: 5, nextPage: 3, lastPage: 3 });
  t.is(data.users.length, 2);
  t.deepEqual((await admin(of).listUsers({ page: 9, perPage: 2 })).data.users, []);
  for (const query of ['page=0', 'per_page=0', 'per_page=1001', 'page=x']) {
    t.is((await ask('GET', `/admin/users?${query}`, { key: of.key }, of)).status, 400, query);
  }
});

test('a publishable key and a user’s token administer nothing', async (t) => {
  const session = await signedUp();
  for (const options of [{}, { token: session.access_token }, { key: project().key, token: session.access_token }]) {
    const refused = await ask('GET', '/admin/users', options);
    t.deepEqual([refused.status, refused.body.error_code], [403, 'not_admin']);
    t.is((await ask('DELETE', `/admin/users/${session.user.id}`, { ...options, body: {} })).status, 403);
  }
});

for (const [what, body] of Object.entries({
  'a role of the database': { role: 'service_role' },
  'a negative ban': { ban_duration: '-1h' },
  'a ban of a million years': { ban_duration: '9000000000h' },
  'a ban without a unit': { ban_duration: '24' },
  'a short password': { password: 'short' },
  'an address that is none': { email: 'ada' },
  'a phone': { phone: '+4912345' },
}))
  test(`${what} is refused by admin/users, and changes nothing`, async (t) => {
    const { user } = await signedUp();
    const before = (await ask('GET', `/admin/users/${user.id}`, { key: project().key })).body;
    const refused = await ask('PUT', `/admin/users/${user.id}`, { key: project().key, body });
    t.true([400, 422].includes(refused.status), refused.text);
    t.deepEqual((await ask('GET', `/admin/users/${user.id}`, { key: project().key })).body, before);
  });

test('users are searched by the beginning of an address, by id and by provider', async (t) => {
  const of = await newProject();
  const [{ user }] = [await signedUp(of, 'ada@example.com'), await signedUp(of, 'a_a@example.com'), await signedUp(of)];
  const found = async (query: string) => {
    const { body } = await manage('GET', `?${query}`, undefined, of);
    return [body.total, body.users.map((one: { email: string }) => one.email)];
  };
  t.deepEqual(await found('q=ADA@'), [1, ['ada@example.com']]);
  t.deepEqual(await found('q=a_'), [1, ['a_a@example.com']]);
  t.deepEqual(await found(`q=${user.id}`), [1, ['ada@example.com']]);
  t.deepEqual(await found('q=%25'), [0, []]);
  t.is((await found('provider=email'))[0], 3);
  t.deepEqual(await found('provider=google'), [0, []]);
  const page = await manage('GET', '?limit=1&offset=1', undefined, of);
  t.deepEqual([page.body.total, page.body.users.map((one: { email: string }) => one.email)], [3, ['a_a@example.com']]);
});

test('an administrator makes and changes a user, and the audit log says who did what', async (t) => {
  const of = await newProject();
  const email = newEmail();
  const made = await manage('POST', '', { email, password, user_metadata: { a: 1 } }, of);
  t.is(made.status, 201);
  t.like(made.body, { email, email_verified: true, providers: ['email'], banned_until: null, user_metadata: { a: 1 } });
  const { id } = made.body;
  const other = newEmail();
  const changed = await manage('PATCH', `/${id}`, { email: other, user_metadata: { a: null, b: 2 } }, of);
  t.like(changed.body, { email: other, email_verified: false, user_metadata: { b: 2 } });
  t.is((await signIn(other, password, of)).status, 200);
  t.is((await manage('POST', '', { email: other, password }, of)).body.code, 'email_taken');
  t.is((await manage('DELETE', `/${id}`, undefined, of)).status, 204);
  t.is((await manage('GET', `/${id}`, undefined, of)).status, 404);
  t.is((await manage('DELETE', `/${id}`, undefined, of)).status, 404);
  const entries = await platform().db.query<{ action: string; email: string }>(
    `select action, actor ->> 'email' as email from audit_entries where project_id = $1 and target_id = $2
     order by created_at`,
    [of.id, id],
  );
  t.deepEqual(
    entries.map(({ action, email: by }) => `${action} ${by}`),
    ['create', 'update', 'delete'].map((act) => `end_user.${act} ${developer().email}`),
  );
});

test('a ban ends all sign-ins at once, and the data API within half a minute', async (t) => {
  const { user, access_token: token, refresh_token: refreshToken } = await signedUp();
  const end = new Date(Date.now() + 60_000).toISOString();
  const banned = await manage('POST', `/${user.id}/ban`, { until: end });
  t.is(banned.body.banned_until, end);
  t.is((await refresh(refreshToken)).status, 400);
  t.is((await ask('GET', '/user', { token })).body.error_code, 'user_banned');
  const { client } = platform();
  await until(
    async () => (await client.call('GET', '/v1/rest/', { key: project().publishableKey, token })).status === 401,
  );
  t.is((await manage('POST', `/${user.id}/unban`)).body.banned_until, null);
  t.is((await signIn(user.email)).status, 200);
  t.is((await manage('POST', `/${user.id}/ban`, { until: '2020-01-01T00:00:00.000Z' })).status, 400);
});

test('sign-ins of a user are listed and ended', async (t) => {
  const { user, refresh_token: token } = await signedUp();
  await signIn(user.email);
  const { body } = await manage('GET', `/${user.id}/sessions`);
  t.is(body.sessions.length, 2);
  t.like(body.sessions[0], { aal: 1, ip: '127.0.0.1' });
  t.is((await manage('DELETE', `/${user.id}/sessions`)).status, 204);
  t.is((await refresh(token)).status, 400);
  t.deepEqual((await manage('GET', `/${user.id}/sessions`)).body.sessions, []);
});

test('a user to whom rows refer without cascade stays, and the audit log has no deletion', async (t) => {
  const of = await newProject();
  const { user } = await signedUp(of);
  await useDatabase(platform(), of).query(
    'owner',
    'create table orders (id int, of uuid references auth.users (id))',
    `insert into orders values (1, '${user.id}')`,
  );
  const refused = await manage('DELETE', `/${user.id}`, undefined, of);
  t.deepEqual([refused.status, refused.body.code], [409, 'conflict']);
  t.is((await signIn(user.email, password, of)).status, 200);
  const entries = await platform().db.query(
    `select from audit_entries where project_id = $1 and action = 'end_user.delete'`,
    [of.id],
  );
  t.is(entries.length, 0);
});

test('another project’s user, and a stranger’s project, are not found', async (t) => {
  const other = await newProject();
  const { user } = await signedUp(other);
  for (const [method, path, body] of [
    ['GET', '', undefined],
    ['PATCH', '', {}],
    ['DELETE', '', undefined],
    ['POST', '/ban', { until: '2099-01-01T00:00:00.000Z' }],
    ['GET', '/sessions', undefined],
    ['DELETE', '/sessions', undefined],
  ] as const)
    t.is((await manage(method, `/${user.id}${path}`, body)).status, 404, `${method} ${path}`);
  t.is((await ask('GET', `/admin/users/${user.id}`, { key: project().key })).status, 404);
  const stranger = await platform().client.signUp();
  const asStranger = await platform().client.call('GET', `/projects/${other.id}/users`, { token: stranger.token });
  t.is(asStranger.status, 404);
});
