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

/** Returns the findings of `work` within one window: windows end by the clock, whatever a test does. */
const withinOneWindow = async <T>(seconds: number, work: () => Promise<T>): Promise<T> => {
  const windowNow = (): number => Math.floor(Date.now() / 1000 / seconds);
  for (let tries = 0; tries < 3; tries += 1) {
    const before = windowNow();
    const found = await work();
    if (windowNow() === before) return found;
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

/** A login that fails, from wherever the headers say, each as somebody else: failures are limited by account, too. */
const login = (at: TestPlatform, headers: Readonly<Record<string, string>>): Promise<Answer> =>
  at.client.call('POST', '/auth/login', {
    body: { email: `${uniqueName('nobody')}@example.com`, password: 'wrong password' },
    headers,
  });

const loginThrough = (forwarded: string): Promise<Answer> => login(proxied(), { 'x-forwarded-for': forwarded });

const always = (status: number, count: number): number[] => Array.from({ length: count }, () => status);

test('requests over the limit are 429 with Retry-After and the rate limit headers', async (t) => {
  const answers = await withinOneWindow(60, async () => {
    const { token } = await newAccount();
    return times(dashboardLimit + 1, () => proxied().client.call('GET', '/auth/me', { token }));
  });
  t.deepEqual(statuses(answers), [...always(200, dashboardLimit), 429]);
  const [first, last] = [answers[0]?.headers, answers.at(-1)];
  t.is(first?.get('ratelimit-policy'), `"dashboard";q=${dashboardLimit};w=60`);
  t.regex(first?.get('ratelimit') ?? '', new RegExp(`^"dashboard";r=${dashboardLimit - 1};t=\\d+$`));
  t.is(last?.body.code, 'rate_limited');
  const retryAfter = Number(last?.headers.get('retry-after'));
  t.true(retryAfter >= 1 && retryAfter <= 60);
  t.is(last?.headers.get('ratelimit'), `"dashboard";r=0;t=${retryAfter}`);
  t.is(last?.headers.get('ratelimit-policy'), `"dashboard";q=${dashboardLimit};w=60`);
});

test('a user is counted, not a token', async (t) => {
  const [bySecondToken, byOther] = await withinOneWindow(60, async () => {
    const [{ email, password, token }, other] = [await newAccount(), await newAccount()];
    const headers = { 'x-forwarded-for': newAddress() };
    const again = await proxied().client.call('POST', '/auth/login', { body: { email, password }, headers });
    const ask = (by: string) => proxied().client.call('GET', '/auth/me', { token: by });
    await times(dashboardLimit, () => ask(token));
    return [await ask(again.body.access_token), await ask(other.token)] as const;
  });
  t.is(bySecondToken.status, 429);
  t.is(byOther.status, 200);
});

test('a token that is not valid is not counted as anybody', async (t) => {
  const answers = await times(dashboardLimit + 5, () => proxied().client.call('GET', '/auth/me', { token: 'garbage' }));
  t.deepEqual([...new Set(statuses(answers))], [401]);
});

test('sign-ins are limited by address', async (t) => {
  const [answers, fromElsewhere] = await withinOneWindow(300, async () => {
    const address = newAddress();
    return [await times(signInLimit + 1, () => loginThrough(address)), await loginThrough(newAddress())] as const;
  });
  t.deepEqual(statuses(answers), [...always(401, signInLimit), 429]);
  t.is(answers.at(-1)?.headers.get('ratelimit-policy'), `"sign-in";q=${signInLimit};w=300`);
  t.is(fromElsewhere.status, 401);
});

test('behind a trusted proxy only the address that it wrote itself counts', async (t) => {
  const answers = await withinOneWindow(300, () => {
    const address = newAddress();
    return times(signInLimit + 1, () => loginThrough(`${newAddress()}, ${crypto.randomUUID()}, ${address}`));
  });
  t.is(answers.at(-1)?.status, 429);
});

test('without PLINTH_TRUST_PROXY forwarded addresses are not believed', async (t) => {
  const answers = await withinOneWindow(300, () =>
    times(signInLimit + 1, () => {
      const [a, b, c] = [newAddress(), newAddress(), newAddress()];
      return login(direct(), { 'x-forwarded-for': a, 'x-real-ip': b, forwarded: `for=${c}` });
    }),
  );
  t.is(answers.at(-1)?.status, 429);
});

test('what is no address is not taken for one', async (t) => {
  const answers = await withinOneWindow(300, () =>
    times(signInLimit + 1, () => loginThrough(uniqueName('not-an-address').padEnd(1000, 'x'))),
  );
  t.is(answers.at(-1)?.status, 429);
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
  const requested = await withinOneWindow(60, async () => {
    await times(dashboardLimit, () => proxied().client.call('GET', '/auth/me', { token }));
    let count = 1;
    // Counts meet four times a second; each question counts, too.
    for (; (await ask()).status !== 429; count += 1) await new Promise((resolve) => setTimeout(resolve, 200));
    return count;
  });
  t.true(requested < dashboardLimit, `refused only after ${requested}`);
});
