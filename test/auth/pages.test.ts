import { once } from 'node:events';
import { type Server, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import test from 'ava';
import { fits, inBrowser, useBrowser } from '../ops/browser.ts';
import { newEmail, password } from './auth-scene.ts';
import { useAuthMails } from './mail-scene.ts';

const { app, ask, mailProject, mailsTo, platform, refresh, signIn, signedUp } = useAuthMails(test);
const visit = useBrowser();

/** The user's application: any page. */
let site: Server;
let origin = '';
test.before(async () => {
  site = createServer((_request, response) => {
    response.setHeader('Content-Type', 'text/html');
    response.end('<h1>The application</h1>');
  });
  site.listen(0, '127.0.0.1');
  await once(site, 'listening');
  origin = `http://127.0.0.1:${(site.address() as AddressInfo).port}`;
});
test.after.always(() => site?.close());

/** A link as it stands in the mail, at the address of this platform. */
const hereOf = (url: string): string => url.replace(/^https?:\/\/[^/]+/, platform().base);

const mailed = async (settings: object = {}) => {
  const of = await mailProject({ site_url: `${origin}/`, ...settings });
  const email = newEmail();
  await signedUp(of, email);
  await ask('POST', '/recover', { body: { email } }, of);
  const [mail] = await mailsTo(email);
  return { of, email, url: hereOf(mail?.url ?? ''), token: mail?.token ?? '' };
};

const post = (url: string, token: string, type = 'recovery', headers: Record<string, string> = {}) =>
  fetch(new URL('verify/confirm', url), {
    method: 'POST',
    redirect: 'manual',
    headers: { 'content-type': 'application/x-www-form-urlencoded', ...headers },
    body: new URLSearchParams({ token, type }),
  });

test('opening the link uses nothing up, however often; the form does, once', async (t) => {
  const { of, url, token } = await mailed();
  for (let n = 0; n < 10; n += 1) t.is((await fetch(url)).status, 200);
  const answer = await post(url, token);
  t.is(answer.status, 303);
  const to = new URL(answer.headers.get('location') ?? '');
  t.is(to.origin, origin);
  const values = new URLSearchParams(to.hash.slice(1));
  t.is(values.get('type'), 'recovery');
  t.is((await refresh(values.get('refresh_token') ?? '', of)).status, 200);
  t.is((await post(url, token)).status, 403);
  t.is((await fetch(url)).status, 403);
});

test('the page cannot be framed, loads nothing, tells no referrer and is not cached', async (t) => {
  const { url } = await mailed();
  const { headers } = await fetch(url);
  t.regex(headers.get('content-security-policy') ?? '', /default-src 'none'.*frame-ancestors 'none'/);
  t.is(headers.get('referrer-policy'), 'no-referrer');
  t.is(headers.get('cache-control'), 'no-store');
});

test('a form of another page is refused, and one without a referrer is taken', async (t) => {
  const { url, token } = await mailed();
  t.is((await post(url, token, 'recovery', { origin: 'https://evil.example' })).status, 403);
  t.is((await post(url, token, 'recovery', { 'sec-fetch-site': 'cross-site' })).status, 403);
  t.is((await post(url, token, 'recovery', { origin: 'null' })).status, 303);
});

test('a link that is incomplete, unknown, of another project or of another kind is a page that says so', async (t) => {
  const { url, token } = await mailed();
  const other = await mailed();
  for (const wrong of [
    url.replace(/token=.*/, ''),
    url.replace(/type=\w+/, 'type=x'),
    `${url}x`,
    new URL(other.url).pathname.replace(/^/, platform().base) + new URL(url).search,
  ]) {
    const answer = await fetch(wrong);
    t.is(answer.status, 403, wrong);
    t.regex(await answer.text(), /This link does not work/);
  }
  t.is((await post(url, token, 'signup')).status, 403);
  t.is((await post(url, token)).status, 303);
});

for (const wanted of [
  'https://evil.example/',
  '//evil.example',
  String.raw`/\evil.example`,
  'https:evil.example',
  'https://shop.example@evil.example/',
  'https://shop.example.evil.example/',
  'https://evil.example#https://shop.example/in/x',
  'https://evil.example?https://shop.example/in/x',
  'javascript:alert(1)',
  'data:text/html,x',
  'https://shop.example/in/\t/../../evil',
  'https://shop.example/in/..%2f..%2fevil/../x/y/z',
  'http://shop.example/in/x',
  'https://shop.example:8443/in/x',
  'https://shop.example%00.evil.example/',
  'https://sһop.example/in/x',
  'https://shop.example/in/x/deeper',
])
  test(`a link never leads to ${JSON.stringify(wanted)}`, async (t) => {
    const of = await mailProject({ site_url: `${origin}/`, redirect_allow_list: ['https://shop.example/in/*'] });
    const email = newEmail();
    await signedUp(of, email);
    await ask('POST', `/recover?redirect_to=${encodeURIComponent(wanted)}`, { body: { email } }, of);
    const [mail] = await mailsTo(email);
    const answer = await post(hereOf(mail?.url ?? ''), mail?.token ?? '');
    t.is(new URL(answer.headers.get('location') ?? '').origin, origin);
  });

for (const wanted of ['https://shop.example/in/x', 'HTTPS://SHOP.EXAMPLE/in/x', 'com.example.shop://done'])
  test(`a link leads to ${wanted}, which the settings allow`, async (t) => {
    const list = ['https://shop.example/in/*', 'com.example.shop://done'];
    const of = await mailProject({ site_url: `${origin}/`, redirect_allow_list: list });
    const email = newEmail();
    await signedUp(of, email);
    await ask('POST', `/recover?redirect_to=${encodeURIComponent(wanted)}`, { body: { email } }, of);
    const [mail] = await mailsTo(email);
    const answer = await post(hereOf(mail?.url ?? ''), mail?.token ?? '');
    t.regex(answer.headers.get('location') ?? '', /^(https:\/\/shop\.example\/in\/x|com\.example\.shop:\/\/done)#/);
  });

test('with PKCE the link leads back with a code, which only the browser that asked can trade, once', async (t) => {
  const of = await mailProject({ site_url: `${origin}/` });
  const email = newEmail();
  await signedUp(of, email);
  const { auth } = app(of, of.publishableKey, 'pkce');
  t.is((await auth.resetPasswordForEmail(email)).error, null);
  const [mail] = await mailsTo(email);
  const answer = await post(hereOf(mail?.url ?? ''), mail?.token ?? '');
  const code = new URL(answer.headers.get('location') ?? '').searchParams.get('code') ?? '';
  t.not(code, '');
  const stranger = await ask(
    'POST',
    '/token?grant_type=pkce',
    { body: { auth_code: code, code_verifier: 'x'.repeat(56) } },
    of,
  );
  t.deepEqual([stranger.status, stranger.body.error_code], [400, 'bad_code_verifier']);
  const traded = await auth.exchangeCodeForSession(code);
  t.is(traded.error, null);
  t.is(traded.data.user?.email, email);
  t.is((await auth.updateUser({ password: 'another long password' })).error, null);
  t.is((await signIn(email, password, of)).status, 400);
});

test('a code that is traded 20 times at once is traded once, and that sign-in ends', async (t) => {
  const of = await mailProject({ site_url: `${origin}/` });
  const email = newEmail();
  await signedUp(of, email);
  const verifier = crypto.randomUUID() + crypto.randomUUID();
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(verifier));
  const body = {
    email,
    code_challenge: Buffer.from(digest).toString('base64url'),
    code_challenge_method: 's256',
  };
  await ask('POST', '/otp', { body }, of);
  const [mail] = await mailsTo(email);
  const answer = await post(hereOf(mail?.url ?? ''), mail?.token ?? '', 'magiclink');
  const code = new URL(answer.headers.get('location') ?? '').searchParams.get('code');
  const answers = await Promise.all(
    Array.from({ length: 20 }, () =>
      ask('POST', '/token?grant_type=pkce', { body: { auth_code: code, code_verifier: verifier } }, of),
    ),
  );
  const won = answers.filter(({ status }) => status === 200);
  t.is(won.length, 1);
  t.is((await refresh(won[0]?.body.refresh_token, of)).status, 400);
});

test('a challenge that is not S256 is refused', async (t) => {
  for (const [challenge, method] of [
    ['x'.repeat(43), 'plain'],
    ['short', 's256'],
  ])
    t.is(
      (
        await ask('POST', '/otp', {
          body: { email: newEmail(), code_challenge: challenge, code_challenge_method: method },
        })
      ).status,
      400,
    );
});

inBrowser('the page leads a person on a phone from the mail to the application, without a script', async (t) => {
  const { url } = await mailed();
  const { page, complaints, close } = await visit(url, {
    javaScriptEnabled: false,
    viewport: { width: 360, height: 740 },
  });
  await page.getByRole('heading', { name: 'Go on to a new password' }).waitFor();
  t.true(await fits(page));
  await page.getByRole('button', { name: 'Continue' }).click();
  await page.getByRole('heading', { name: 'The application' }).waitFor();
  t.is(new URL(page.url()).origin, origin);
  t.deepEqual(complaints, []);
  await close();
});
