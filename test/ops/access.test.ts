import test from 'ava';
import { isOperatorSession, sessionCookie } from '#api/auth/operator.ts';
import { ConfigError } from '#lib/config.ts';
import { opsToken, testConfig, usePlatform } from '#test/support/platform.ts';
import { useWebBuild } from '#test/support/web-build.ts';

const platform = usePlatform(test, { worker: false, settings: useWebBuild(test) });
const strict = usePlatform(test, {
  worker: false,
  settings: { PLINTH_RATE_LIMITS: 'on', PLINTH_RATE_LIMIT_SIGN_IN: '3', PLINTH_BASE_URL: 'https://api.shop.example' },
});
const tokenless = usePlatform(test, { worker: false, settings: { PLINTH_OPS_TOKEN: '' } });

const originOf = (base: string): string => new URL(base).origin;

/** The cookie as the browser would send it back. */
const signIn = async (): Promise<string> => {
  const answer = await platform().client.call('POST', '/ops/session', { body: { token: opsToken } });
  if (answer.status !== 204) throw new Error(answer.text);
  return answer.headers.get('set-cookie')?.split(';', 1)[0] ?? '';
};

test('the token as Bearer opens the API, anything else does not', async (t) => {
  const { call } = platform().client;
  t.is((await call('GET', '/ops/api/queues', { token: opsToken })).status, 200);
  for (const token of [undefined, 'wrong', `${opsToken}x`]) {
    const answer = await call('GET', '/ops/api/queues', { token });
    t.is(answer.status, 401);
    t.is(answer.body.code, 'unauthenticated');
    t.truthy(answer.headers.get('www-authenticate'));
  }
});

test('the session cookie does not hold the token and is for scripts, other sites and other paths out of reach', async (t) => {
  const answer = await platform().client.call('POST', '/ops/session', { body: { token: opsToken } });
  const cookie = answer.headers.get('set-cookie') ?? '';
  t.is(answer.status, 204);
  t.false(cookie.includes(opsToken));
  t.regex(cookie, /^plinth_ops=[\w.-]+; Path=\/ops; HttpOnly; SameSite=Strict; Max-Age=\d+$/);
});

test('over https the cookie is never sent without it', async (t) => {
  const answer = await strict().client.call('POST', '/ops/session', { body: { token: opsToken } });
  t.regex(answer.headers.get('set-cookie') ?? '', /; Secure$/);
});

test('the cookie opens reading', async (t) => {
  const cookie = await signIn();
  const answer = await platform().client.call('GET', '/ops/api/queues', { headers: { cookie } });
  t.is(answer.status, 200);
});

test('a change by cookie must come from the page itself', async (t) => {
  const cookie = await signIn();
  const pause = (headers: Record<string, string>) =>
    platform().client.call('POST', '/ops/api/queues/project.provision/resume', { headers: { cookie, ...headers } });
  t.is((await pause({})).status, 403);
  t.is((await pause({ origin: 'null' })).status, 403);
  t.is((await pause({ origin: 'https://evil.example' })).status, 403);
  const own = originOf(platform().base);
  t.is((await pause({ origin: own.replace('http:', 'https:') })).status, 403, 'another scheme is another origin');
  t.is((await pause({ origin: own })).status, 200);
});

test('the page is where PLINTH_BASE_URL says, scheme and all', async (t) => {
  const cookie = sessionCookie(opsToken, true).split(';', 1)[0] ?? '';
  const resume = (origin: string) =>
    strict().client.call('POST', '/ops/api/queues/project.provision/resume', { headers: { cookie, origin } });
  t.is((await resume('https://api.shop.example')).status, 200);
  t.is((await resume('http://api.shop.example')).status, 403);
  t.is((await resume('https://api.shop.example:8443')).status, 403);
  t.is((await resume(originOf(strict().base))).status, 200, 'the address of the request is its own as well');
});

test('what operators see is not kept by the browser', async (t) => {
  const headers = { cookie: await signIn() };
  for (const path of ['/ops/api/queues', '/ops/api/jobs', '/ops/bullmq', '/ops/bullmq/api/queues']) {
    const answer = await platform().client.call('GET', path, { headers });
    t.is(answer.status, 200, path);
    t.is(answer.headers.get('cache-control'), 'no-store', path);
  }
  t.is((await platform().client.call('GET', '/ops')).headers.get('cache-control'), 'no-cache');
});

test('a token that Bearer cannot carry stops the start and says which characters it may hold', (t) => {
  for (const token of ['sixteen bytes, or more', 'sixteen&bytes&more', 'schlüssel_für_alle', 'x'.repeat(1001)]) {
    const error = t.throws(
      () => testConfig('postgres://u:p@127.0.0.1/x', { PLINTH_OPS_TOKEN: token, REDIS_URL: 'redis://x' }),
      {
        instanceOf: ConfigError,
      },
    );
    t.regex(error.message, /PLINTH_OPS_TOKEN: /);
    t.false(error.message.includes(token));
    if (token.length < 1000) t.regex(error.message, /digits and - \. _ ~ \+ \/ =/);
  }
  const every = 'azAZ09-._~+/==xx';
  t.is(
    testConfig('postgres://u:p@127.0.0.1/x', { PLINTH_OPS_TOKEN: every, REDIS_URL: 'redis://x' }).PLINTH_OPS_TOKEN,
    every,
  );
});

test('a cookie that was changed, has ended or belongs to another token opens nothing', async (t) => {
  const cookie = await signIn();
  const value = cookie.replace('plinth_ops=', '');
  const [ends = '', nonce = '', signature = ''] = value.split('.');
  t.true(isOperatorSession(value, opsToken));
  t.false(isOperatorSession(value, `${opsToken}-new`));
  t.false(isOperatorSession(value, undefined));
  for (const other of [
    `${Number(ends) + 1}.${nonce}.${signature}`,
    `${ends}.${nonce}x.${signature}`,
    `${ends}.${nonce}`,
    '',
  ]) {
    t.false(isOperatorSession(other, opsToken), other);
    const headers = { cookie: `plinth_ops=${other}` };
    t.is((await platform().client.call('GET', '/ops/api/queues', { headers })).status, 401, other);
  }
});

test('signing out takes the cookie back', async (t) => {
  const headers = { cookie: await signIn(), origin: originOf(platform().base) };
  const answer = await platform().client.call('DELETE', '/ops/session', { headers });
  t.is(answer.status, 204);
  t.regex(answer.headers.get('set-cookie') ?? '', /^plinth_ops=; .*Max-Age=0/);
});

test('a wrong token is refused without a cookie, and guessing is limited', async (t) => {
  const attempts = 5;
  const answers = [];
  for (let i = 0; i < attempts; i += 1) {
    answers.push(await strict().client.call('POST', '/ops/session', { body: { token: `guess ${i}` } }));
  }
  t.true(answers.every((answer) => answer.headers.get('set-cookie') === null));
  t.true(answers.some((answer) => answer.status === 401));
  t.is(answers.at(-1)?.status, 429);
  t.truthy(answers.at(-1)?.headers.get('retry-after'));
});

test('bad input to the sign-in is 400', async (t) => {
  for (const body of [{}, { token: '' }, { token: 1 }, { token: opsToken, more: 1 }]) {
    t.is((await platform().client.call('POST', '/ops/session', { body })).status, 400);
  }
});

test('without a token of operators nobody is one', async (t) => {
  const { call } = tokenless().client;
  t.is((await call('GET', '/ops/api/queues', { token: opsToken })).status, 401);
  t.is((await call('POST', '/ops/session', { body: { token: opsToken } })).status, 401);
});

test('the live stream and the view of BullMQ are for operators only', async (t) => {
  for (const path of ['/ops/api/live', '/ops/bullmq', '/ops/bullmq/api/queues']) {
    t.is((await platform().client.call('GET', path)).status, 401, path);
    t.is((await platform().client.call('GET', path, { token: 'wrong' })).status, 401, path);
  }
});

test('the page loads nothing from elsewhere, holds no script of its own, and is only read', async (t) => {
  const { call } = platform().client;
  for (const path of ['/ops', '/ops/', '/ops/jobs', '/ops/jobs/some-id', '/ops/mail']) {
    const answer = await call('GET', path);
    t.is(answer.status, 200, path);
    t.regex(
      answer.headers.get('content-security-policy') ?? '',
      /default-src 'none'; script-src 'self'; style-src 'self';.*require-trusted-types-for 'script'/,
    );
    t.notRegex(answer.headers.get('content-security-policy') ?? '', /unsafe|nonce/);
    t.notRegex(answer.text, /<style|<script(?! type="module" src="\/ops\/assets\/)/);
    t.is((await call('POST', path)).status, 405, path);
  }
  const [, script = ''] = /src="([^"]+)"/.exec((await call('GET', '/ops')).text) ?? [];
  const file = await call('GET', script);
  t.is(file.status, 200);
  t.regex(file.headers.get('cache-control') ?? '', /immutable/);
  for (const path of ['/ops/../package.json', '/ops/assets/main.tsx', '/ops/assets/manifest.json', '/ops/api/nothing'])
    t.is((await call('GET', path)).status, 404, path);
});
