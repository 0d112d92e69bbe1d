import test from 'ava';
import { uniqueName } from '#test/support/client.ts';
import { statusCounts } from '#test/support/status-counts.ts';
import {
  type Attempt,
  badEmails,
  brokenText,
  expectFieldRefused,
  expectShapeRefused,
  noText,
} from '#test/support/malformed.ts';
import { usePlatform } from '#test/support/platform.ts';

const platform = usePlatform(test, { worker: false });
const password = 'correct horse battery';

const newAddress = (): string => `${uniqueName('user')}@example.com`;
const signUp = (body: unknown) => platform().client.call('POST', '/auth/signup', { body });

const countOf = async (table: string): Promise<number> => {
  const [row] = await platform().db.query<{ n: number }>(`select count(*) as n from ${table}`);
  return row?.n ?? -1;
};

test('a new account is signed in at once', async (t) => {
  const email = newAddress();
  const answer = await signUp({ email, password, full_name: 'Ada Lovelace' });
  t.is(answer.status, 201);
  t.deepEqual(Object.keys(answer.body).toSorted(), [
    'access_token',
    'expires_in',
    'refresh_token',
    'token_type',
    'user',
  ]);
  t.like(answer.body, { token_type: 'Bearer', expires_in: 3600, user: { email, full_name: 'Ada Lovelace' } });
  t.deepEqual(Object.keys(answer.body.user).toSorted(), ['created_at', 'email', 'full_name', 'id']);
  t.regex(answer.body.user.created_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  t.regex(answer.body.user.id, /^[\da-f]{8}-[\da-f]{4}-7[\da-f]{3}-[\da-f]{4}-[\da-f]{12}$/);
  const me = await platform().client.call('GET', '/auth/me', { token: answer.body.access_token });
  t.is(me.status, 200);
  t.deepEqual(me.body, answer.body.user);
});

test('a new account owns an organization', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  const { body } = await client.call('GET', '/team/orgs', { token: user.token });
  t.is(body.length, 1);
  t.like(body[0], { role: 'owner', is_own: true });
  t.regex(body[0].org_id, /^[a-z][a-z0-9]{15}$/);
});

test('the full name may be left out or null', async (t) => {
  t.is((await signUp({ email: newAddress(), password })).body.user.full_name, null);
  t.is((await signUp({ email: newAddress(), password, full_name: null })).body.user.full_name, null);
});

test('white space around an address is not part of it', async (t) => {
  const email = newAddress();
  const answer = await signUp({ email: `  ${email}\t\n`, password });
  t.is(answer.status, 201);
  t.is(answer.body.user.email, email);
});

test('passwords of 8 and of 128 characters are taken, in any script', async (t) => {
  const { client } = platform();
  for (const secret of ['12345678', 'x'.repeat(128), 'пароль-密码-🔑', '        ', '"\\\n\t\u0001\u007F\'--']) {
    const email = newAddress();
    t.is((await signUp({ email, password: secret })).status, 201);
    t.is((await client.call('POST', '/auth/login', { body: { email, password: secret } })).status, 200);
    const almost = `?${secret.slice(1)}`;
    t.is((await client.call('POST', '/auth/login', { body: { email, password: almost } })).status, 401);
  }
});

test('an address is taken in whatever case it is written', async (t) => {
  const email = newAddress();
  t.is((await signUp({ email: email.toUpperCase(), password })).status, 201);
  for (const again of [email, email.toUpperCase(), `U${email.slice(1)}`]) {
    const answer = await signUp({ email: again, password });
    t.is(answer.status, 409);
    t.like(answer.body, { code: 'email_taken', details: null });
  }
});

test('fifty sign-ups of one address at once make one account', async (t) => {
  const email = newAddress();
  const before = await countOf('organizations');
  const cases = Array.from({ length: 50 }, (_, i) => (i % 2 === 0 ? email : email.toUpperCase()));
  const answers = await Promise.all(cases.map((address) => signUp({ email: address, password })));
  t.deepEqual(statusCounts(answers), { 201: 1, 409: 49 });
  const users = await platform().db.query('select id from users where lower(email) = lower($1)', [email]);
  t.is(users.length, 1);
  t.true((await countOf('organizations')) > before);
  const [own] = await platform().db.query<{ n: number }>('select count(*) as n from organizations where own_of = $1', [
    users[0]?.['id'],
  ]);
  t.is(own?.n, 1);
});

test('malformed sign-ups are refused field by field', async (t) => {
  const attempt: Attempt = {
    client: platform().client,
    path: '/auth/signup',
    good: { email: newAddress(), password },
  };
  await expectShapeRefused(t, attempt);
  await expectFieldRefused(t, attempt, 'email', [...noText, ...badEmails]);
  await expectFieldRefused(t, attempt, 'password', [
    ...noText,
    ...brokenText(password),
    '',
    '1234567',
    'x'.repeat(129),
    'x'.repeat(100_000),
  ]);
  const wrongNames = noText.filter((value) => value !== undefined && value !== null);
  await expectFieldRefused(t, attempt, 'full_name', [
    ...wrongNames,
    ...brokenText('Ada'),
    '',
    ' \t\n',
    'x'.repeat(101),
  ]);
  t.is((await signUp(attempt.good)).status, 201, 'nothing was made by the attempts before');
});

test('a refused sign-up leaves nothing behind', async (t) => {
  const user = await platform().client.signUp();
  const tables = ['users', 'sign_ins', 'sign_in_tokens', 'members'];
  const of = async (): Promise<unknown> => {
    const counts = tables.map((table) => {
      const owner = { users: 'id', sign_ins: 'user_id', members: 'user_id' }[table];
      const filter = owner ? `${owner} = $1` : 'sign_in_id in (select id from sign_ins where user_id = $1)';
      return platform().db.query(`select count(*) as n from ${table} where ${filter}`, [user.id]);
    });
    return Promise.all(counts);
  };
  const before = await of();
  t.is((await signUp({ email: user.email, password: 'another password' })).status, 409);
  t.deepEqual(await of(), before);
  const login = await platform().client.call('POST', '/auth/login', {
    body: { email: user.email, password: 'another password' },
  });
  t.is(login.status, 401);
});
