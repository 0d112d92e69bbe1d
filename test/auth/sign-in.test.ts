import test from 'ava';
import { until } from '#test/support/until.ts';
import { useDatabase } from '../database/guard-scene.ts';
import { newEmail, password, useAuth } from './auth-scene.ts';

const { ask, developer, newProject, platform, project, refresh, signIn, signedUp } = useAuth(test);

const withoutId = ({ request_id, ...rest }: Record<string, unknown>) => [rest, typeof request_id];

test('one address that signs up 50 times at once is one user', async (t) => {
  const email = newEmail();
  const answers = await Promise.all(
    Array.from({ length: 50 }, () => ask('POST', '/signup', { body: { email, password } })),
  );
  t.is(answers.filter(({ status }) => status === 200).length, 1);
  const refused = answers.filter(({ status }) => status !== 200);
  t.deepEqual([...new Set(refused.map(({ body }) => body.error_code))], ['user_already_exists']);
  const rows = await useDatabase(platform(), project()).query(
    'owner',
    `select id from auth.users where email = '${email}'`,
  );
  t.is(rows.length, 1);
});

test('a wrong password and an unknown address are answered alike', async (t) => {
  const { user } = await signedUp();
  const [wrong, unknown] = [await signIn(user.email, 'wrong password'), await signIn(newEmail(), 'wrong password')];
  for (const { status, body } of [wrong, unknown]) {
    t.is(status, 400);
    t.is(body.code, 'invalid_credentials');
  }
  t.deepEqual(withoutId(wrong.body), withoutId(unknown.body));
  t.is(wrong.headers.get('x-supabase-api-version'), '2024-01-01');
});

for (const [what, body] of Object.entries({
  'an address that is none': { email: 'ada', password },
  'two addresses': { email: 'a@example.com,b@example.com', password },
  'a line break in the address': { email: 'a@example.com\nBcc: b@example.com', password },
  'a short password': { email: newEmail(), password: '1234567' },
  'a long password': { email: newEmail(), password: 'x'.repeat(129) },
  'NUL in the password': { email: newEmail(), password: 'long enough \0' },
  'half a character in the password': { email: newEmail(), password: 'long enough \uD800' },
  'NUL in the metadata': { email: newEmail(), password, data: { a: 'x\0' } },
  'half a character in the metadata': { email: newEmail(), password, data: { a: '\uD800' } },
  'metadata of more than 4 KB': { email: newEmail(), password, data: { a: 'x'.repeat(5000) } },
  'metadata that is no object': { email: newEmail(), password, data: [1] },
  'no password': { email: newEmail() },
  'no address': { password },
}))
  test(`${what} is refused, and makes no user`, async (t) => {
    const { status, body: answer } = await ask('POST', '/signup', { body });
    t.true(status === 400 || status === 422, String(status));
    t.is(answer.code, answer.error_code);
    t.is(typeof answer.msg, 'string');
    const email = (body as { email?: string }).email ?? '';
    t.is((await signIn(email === '' ? newEmail() : email)).status, 400);
  });

test('a body that is no JSON, an unknown grant and an unknown path are errors that the client reads', async (t) => {
  const broken = await ask('POST', '/signup', { raw: '{' });
  t.deepEqual([broken.status, broken.body.error_code], [400, 'bad_json']);
  const grant = await ask('POST', '/token?grant_type=web3', { body: {} });
  t.deepEqual([grant.status, grant.body.error_code], [400, 'validation_failed']);
  const nowhere = await ask('GET', '/nothing');
  t.deepEqual([nowhere.status, nowhere.body.error_code], [404, 'unexpected_failure']);
});

test('a project that is closed or by invitation makes nobody a user, and those that are sign in', async (t) => {
  const of = await newProject();
  const { user } = await signedUp(of);
  const { client } = platform();
  for (const signup of ['invite', 'closed'] as const) {
    const changed = await client.call('PATCH', `/projects/${of.id}/auth/settings`, {
      token: developer().token,
      body: { signup },
    });
    t.is(changed.body.signup, signup);
    const refused = await ask('POST', '/signup', { body: { email: newEmail(), password } }, of);
    t.deepEqual([refused.status, refused.body.error_code], [422, 'signup_disabled']);
    t.is((await signIn(user.email, password, of)).status, 200);
    t.true((await ask('GET', '/settings', {}, of)).body.disable_signup);
  }
});

test('a banned user neither signs in nor refreshes, and only the right password tells why', async (t) => {
  const session = await signedUp();
  const database = useDatabase(platform(), project());
  await database.query(
    'users',
    `update auth.users set banned_until = now() + interval '1 hour' where id = '${session.user.id}'`,
  );
  t.is((await signIn(session.user.email, 'wrong password')).body.error_code, 'invalid_credentials');
  const right = await signIn(session.user.email);
  t.deepEqual([right.status, right.body.error_code], [403, 'user_banned']);
  const refreshed = await refresh(session.refresh_token);
  t.deepEqual([refreshed.status, refreshed.body.error_code], [400, 'user_banned']);
  t.is((await ask('GET', '/user', { token: session.access_token })).status, 403);
});

test('the token of a user who is deleted, or signed out, is refused on every surface', async (t) => {
  const [deleted, out] = [await signedUp(), await signedUp()];
  const database = useDatabase(platform(), project());
  await database.query('users', `delete from auth.users where id = '${deleted.user.id}'`);
  t.is((await ask('POST', '/logout', { token: out.access_token, body: {} })).status, 204);
  const { client } = platform();
  for (const { access_token: token } of [deleted, out]) {
    const key = project().publishableKey;
    t.true([401, 403].includes((await ask('GET', '/user', { token })).status));
    t.true(
      [401, 403].includes(
        (await client.call('POST', '/api/graphql', { key, token, body: { query: '{__typename}' } })).status,
      ),
    );
    // A token that was verified a moment ago is remembered for 30 s.
    await until(async () => (await client.call('GET', '/v1/rest/', { key, token })).status === 401);
  }
});

test('an access token is not remembered as valid beyond a refusal: metadata and keys alone are no user', async (t) => {
  t.deepEqual(
    [(await ask('GET', '/user')).status, (await ask('GET', '/user')).body.error_code],
    [401, 'no_authorization'],
  );
  const secret = await ask('GET', '/user', { key: project().key });
  t.deepEqual([secret.status, secret.body.error_code], [401, 'no_authorization']);
  const made = await platform().client.call('POST', `/projects/${project().id}/users/tokens`, {
    token: developer().token,
    body: { sub: crypto.randomUUID() },
  });
  const noSession = await ask('GET', '/user', { token: made.body.access_token });
  t.deepEqual([noSession.status, noSession.body.error_code], [403, 'session_not_found']);
  const other = await newProject();
  const { access_token: token } = await signedUp();
  t.is((await ask('GET', '/user', { token }, other)).status, 401);
});

test('a password of 128 characters of any script counts whole, and is kept sealed', async (t) => {
  const email = newEmail();
  const long = 'пароль 密码 🔑🔑'.repeat(20).slice(0, 112).padEnd(127, 'x');
  t.is((await ask('POST', '/signup', { body: { email, password: `${long}1` } })).status, 200);
  t.is((await signIn(email, `${long}2`)).status, 400, 'the last character counts');
  t.is((await signIn(email, `${long}1`)).status, 200);
  t.is((await ask('POST', '/signup', { body: { email: newEmail(), password: `${long}12` } })).status, 422);
  const rows = await useDatabase(platform(), project()).query(
    'auth',
    `select encode(password_sealed, 'escape') as text from auth.accounts where password_sealed is not null`,
  );
  t.true(rows.length > 0);
  for (const { text } of rows) t.false(String(text).includes('argon2'));
});

test('a password of letters alone is taken: only its length is asked for', async (t) => {
  const answer = await ask('POST', '/signup', { body: { email: newEmail(), password: 'onlyletters' } });
  t.is(answer.status, 200);
});
