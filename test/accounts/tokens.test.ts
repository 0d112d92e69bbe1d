import test from 'ava';
import { sweepSignIns } from '#domain/accounts/sign-ins.ts';
import { systemActor } from '#domain/audit/actor.ts';
import type { Answer } from '#test/support/client.ts';
import { brokenText, expectFieldRefused, expectShapeRefused, noText } from '#test/support/malformed.ts';
import { usePlatform } from '#test/support/platform.ts';

const platform = usePlatform(test, { worker: false });

const me = (token: string | undefined): Promise<Answer> => platform().client.call('GET', '/auth/me', { token });
const refresh = (token: unknown): Promise<Answer> =>
  platform().client.call('POST', '/auth/refresh', { body: { refresh_token: token } });

const base64url = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');

const expireTokens = (userId: string, kind: string) =>
  platform().db.query(
    `update sign_in_tokens t set expires_at = now() - interval '1 second'
     from sign_ins s where s.id = t.sign_in_id and s.user_id = $1 and t.kind = $2`,
    [userId, kind],
  );

test('a call without a token is told how to bring one', async (t) => {
  const answer = await me(undefined);
  t.is(answer.status, 401);
  t.is(answer.body.code, 'unauthenticated');
  t.is(answer.headers.get('www-authenticate'), 'Bearer realm="plinth"');
});

test('forged tokens are refused', async (t) => {
  const user = await platform().client.signUp();
  const claims = { sub: user.id, email: user.email, exp: 4_102_444_800, role: 'owner' };
  const forged = [
    `${user.token}x`,
    user.token.slice(0, -1),
    user.token.toUpperCase(),
    user.token.replace('plinth_at_', ''),
    `plinth_at_${'A'.repeat(43)}`,
    'plinth_at_',
    user.id,
    `${base64url({ alg: 'none', typ: 'JWT' })}.${base64url(claims)}.`,
    `${base64url({ alg: 'None' })}.${base64url(claims)}.x`,
    `${base64url({ alg: 'HS256' })}.${base64url(claims)}.${Buffer.alloc(32).toString('base64url')}`,
    'null',
    'undefined',
    "'or'1'='1",
  ];
  for (const token of forged) {
    const answer = await me(token);
    t.is(answer.status, 401, token);
    t.is(answer.body.code, 'unauthenticated');
    t.regex(answer.headers.get('www-authenticate') ?? '', /^Bearer .*error="invalid_token"/);
  }
  t.is((await me(user.token)).status, 200);
});

test('a token is taken as Bearer only', async (t) => {
  const { client } = platform();
  const { token } = await client.signUp();
  const basic = Buffer.from(`${token}:`).toString('base64');
  for (const authorization of [token, `Basic ${basic}`, `Token ${token}`, `Bearer`, `Bearer ${token} ${token}`]) {
    t.is((await client.call('GET', '/auth/me', { headers: { authorization } })).status, 401, authorization);
  }
  for (const headers of [{ apikey: token }, { cookie: `access_token=${token}` }]) {
    t.is((await client.call('GET', '/auth/me', { headers })).status, 401);
  }
  t.is((await client.call('GET', `/auth/me?access_token=${token}`)).status, 401);
  t.is((await client.call('GET', '/auth/me', { headers: { authorization: `bearer  ${token}` } })).status, 200);
});

test('a token serves its own purpose only', async (t) => {
  const user = await platform().client.signUp();
  t.is((await me(user.refreshToken)).status, 401);
  t.is((await refresh(user.token)).status, 401);
  t.is((await me(user.token)).status, 200, 'neither attempt ended the sign-in');
  t.is((await refresh(user.refreshToken)).status, 200);
});

test('an access token ends when its time is over, and the refresh token brings a new one', async (t) => {
  const user = await platform().client.signUp();
  await expireTokens(user.id, 'access');
  t.is((await me(user.token)).status, 401);
  const { body } = await refresh(user.refreshToken);
  t.is((await me(body.access_token)).status, 200);
});

test('access tokens live an hour', async (t) => {
  const user = await platform().client.signUp();
  const [row] = await platform().db.query<{ seconds: number }>(
    `select extract(epoch from t.expires_at - now())::int as seconds from sign_in_tokens t
     join sign_ins s on s.id = t.sign_in_id where s.user_id = $1 and t.kind = 'access'`,
    [user.id],
  );
  t.true(row !== undefined && row.seconds > 3500 && row.seconds <= 3600);
});

test('a refresh token that is too old is refused', async (t) => {
  const user = await platform().client.signUp();
  await expireTokens(user.id, 'refresh');
  const answer = await refresh(user.refreshToken);
  t.is(answer.status, 401);
  t.is(answer.body.code, 'unauthenticated');
});

test('the tokens of a deleted user are refused', async (t) => {
  const { client, db } = platform();
  const user = await client.signUp();
  await db.transaction((tx) => tx.query('delete from users where id = $1', [user.id]), systemActor);
  t.is((await me(user.token)).status, 401);
  t.is((await client.call('GET', '/team/orgs', { token: user.token })).status, 401);
  t.is((await client.call('POST', '/auth/logout', { token: user.token })).status, 401);
  t.is((await refresh(user.refreshToken)).status, 401);
  const login = await client.call('POST', '/auth/login', { body: { email: user.email, password: user.password } });
  t.is(login.status, 401);
});

test('a refresh token is traded once for new tokens of the same sign-in', async (t) => {
  const { client, db } = platform();
  const user = await client.signUp();
  const first = await refresh(user.refreshToken);
  t.is(first.status, 200);
  t.like(first.body, { token_type: 'Bearer', expires_in: 3600, user: { id: user.id, email: user.email } });
  t.not(first.body.refresh_token, user.refreshToken);
  const second = await refresh(first.body.refresh_token);
  t.is(second.status, 200);
  t.is((await me(second.body.access_token)).status, 200);
  const signIns = await db.query('select id from sign_ins where user_id = $1', [user.id]);
  t.is(signIns.length, 1);
});

test('a refresh token that is shown twice ends all tokens of its sign-in, and no other sign-in', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  const other = await client.call('POST', '/auth/login', { body: { email: user.email, password: user.password } });
  const first = await refresh(user.refreshToken);
  const second = await refresh(first.body.refresh_token);
  t.is((await refresh(user.refreshToken)).status, 401);
  for (const token of [user.token, first.body.access_token, second.body.access_token]) {
    t.is((await me(token)).status, 401);
  }
  t.is((await refresh(second.body.refresh_token)).status, 401);
  t.is((await me(other.body.access_token)).status, 200);
  t.is((await refresh(other.body.refresh_token)).status, 200);
});

test('of twenty refreshes with one token at once at most one wins, and the sign-in ends', async (t) => {
  const user = await platform().client.signUp();
  const answers = await Promise.all(Array.from({ length: 20 }, () => refresh(user.refreshToken)));
  const won = answers.filter(({ status }) => status === 200);
  t.true(won.length <= 1);
  t.true(answers.every(({ status }) => status === 200 || status === 401));
  for (const { body } of won) {
    t.is((await me(body.access_token)).status, 401);
    t.is((await refresh(body.refresh_token)).status, 401);
  }
  t.is((await me(user.token)).status, 401);
});

test('malformed and unknown refresh tokens are refused', async (t) => {
  const good = { refresh_token: 'plinth_rt_unknown' };
  const attempt = { client: platform().client, path: '/auth/refresh', good };
  await expectShapeRefused(t, attempt);
  await expectFieldRefused(t, attempt, 'refresh_token', [...noText, ...brokenText('plinth_rt_'), 'x'.repeat(201)]);
  for (const token of ['', ' ', 'plinth_rt_', `plinth_rt_${'A'.repeat(43)}`, "' or 1=1 --"]) {
    const answer = await refresh(token);
    t.is(answer.status, 401, token);
    t.is(answer.body.code, 'unauthenticated');
  }
});

const tokensOf = (userId: string) =>
  platform().db.query<{ kind: string }>(
    `select t.kind from sign_in_tokens t join sign_ins s on s.id = t.sign_in_id where s.user_id = $1 order by t.kind`,
    [userId],
  );

const age = (userId: string, kinds: readonly string[], by: string) =>
  platform().db.query(
    `update sign_in_tokens t set expires_at = now() - $3::interval
     from sign_ins s where s.id = t.sign_in_id and s.user_id = $1 and t.kind = any ($2)`,
    [userId, kinds, by],
  );

test('tokens are swept a day after their end, and sign-ins with their last token', async (t) => {
  const { client, db } = platform();
  const [live, half, over] = await Promise.all([client.signUp(), client.signUp(), client.signUp()]);
  await age(live.id, ['access'], '23 hours');
  await age(half.id, ['access'], '25 hours');
  await age(over.id, ['access', 'refresh'], '25 hours');
  await Promise.all([sweepSignIns(db), sweepSignIns(db)]);
  t.is((await tokensOf(live.id)).length, 2);
  t.deepEqual(await tokensOf(half.id), [{ kind: 'refresh' }]);
  t.is((await tokensOf(over.id)).length, 0);
  t.is((await refresh(half.refreshToken)).status, 200);
  const signIns = await db.query<{ user_id: string }>('select user_id from sign_ins where user_id = any ($1)', [
    [live.id, half.id, over.id],
  ]);
  t.deepEqual(signIns.map((row) => row.user_id).toSorted(), [live.id, half.id].toSorted());
});
