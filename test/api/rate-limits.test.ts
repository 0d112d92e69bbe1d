import test from 'ava';
import { type Answer, createClient, uniqueName } from '#test/support/client.ts';
import { type TestPlatform, usePlatform } from '#test/support/platform.ts';

const dashboardLimit = 20;
const signInLimit = 10;
const settings = {
  PLINTH_RATE_LIMITS: 'on',
  PLINTH_RATE_LIMIT_DASHBOARD: String(dashboardLimit),
  PLINTH_RATE_LIMIT_SIGN_IN: String(signInLimit),
};
const proxied = usePlatform(test, { worker: false, settings: { ...settings, PLINTH_TRUST_PROXY: 'on' } });
const direct = usePlatform(test, { worker: false, settings });

/** Repeats what ran into the next window on the way: windows end by the clock, whatever a test does. */
const withinOneWindow = async (seconds: number, work: () => Promise<void>): Promise<void> => {
  const windowNow = (): number => Math.floor(Date.now() / 1000 / seconds);
  for (let tries = 0; tries < 3; tries += 1) {
    const before = windowNow();
    await work();
    if (windowNow() === before) return;
  }
  throw new Error('no window was long enough');
};

let lastAddress = 0;
const newAddress = (): string => `198.51.${Math.floor((lastAddress += 1) / 250)}.${(lastAddress % 250) + 1}`;

const newAccount = async (): Promise<{ email: string; password: string; token: string }> => {
  const body = { email: `${uniqueName('user')}@example.com`, password: 'correct horse battery' };
  const answer = await proxied().client.call('POST', '/auth/signup', {
    body,
    headers: { 'x-forwarded-for': newAddress() },
  });
  if (answer.status !== 201) throw new Error(answer.text);
  return { ...body, token: answer.body.access_token };
};

const statuses = (answers: readonly Answer[]): number[] => answers.map((answer) => answer.status);

const times = async (n: number, ask: () => Promise<Answer>): Promise<Answer[]> => {
  const answers: Answer[] = [];
  for (let i = 0; i < n; i += 1) answers.push(await ask());
  return answers;
};

/** A login that fails, from wherever the headers say. */
const login = (at: TestPlatform, headers: Readonly<Record<string, string>>): Promise<Answer> =>
  at.client.call('POST', '/auth/login', { body: { email: 'nobody@example.com', password: 'wrong password' }, headers });

const loginThrough = (forwarded: string): Promise<Answer> => login(proxied(), { 'x-forwarded-for': forwarded });

test('requests over the limit are 429 with Retry-After and the rate limit headers', async (t) => {
  await withinOneWindow(60, async () => {
    const { token } = await newAccount();
    const me = (): Promise<Answer> => proxied().client.call('GET', '/auth/me', { token });
    const answers = await times(dashboardLimit + 1, me);
    const last = answers.at(-1);
    if (last?.status !== 429) return;
    t.deepEqual(
      statuses(answers.slice(0, -1)),
      Array.from({ length: dashboardLimit }, () => 200),
    );
    const [first] = answers;
    t.is(first?.headers.get('ratelimit-policy'), `"dashboard";q=${dashboardLimit};w=60`);
    t.regex(first?.headers.get('ratelimit') ?? '', new RegExp(`^"dashboard";r=${dashboardLimit - 1};t=\\d+$`));
    t.is(last.body.code, 'rate_limited');
    const retryAfter = Number(last.headers.get('retry-after'));
    t.true(retryAfter >= 1 && retryAfter <= 60);
    t.is(last.headers.get('ratelimit'), `"dashboard";r=0;t=${retryAfter}`);
    t.is(last.headers.get('ratelimit-policy'), `"dashboard";q=${dashboardLimit};w=60`);
  });
});

test('a user is counted, not a token', async (t) => {
  await withinOneWindow(60, async () => {
    const { email, password, token } = await newAccount();
    const headers = { 'x-forwarded-for': newAddress() };
    const login = await proxied().client.call('POST', '/auth/login', { body: { email, password }, headers });
    const ask = (by: string) => proxied().client.call('GET', '/auth/me', { token: by });
    await times(dashboardLimit, () => ask(token));
    const [second, other] = [await ask(login.body.access_token), await ask((await newAccount()).token)];
    t.true(second.status === 429 || second.status === 200);
    if (second.status === 200) return;
    t.is(other.status, 200);
  });
  t.pass();
});

test('a token that is not valid is not counted as anybody', async (t) => {
  const answers = await times(dashboardLimit + 5, () => proxied().client.call('GET', '/auth/me', { token: 'garbage' }));
  t.deepEqual([...new Set(statuses(answers))], [401]);
});

test('sign-ins are limited by address', async (t) => {
  await withinOneWindow(300, async () => {
    const [address, another] = [newAddress(), newAddress()];
    const answers = await times(signInLimit + 1, () => loginThrough(address));
    if (answers.at(-1)?.status !== 429) return;
    t.deepEqual(
      statuses(answers.slice(0, -1)),
      Array.from({ length: signInLimit }, () => 401),
    );
    t.is(answers.at(-1)?.headers.get('ratelimit-policy'), `"sign-in";q=${signInLimit};w=300`);
    t.is((await loginThrough(another)).status, 401);
  });
});

test('behind a trusted proxy only the address that it wrote itself counts', async (t) => {
  await withinOneWindow(300, async () => {
    const address = newAddress();
    const forwarded = () => `${newAddress()}, ${crypto.randomUUID()}, ${address}`;
    t.is((await times(signInLimit + 1, () => loginThrough(forwarded()))).at(-1)?.status, 429);
  });
});

test('without PLINTH_TRUST_PROXY forwarded addresses are not believed', async (t) => {
  await withinOneWindow(300, async () => {
    const answers = await times(signInLimit + 1, () => {
      const [a, b, c] = [newAddress(), newAddress(), newAddress()];
      return login(direct(), { 'x-forwarded-for': a, 'x-real-ip': b, forwarded: `for=${c}` });
    });
    t.is(answers.at(-1)?.status, 429);
  });
});

test('what is no address is not taken for one', async (t) => {
  await withinOneWindow(300, async () => {
    const answers = await times(signInLimit + 1, () => loginThrough(uniqueName('not-an-address').padEnd(1000, 'x')));
    t.is(answers.at(-1)?.status, 429);
  });
});

test('functions, health and metrics have no rate limit', async (t) => {
  for (const path of ['/healthz', '/readyz', '/metrics', '/openapi.json']) {
    const answers = await times(dashboardLimit + 5, () => direct().client.call('GET', path));
    t.deepEqual([...new Set(statuses(answers))], [200], path);
    t.is(answers[0]?.headers.get('ratelimit'), null);
  }
});

test('two API processes count together', async (t) => {
  const { token } = await newAccount();
  const second = createClient(await proxied().startApi());
  const ask = () => second.call('GET', '/auth/me', { token });
  await withinOneWindow(60, async () => {
    await times(dashboardLimit, () => proxied().client.call('GET', '/auth/me', { token }));
    let asked = 1;
    // Counts meet four times a second; each question counts, too.
    while ((await ask()).status !== 429) {
      asked += 1;
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
    t.true(asked < dashboardLimit, `refused only after ${asked}`);
  });
});
