import test from 'ava';
import { createCredentialUse } from '#domain/accounts/use.ts';
import type { Answer, TestUser } from '#test/support/client.ts';
import { addFactor, codeNow, wrongCode } from '#test/support/factor.ts';
import { badEmails, brokenText, expectFieldRefused, expectShapeRefused, noText } from '#test/support/malformed.ts';
import { makeToken } from '#test/support/personal-token.ts';
import { memoryLog, startPlatform, usePlatform } from '#test/support/platform.ts';
import { cookieOf, openDashboard } from '#test/support/session-cookie.ts';
import { until } from '#test/support/until.ts';

const platform = usePlatform(test);

type Headers = Readonly<Record<string, string>>;

interface Extra {
  readonly body?: unknown;
  readonly headers?: Headers;
}

const ask = (cookie: string, method: string, path: string, { body, headers }: Extra = {}): Promise<Answer> =>
  platform().client.call(method, path, {
    headers: { cookie, ...headers },
    ...(body !== undefined && { body }),
  });

const own = (): Headers => ({ origin: platform().base });

const signIn = ({ email, password }: Pick<TestUser, 'email' | 'password'>): Promise<Answer> =>
  platform().client.call('POST', '/dashboard/session', { body: { email, password } });

test('the cookie is one that no script reads and no other site sends', async (t) => {
  const user = await platform().client.signUp();
  const answer = await signIn(user);
  t.is(answer.status, 204);
  t.is(answer.text, '');
  t.regex(
    answer.headers.get('set-cookie') ?? '',
    /^plinth_session=plinth_cs_[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict; Max-Age=2592000$/,
  );
  t.is((await ask(cookieOf(answer), 'GET', '/auth/me')).body.email, user.email);
});

test('with TLS in front the cookie travels by TLS only, and no other host can set it', async (t) => {
  const { client, stop } = await startPlatform({
    settings: { PLINTH_BASE_URL: 'https://plinth.example' },
    worker: false,
  });
  t.teardown(stop);
  const { email, password } = await client.signUp();
  const answer = await client.call('POST', '/dashboard/session', { body: { email, password } });
  t.regex(
    answer.headers.get('set-cookie') ?? '',
    /^__Host-plinth_session=plinth_cs_[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict; Max-Age=2592000; Secure$/,
  );
  const headers = { cookie: cookieOf(answer), origin: 'https://plinth.example' };
  t.is((await client.call('PATCH', '/auth/me', { headers, body: { full_name: 'Ada' } })).status, 200);
  // A host below the same domain can set a cookie of the name without the prefix.
  const planted = { cookie: cookieOf(answer).replace('__Host-', '') };
  t.is((await client.call('GET', '/auth/me', { headers: planted })).status, 401);
  const end = await client.call('DELETE', '/dashboard/session', { headers });
  t.regex(end.headers.get('set-cookie') ?? '', /^__Host-plinth_session=; Path=\/; .*Max-Age=0; Secure$/);
});

test('without TLS the cookie has no prefix, which browsers would refuse', async (t) => {
  const user = await platform().client.signUp();
  const cookie = cookieOf(await signIn(user));
  t.regex(cookie, /^plinth_session=/);
  t.is((await ask(cookie.replace('plinth', '__Host-plinth'), 'GET', '/auth/me')).status, 401);
});

test('a write by cookie needs the page’s own origin', async (t) => {
  const user = await platform().client.signUp();
  const cookie = await openDashboard(platform(), user);
  const rename = (headers: Headers): Promise<Answer> =>
    ask(cookie, 'PATCH', '/auth/me', { body: { full_name: 'Ada' }, headers });
  for (const origin of ['https://evil.example', 'null', 'http://localhost', `${platform().base}.evil.example`, '']) {
    const answer = await rename(origin === '' ? {} : { origin });
    t.is(answer.status, 403, origin);
    t.is(answer.body.code, 'origin_refused');
  }
  t.is((await rename(own())).status, 200);
});

test('a stream or a download by cookie needs to be asked for by the page itself', async (t) => {
  const user = await platform().client.signUp();
  const project = await platform().client.createProject(user);
  const cookie = await openDashboard(platform(), user);
  const fetchSchema = (site?: string): Promise<Answer> =>
    ask(cookie, 'GET', `/projects/${project.id}/db/schema.sql`, {
      headers: site ? { 'sec-fetch-site': site } : {},
    });
  for (const site of [undefined, 'cross-site', 'same-site']) {
    const answer = await fetchSchema(site);
    t.is(answer.status, 403, site);
    t.is(answer.body.code, 'origin_refused');
  }
  for (const site of ['same-origin', 'none']) t.is((await fetchSchema(site)).status, 200);
  const stream = await ask(cookie, 'GET', `/projects/${project.id}/logs`, {
    headers: { accept: 'text/event-stream' },
  });
  t.is(stream.status, 403);
});

test('a bad Bearer beside a good cookie is refused', async (t) => {
  const user = await platform().client.signUp();
  const cookie = await openDashboard(platform(), user);
  for (const authorization of ['Bearer nonsense', 'Basic YTpi', 'Bearer']) {
    t.is((await ask(cookie, 'GET', '/auth/me', { headers: { authorization } })).status, 401, authorization);
  }
});

test('a cookie is no Bearer, and a token is no cookie', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  const value = (await openDashboard(platform(), user)).replace('plinth_session=', '');
  t.is((await client.call('GET', '/auth/me', { token: value })).status, 401);
  const { token } = await makeToken(client, user);
  for (const other of [user.token, user.refreshToken, token]) {
    t.is((await ask(`plinth_session=${other}`, 'GET', '/auth/me')).status, 401);
  }
});

test('the cookie opens no surface of keys', async (t) => {
  const user = await platform().client.signUp();
  const project = await platform().client.createProject(user);
  const cookie = await openDashboard(platform(), user);
  for (const path of [
    `/p/${project.ref}/v1/rest/x`,
    '/api/data/x',
    `/p/${project.ref}/storage/v1/bucket`,
    '/ops/api/queues',
  ]) {
    t.is((await ask(cookie, 'GET', path, { headers: own() })).status, 401, path);
  }
});

test('signing out ends the cookie here and in the browser', async (t) => {
  const user = await platform().client.signUp();
  const cookie = await openDashboard(platform(), user);
  t.is((await ask(cookie, 'DELETE', '/dashboard/session')).status, 403, 'not for another page');
  const answer = await ask(cookie, 'DELETE', '/dashboard/session', { headers: own() });
  t.is(answer.status, 204);
  t.regex(answer.headers.get('set-cookie') ?? '', /^plinth_session=; .*Max-Age=0/);
  t.is((await ask(cookie, 'GET', '/auth/me')).status, 401);
});

test('a change of the password ends the cookie of other browsers', async (t) => {
  const user = await platform().client.signUp();
  const [mine, other] = [await openDashboard(platform(), user), await openDashboard(platform(), user)];
  const body = { password: { old: user.password, new: 'another password' } };
  t.is((await ask(mine, 'PATCH', '/auth/me', { body, headers: own() })).status, 200);
  t.is((await ask(mine, 'GET', '/auth/me')).status, 200);
  t.is((await ask(other, 'GET', '/auth/me')).status, 401);
});

test('the list of sign-ins tells the kinds apart', async (t) => {
  const user = await platform().client.signUp();
  const cookie = await openDashboard(platform(), user);
  const { body } = await ask(cookie, 'GET', '/auth/sessions');
  const shown = body.sessions.map(({ kind, current }: { kind: string; current: boolean }) => [kind, current]);
  t.deepEqual(shown.toSorted(), [
    ['api', false],
    ['dashboard', true],
  ]);
});

const expiryOf = async (userId: string): Promise<{ hours: number; age: number }> => {
  const [row] = await platform().db.query<{ hours: number; age: number }>(
    `select extract(epoch from t.expires_at - now())::float8 / 3600 as hours,
       extract(epoch from t.expires_at - s.created_at)::float8 / 3600 as age
     from sign_in_tokens t join sign_ins s on s.id = t.sign_in_id where s.user_id = $1 and t.kind = 'cookie'`,
    [userId],
  );
  if (row === undefined) throw new Error('there is no cookie');
  return row;
};

const age = (userId: string, interval: string) =>
  platform().db.query(
    `with old as (update sign_ins set created_at = created_at - $2::interval where user_id = $1 returning id)
     update sign_in_tokens set expires_at = now() + interval '1 hour' where sign_in_id in (select id from old)`,
    [userId, interval],
  );

test('a cookie that is used lasts twelve hours more, one that is not used ends', async (t) => {
  const user = await platform().client.signUp();
  const cookie = await openDashboard(platform(), user);
  await age(user.id, '3 days');
  t.is((await ask(cookie, 'GET', '/auth/me')).status, 200);
  const { hours } = await until(async () => {
    const now = await expiryOf(user.id);
    return now.hours > 2 ? now : null;
  });
  t.true(hours > 11.9 && hours <= 12);
  await platform().db.query(
    `update sign_in_tokens set expires_at = now() where sign_in_id in (select id from sign_ins where user_id = $1)`,
    [user.id],
  );
  t.is((await ask(cookie, 'GET', '/auth/me')).status, 401);
});

test('no cookie lasts longer than thirty days', async (t) => {
  const { db, client } = platform();
  const user = await client.signUp();
  await openDashboard(platform(), user);
  await age(user.id, '715 hours');
  const [row] = await db.query<{ id: string }>(`select id from sign_ins where user_id = $1 and kind = 'dashboard'`, [
    user.id,
  ]);
  const use = createCredentialUse(db, memoryLog().log);
  use.note({ signInId: row?.id ?? '', credential: { kind: 'cookie', scope: 'admin', orgId: null } });
  await use.stop();
  t.true((await expiryOf(user.id)).age <= 720.01);
});

test('an account with a second factor signs in in two steps', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  const factor = await addFactor(platform(), user);
  const first = await signIn(user);
  t.is(first.status, 401);
  t.is(first.body.code, 'factor_required');
  t.is(first.headers.get('set-cookie'), null);
  const second = (code: string): Promise<Answer> =>
    client.call('POST', '/dashboard/session/factor', {
      body: { factor_token: first.body.details.factor_token, code },
    });
  t.is((await second(wrongCode(factor.secret))).status, 401);
  await platform().db.query('update user_factors set last_step = null where user_id = $1', [user.id]);
  const done = await second(codeNow(factor.secret));
  t.is(done.status, 204);
  t.is((await ask(cookieOf(done), 'GET', '/auth/me')).status, 200);
});

test('what is no sign-in is refused', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  const good = { email: user.email, password: user.password };
  const attempt = { client, path: '/dashboard/session', good };
  await expectShapeRefused(t, attempt);
  await expectFieldRefused(t, attempt, 'email', [...noText, ...badEmails]);
  await expectFieldRefused(t, attempt, 'password', [...noText, ...brokenText(user.password)]);
  t.is((await signIn({ ...user, password: 'wrong' })).body.code, 'invalid_credentials');
  for (const cookie of ['plinth_session=', 'plinth_session=x', 'plinth_session=plinth_cs_', 'plinth_session=%00']) {
    t.is((await ask(cookie, 'GET', '/auth/me')).status, 401, cookie);
  }
});
