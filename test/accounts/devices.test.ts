import test from 'ava';
import { sweepDeviceRequests } from '#domain/accounts/devices.ts';
import type { Answer, TestUser } from '#test/support/client.ts';
import { addFactor, codeNow } from '#test/support/factor.ts';
import { brokenText, expectFieldRefused, expectShapeRefused, noText } from '#test/support/malformed.ts';
import { usePlatform } from '#test/support/platform.ts';
import { cookieOf, openDashboard } from '#test/support/session-cookie.ts';

const platform = usePlatform(test, { worker: false });

const post = (path: string, body: unknown, headers: Readonly<Record<string, string>> = {}): Promise<Answer> =>
  platform().client.call('POST', path, { body, headers });

const begin = async (clientName = 'plinth on a laptop') => {
  const { body, status } = await post('/auth/device', { client_name: clientName });
  if (status !== 200) throw new Error(`beginning answered ${status}`);
  return body;
};

/** As if the device had waited between its polls. */
const waited = (): Promise<unknown> => platform().db.query('update device_requests set last_polled_at = null');

const poll = async (deviceCode: string): Promise<Answer> => {
  await waited();
  return post('/auth/device/token', { device_code: deviceCode });
};

const decide = (cookie: string, what: 'approve' | 'deny', userCode: string): Promise<Answer> =>
  post(`/auth/device/${what}`, { user_code: userCode }, { cookie, origin: platform().base });

const signedIn = async (): Promise<{ user: TestUser; cookie: string }> => {
  const user = await platform().client.signUp();
  return { user, cookie: await openDashboard(platform(), user) };
};

test('a device is told where its user approves it, and how often to ask', async (t) => {
  const body = await begin();
  t.regex(body.device_code, /^plinth_dc_[\w-]{43}$/);
  t.regex(body.user_code, /^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$/);
  t.is(body.verification_uri, `${platform().base}/device`);
  t.is(body.verification_uri_complete, `${platform().base}/device?user_code=${body.user_code}`);
  t.is(body.interval, 5);
  t.is(body.expires_in, 900);
});

test.serial('a device waits, is approved, and is signed in once', async (t) => {
  const { user, cookie } = await signedIn();
  const started = await begin();
  const waiting = await poll(started.device_code);
  t.is(waiting.status, 400);
  t.like(waiting.body, { error: 'authorization_pending', code: 'authorization_pending' });
  t.is((await decide(cookie, 'approve', started.user_code.toLowerCase().replace('-', ' '))).status, 204);
  const done = await poll(started.device_code);
  t.is(done.status, 200);
  t.is(done.body.user.id, user.id);
  const me = await platform().client.call('GET', '/auth/me', { token: done.body.access_token });
  t.is(me.status, 200);
  t.is((await post('/auth/refresh', { refresh_token: done.body.refresh_token })).status, 200);
  t.is((await poll(started.device_code)).body.error, 'expired_token');
  const { body } = await platform().client.call('GET', '/auth/sessions', { token: user.token });
  t.true(body.sessions.some(({ kind }: { kind: string }) => kind === 'device'));
});

test.serial('a device that asks too often is slowed down', async (t) => {
  const started = await begin();
  await poll(started.device_code);
  const answer = await post('/auth/device/token', { device_code: started.device_code });
  t.is(answer.body.error, 'slow_down');
  t.is(answer.headers.get('retry-after'), '5');
});

test.serial('of many polls at once one signs in', async (t) => {
  const { cookie } = await signedIn();
  const started = await begin();
  await decide(cookie, 'approve', started.user_code);
  const answers = await Promise.all(Array.from({ length: 8 }, () => poll(started.device_code)));
  t.is(answers.filter(({ status }) => status === 200).length, 1);
});

test.serial('a device that is refused learns it', async (t) => {
  const { cookie } = await signedIn();
  const started = await begin();
  t.is((await decide(cookie, 'deny', started.user_code)).status, 204);
  t.is((await poll(started.device_code)).body.error, 'access_denied');
  t.is((await decide(cookie, 'approve', started.user_code)).status, 404, 'it was answered');
});

test.serial('an approval ends with the sign-in that gave it', async (t) => {
  const { cookie, user } = await signedIn();
  const started = await begin();
  await decide(cookie, 'approve', started.user_code);
  await platform().client.call('DELETE', '/auth/sessions', { token: user.token });
  t.is((await poll(started.device_code)).body.error, 'access_denied');
});

test.serial('a code that is too old, or was never given out, signs nobody in', async (t) => {
  const { cookie } = await signedIn();
  const started = await begin();
  await platform().db.query(`update device_requests set expires_at = now() where user_code = $1`, [started.user_code]);
  t.is((await decide(cookie, 'approve', started.user_code)).status, 404);
  t.is((await poll(started.device_code)).body.error, 'expired_token');
  t.is((await poll('plinth_dc_made-up')).body.error, 'expired_token');
  await sweepDeviceRequests(platform().db);
  const left = await platform().db.query('select from device_requests where user_code = $1', [started.user_code]);
  t.is(left.length, 0);
});

test('only the page of the dashboard approves: no token, and no other site', async (t) => {
  const { cookie, user } = await signedIn();
  const started = await begin();
  const body = { user_code: started.user_code };
  const byToken = { token: user.token, body };
  t.is((await platform().client.call('POST', '/auth/device/approve', byToken)).status, 403);
  t.is((await post('/auth/device/approve', body, { cookie })).body.code, 'origin_refused');
  t.is((await post('/auth/device/approve', body)).status, 401);
  t.is((await decide(cookie, 'approve', started.user_code)).status, 204);
});

test('what an approval did is in the audit log', async (t) => {
  const { cookie, user } = await signedIn();
  const started = await begin('an audited laptop');
  await decide(cookie, 'approve', started.user_code);
  const { body } = await platform().client.call('GET', '/team/audit-log', { token: user.token });
  const entry = body.entries.find(({ action }: { action: string }) => action === 'device.approve');
  t.is(entry.after.client_name, 'an audited laptop');
});

test('what is no request is refused, with both forms of the code', async (t) => {
  const { client } = platform();
  const attempt = { client, path: '/auth/device', good: { client_name: 'x' } };
  await expectShapeRefused(t, attempt);
  await expectFieldRefused(t, attempt, 'client_name', [...noText, ...brokenText('x'), '', 'a\u001Bb', 'x'.repeat(101)]);
  await expectFieldRefused(t, { client, path: '/auth/device/token', good: {} }, 'device_code', [...noText, '']);
  const answer = await post('/auth/device/token', {});
  t.is(answer.body.error, 'validation_failed');
  t.is(answer.body.code, 'validation_failed');
});

const open = (path: string, cookie = ''): Promise<Answer> =>
  platform().client.call('GET', path, { headers: cookie ? { cookie } : {} });

const send = (fields: Readonly<Record<string, string>>, cookie = '', origin = platform().base): Promise<Answer> =>
  platform().client.call('POST', '/device', {
    raw: new URLSearchParams(fields).toString(),
    headers: { 'content-type': 'application/x-www-form-urlencoded', origin, ...(cookie && { cookie }) },
  });

test.serial('a person signs in on the page, sees who asks, and signs the device in', async (t) => {
  const user = await platform().client.signUp();
  const started = await begin('<b>laptop</b>');
  const first = await open(`/device?user_code=${started.user_code}`);
  t.regex(first.text, /name="password"/);
  t.false(first.text.includes('laptop'), 'strangers do not learn who asks');
  const fields = { user_code: started.user_code, email: user.email, password: user.password };
  t.is((await send({ ...fields, step: 'sign-in', password: 'wrong' })).status, 401);
  const signIn = await send({ ...fields, step: 'sign-in' });
  t.is(signIn.status, 303);
  t.is(signIn.headers.get('location'), `/device?user_code=${started.user_code}`);
  const cookie = cookieOf(signIn);
  const second = await open(`/device?user_code=${started.user_code}`, cookie);
  t.true(second.text.includes('&#60;b&#62;laptop'));
  t.true(second.text.includes(started.user_code));
  const done = await send({ step: 'approve', user_code: started.user_code }, cookie);
  t.is(done.status, 200);
  t.is((await poll(started.device_code)).status, 200);
});

test('the page asks for a second factor, too', async (t) => {
  const user = await platform().client.signUp();
  const factor = await addFactor(platform(), user);
  const started = await begin();
  const fields = { user_code: started.user_code, email: user.email, password: user.password };
  const first = await send({ ...fields, step: 'sign-in' });
  const [, factorToken = ''] = /name="factor_token" value="([^"]+)"/.exec(first.text) ?? [];
  await platform().db.query('update user_factors set last_step = null where user_id = $1', [user.id]);
  const done = await send({
    step: 'factor',
    user_code: started.user_code,
    factor_token: factorToken,
    code: codeNow(factor.secret),
  });
  t.is(done.status, 303);
});

test('the page takes its own form only, and may not be framed', async (t) => {
  const { cookie } = await signedIn();
  const started = await begin();
  for (const origin of ['https://evil.example', 'null']) {
    t.is((await send({ step: 'approve', user_code: started.user_code }, cookie, origin)).status, 403);
  }
  t.is((await send({ step: 'sell', user_code: started.user_code }, cookie)).status, 400);
  t.is((await send({ step: 'approve', user_code: started.user_code })).status, 401, 'without the cookie');
  t.is((await open('/device?user_code=AAAA-AAAA', cookie)).status, 404);
  const { headers } = await open(`/device?user_code=${started.user_code}`, cookie);
  t.regex(headers.get('content-security-policy') ?? '', /frame-ancestors 'none'/);
  t.is(headers.get('referrer-policy'), 'same-origin');
  t.is(headers.get('cache-control'), 'no-store');
});
