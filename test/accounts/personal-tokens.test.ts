import test from 'ava';
import type { Answer } from '#test/support/client.ts';
import { brokenText, expectFieldRefused, expectShapeRefused, noText } from '#test/support/malformed.ts';
import { addMember, ownOrganization } from '#test/support/members.ts';
import { makeToken } from '#test/support/personal-token.ts';
import { usePlatform } from '#test/support/platform.ts';
import { askForReset } from '#test/support/reset.ts';
import { linkTokenTo } from '#test/support/platform-mail.ts';
import { until } from '#test/support/until.ts';

const platform = usePlatform(test);

const call = (token: string, method: string, path: string, body?: unknown): Promise<Answer> =>
  platform().client.call(method, path, { token, ...(body !== undefined && { body }) });

test('a token is shown once and listed without itself', async (t) => {
  const user = await platform().client.signUp();
  const made = await call(user.token, 'POST', '/auth/tokens', { name: 'CI', scopes: ['write', 'read', 'write'] });
  t.is(made.status, 201);
  t.regex(made.body.token, /^plinth_pat_[\w-]{43}$/);
  t.deepEqual(made.body.scopes, ['write', 'read']);
  t.is(made.body.last_four, made.body.token.slice(-4));
  const { body, text } = await call(user.token, 'GET', '/auth/tokens');
  t.is(body.total, 1);
  t.like(body.tokens[0], { id: made.body.id, name: 'CI', org_id: null, expires_at: null, last_used_at: null });
  t.false(text.includes(made.body.token));
  t.false(platform().logged().includes(made.body.token));
});

test('its use is noted, and one note is enough for a minute', async (t) => {
  const { client, db } = platform();
  const user = await client.signUp();
  const { token, id } = await makeToken(client, user);
  const lastUse = async (): Promise<Date | null | undefined> => {
    const [row] = await db.query<{ last_used_at: Date | null }>(
      'select last_used_at from personal_tokens where id = $1',
      [id],
    );
    return row?.last_used_at;
  };
  t.is((await call(token, 'GET', '/auth/me')).body.email, user.email);
  const first = await until(lastUse);
  for (let i = 0; i < 20; i += 1) t.is((await call(token, 'GET', '/projects')).status, 200);
  t.deepEqual(await lastUse(), first);
});

test('the scope bounds the role', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  const [read, write, admin] = await Promise.all(
    ['read', 'write', 'admin'].map((scope) => makeToken(client, user, { scopes: [scope] })),
  );
  const path = `/projects/${project.id}`;
  const statuses = async (token: string | undefined): Promise<number[]> => {
    const given = token ?? '';
    const answers = [
      await call(given, 'GET', path),
      await call(given, 'PATCH', path, { name: 'Renamed' }),
      await call(given, 'POST', `${path}/api-keys`, { name: 'x', kind: 'publishable' }),
    ];
    return answers.map(({ status }) => status);
  };
  t.deepEqual(await statuses(read?.token), [200, 403, 403]);
  t.deepEqual(await statuses(write?.token), [200, 200, 403]);
  t.deepEqual(await statuses(admin?.token), [200, 200, 201]);
  const refused = await call(write?.token ?? '', 'POST', `${path}/api-keys`, { name: 'x', kind: 'secret' });
  t.regex(refused.body.message, /scope admin; this one has write/);
});

test('a token to read cannot write in SQL, and one of a viewer never can', async (t) => {
  const { client } = platform();
  const owner = await client.signUp();
  const project = await client.createProject(owner);
  const viewer = await addMember(platform(), project.orgId, 'viewer');
  const tokens = [
    await makeToken(client, owner, { scopes: ['read'] }),
    await makeToken(client, viewer, { scopes: ['admin'] }),
  ];
  for (const { token } of tokens) {
    const ask = (sql: string): Promise<Answer> => call(token, 'POST', `/projects/${project.id}/db/query`, { sql });
    t.is((await ask('select 1')).status, 200);
    t.is((await ask('create table stolen (id int)')).status, 400);
  }
});

test('a call by a token that is recalled runs with the role of its scope', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  const fn = await client.deploy(user, project, 'export const handler = (n) => n + 1;');
  const [read, write] = await Promise.all(
    ['read', 'write'].map((scope) => makeToken(client, user, { scopes: [scope] })),
  );
  const path = `/projects/${project.id}/functions/${fn.id}/invoke`;
  for (let i = 0; i < 3; i += 1) {
    t.is((await call(read?.token ?? '', 'POST', path, { payload: 1 })).status, 403);
    t.is((await call(write?.token ?? '', 'POST', path, { payload: 1 })).body.result, 2);
  }
  await call(user.token, 'DELETE', `/auth/tokens/${write?.id}`);
  t.is((await call(write?.token ?? '', 'POST', path, { payload: 1 })).status, 401);
});

test('a token of one organization sees nothing of the others', async (t) => {
  const { client } = platform();
  const [user, friend] = await Promise.all([client.signUp(), client.signUp()]);
  const shared = await client.createProject(friend);
  const own = await client.createProject(user);
  const member = await addMember(platform(), shared.orgId, 'owner');
  const mine = await client.createProject(member);
  const { token } = await makeToken(client, member, { org_id: shared.orgId, scopes: ['admin'] });
  t.is((await call(token, 'GET', `/projects/${shared.id}`)).status, 200);
  for (const project of [mine, own]) t.is((await call(token, 'GET', `/projects/${project.id}`)).status, 404);
  t.deepEqual(
    (await call(token, 'GET', '/projects')).body.projects.map(({ id }: { id: string }) => id),
    [shared.id],
  );
  t.is((await call(token, 'GET', `/projects?org_id=${mine.orgId}`)).body.total, 0);
  t.is((await call(token, 'GET', '/team/orgs')).body.length, 1);
  t.is((await call(token, 'POST', '/projects', { name: 'x', org_id: mine.orgId })).status, 404);
  const elsewhere = { token, headers: { 'x-org-id': mine.orgId } };
  t.is((await client.call('GET', '/team/members', elsewhere)).status, 404);
  t.is((await call(token, 'GET', '/team/members')).status, 200, 'its own organization is the one that is meant');
});

test('a token makes no tokens, ends no sign-ins and changes no password', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  const { token, id } = await makeToken(client, user, { scopes: ['admin'] });
  const attempts: [string, string, unknown?][] = [
    ['POST', '/auth/tokens', { name: 'more' }],
    ['GET', '/auth/tokens'],
    ['DELETE', `/auth/tokens/${id}`],
    ['PATCH', '/auth/me', { password: { old: user.password, new: 'another password' } }],
    ['DELETE', '/auth/me', { password: user.password }],
    ['POST', '/auth/logout', {}],
    ['GET', '/auth/sessions'],
    ['DELETE', '/auth/sessions'],
    ['GET', '/auth/factors'],
    ['POST', '/auth/factors', { password: user.password }],
    ['DELETE', '/dashboard/session'],
    ['POST', '/auth/device/approve', { user_code: 'BCDF-GHJK' }],
  ];
  for (const [method, path, body] of attempts) {
    t.is((await call(token, method, path, body)).status, 403, `${method} ${path}`);
  }
  t.is((await call(token, 'GET', '/auth/me')).status, 200);
});

test('a token that was deleted, or has expired, works no more', async (t) => {
  const { client, db } = platform();
  const user = await client.signUp();
  const later = new Date(Date.now() + 3_600_000).toISOString();
  const [first, second] = [await makeToken(client, user), await makeToken(client, user, { expires_at: later })];
  t.is((await call(second.token, 'GET', '/auth/me')).status, 200);
  t.is((await call(user.token, 'DELETE', `/auth/tokens/${first.id}`)).status, 204);
  t.is((await call(user.token, 'DELETE', `/auth/tokens/${first.id}`)).status, 404);
  t.is((await call(first.token, 'GET', '/auth/me')).status, 401);
  await db.query('update sign_in_tokens set expires_at = now() where sign_in_id = $1', [second.id]);
  t.is((await call(second.token, 'GET', '/auth/me')).status, 401);
});

test('another user’s token is not there', async (t) => {
  const { client } = platform();
  const [user, other] = await Promise.all([client.signUp(), client.signUp()]);
  const { id, token } = await makeToken(client, user);
  t.is((await call(other.token, 'DELETE', `/auth/tokens/${id}`)).status, 404);
  t.is((await call(other.token, 'GET', '/auth/tokens')).body.total, 0);
  t.is((await call(user.token, 'DELETE', `/auth/sessions/${id}`)).status, 404, 'it is no sign-in of a person');
  t.is((await call(token, 'GET', '/auth/me')).status, 200);
});

test('other sign-ins end without the tokens, a reset of the password ends both', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  const { token } = await makeToken(client, user);
  t.is((await call(user.token, 'DELETE', '/auth/sessions')).status, 204);
  t.is((await call(token, 'GET', '/auth/me')).status, 200);
  t.is((await call(user.token, 'GET', '/auth/sessions')).body.total, 1);
  await askForReset(platform(), user.email);
  const reset = { token: await linkTokenTo(platform(), user.email, 'reset-password'), password: 'another password' };
  t.is((await client.call('POST', '/auth/reset', { body: reset })).status, 204);
  t.is((await call(token, 'GET', '/auth/me')).status, 401);
});

test('a member who was removed reaches nothing by a token', async (t) => {
  const { client, db } = platform();
  const owner = await client.signUp();
  const project = await client.createProject(owner);
  const member = await addMember(platform(), project.orgId, 'developer');
  const { token } = await makeToken(client, member, { org_id: project.orgId });
  t.is((await call(token, 'GET', `/projects/${project.id}`)).status, 200);
  const [row] = await db.query<{ id: string }>('select id from members where user_id = $1 and org_id = $2', [
    member.id,
    project.orgId,
  ]);
  const headers = { 'x-org-id': project.orgId };
  const removed = await client.call('DELETE', `/team/members/${row?.id}`, { token: owner.token, headers });
  t.is(removed.status, 204);
  t.is((await call(token, 'GET', `/projects/${project.id}`)).status, 404);
});

test('a token opens no surface of keys and is no operator', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  const { token } = await makeToken(client, user, { scopes: ['admin'] });
  for (const path of [`/p/${project.ref}/v1/rest/x`, '/api/data/x', `/p/${project.ref}/storage/v1/bucket`]) {
    t.is((await call(token, 'GET', path)).status, 401, path);
  }
  t.is((await call(token, 'GET', '/ops/api/queues')).status, 401);
});

test('an account has fifty tokens at most, however many are asked for at once', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  const answers = await Promise.all(
    Array.from({ length: 60 }, (_, i) => call(user.token, 'POST', '/auth/tokens', { name: `token ${i}` })),
  );
  t.is(answers.filter(({ status }) => status === 201).length, 50);
  t.is(answers.find(({ status }) => status !== 201)?.status, 409);
});

test('making and deleting a token is in the audit log of the organization', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  const { id } = await makeToken(client, user, { name: 'audited', org_id: await ownOrganization(platform(), user) });
  await call(user.token, 'DELETE', `/auth/tokens/${id}`);
  const { body } = await call(user.token, 'GET', '/team/audit-log');
  const found = body.entries.filter(({ target_id }: { target_id: string }) => target_id === id);
  t.deepEqual(
    found.map(({ action }: { action: string }) => action),
    ['personal_token.delete', 'personal_token.create'],
  );
  t.is(found[1].after.name, 'audited');
});

test('what is no token to be made is refused', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  const past = new Date(Date.now() - 1000).toISOString();
  const bad: Record<string, readonly unknown[]> = {
    name: [...noText, ...brokenText('x'), '', ' ', 'a\nb', 'x'.repeat(101)],
    scopes: [[], 'read', ['read', 'write', 'admin', 'read']],
    org_id: ['', 'x', 1],
    expires_at: [past, 'tomorrow', 1],
  };
  const attempt = {
    client,
    path: '/auth/tokens',
    headers: { authorization: `Bearer ${user.token}` },
    good: { name: 'x' },
  };
  for (const [field, values] of Object.entries(bad)) await expectFieldRefused(t, attempt, field, values);
  await expectShapeRefused(t, attempt);
  const foreign = await call(user.token, 'POST', '/auth/tokens', { name: 'x', org_id: 'abcdefghij012345' });
  t.is(foreign.status, 404);
});
