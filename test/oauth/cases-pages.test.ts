import test from 'ava';
import { SignJWT } from 'jose';
import { createSigningKeys } from '#domain/end-users/keys.ts';
import { findProject } from '#domain/projects/store.ts';
import { openKeyRing } from '#lib/secrets.ts';
import { codeOf } from '#test/auth/totp.ts';
import { useAuthMails } from '#test/auth/mail-scene.ts';
import { Browser, formOf } from './browser.ts';
import { newEmail, password, useOAuth } from './oauth-scene.ts';

const mails = useAuthMails(test);
const scene = useOAuth(test, mails);
const { ask, authorize, newClient, signedUp, codeFor, exchange, post, tokensFor, userinfo, platform, issuer } = scene;

const codeIn = (url: string): string | null => new URL(url).searchParams.get('code');

test('case 25: a form without its token, with a wrong one, or from another page signs nobody in', async (t) => {
  const email = newEmail();
  await signedUp(undefined, email);
  const { browser, page } = await authorize(await newClient());
  const { action, fields } = formOf(page, '/login');
  const good = { ...fields, email, password };
  const attempts: [Record<string, string>, Record<string, string>][] = [
    [{ email, password }, {}],
    [{ ...good, form: '' }, {}],
    [{ ...good, form: 'x'.repeat(43) }, {}],
    [good, { origin: 'https://evil.example' }],
    [good, { 'sec-fetch-site': 'cross-site' }],
  ];
  for (const [sent, headers] of attempts) t.is((await browser.request(action, sent, headers)).status, 403);
  t.is((await browser.request(action, good, { origin: 'null' })).status, 303);
});

test('case 26: no page can be framed, tells where it came from, or is cached', async (t) => {
  const email = newEmail();
  await signedUp(undefined, email);
  const client = await newClient();
  const { browser, page } = await authorize(client);
  const consent = await browser.submit(page, '/login', { email, password });
  const { browser: signedIn } = await codeFor(client, email);
  const pages = [
    page,
    consent,
    await browser.request(`${page.url}?view=signup`),
    await browser.request(`${page.url}?view=forgot`),
    (await authorize(client, { redirect_uri: 'https://evil.example' })).page,
    await signedIn.open(`${issuer()}/logout?client_id=${client.client_id}`),
    await new Browser(platform().base).open(`${issuer()}/logout`),
    await new Browser(platform().base).open(`${issuer()}/logout/success`),
    await signedIn.open(`${issuer()}/device`),
    await new Browser(platform().base).open(page.url),
  ];
  for (const { url, headers } of pages) {
    const policy = headers.get('content-security-policy') ?? '';
    t.regex(policy, /default-src 'none'.*frame-ancestors 'none'/, url);
    t.false(policy.includes('unsafe'), url);
    t.is(headers.get('x-frame-options'), 'DENY', url);
    t.is(headers.get('referrer-policy'), 'no-referrer', url);
    t.is(headers.get('cache-control'), 'no-store', url);
  }
});

test('case 28: an unknown address and a wrong password have the same page', async (t) => {
  const email = newEmail();
  await signedUp(undefined, email);
  const pages = [];
  for (const tried of [email, newEmail()]) {
    const { browser, page } = await authorize(await newClient());
    const answer = await browser.submit(page, '/login', { email: tried, password: 'wrong password' });
    t.is(answer.status, 400);
    pages.push(
      answer.text.replaceAll(tried, 'ADDRESS').replaceAll(/interaction\/[\w-]+|name="form" value="[^"]*"/g, ''),
    );
  }
  t.is(pages[0], pages[1]);
});

test('case 28: asking for a link has the same answer for a known and an unknown address', async (t) => {
  const of = await mails.mailProject();
  const email = newEmail();
  await signedUp(of, email);
  const client = await newClient({}, of);
  const pages = [];
  for (const tried of [email, newEmail()]) {
    const { browser, page } = await authorize(client, {}, undefined, of);
    const answer = await browser.submit(await browser.open(`${page.url}?view=forgot`), '/forgot', { email: tried });
    t.is(answer.status, 200);
    pages.push(
      answer.text.replaceAll(tried, 'ADDRESS').replaceAll(/interaction\/[\w-]+|name="form" value="[^"]*"/g, ''),
    );
  }
  t.is(pages[0], pages[1]);
});

test('case 29: a link sets a new password once, within 30 minutes, and ends all sign-ins', async (t) => {
  const of = await mails.mailProject();
  const email = newEmail();
  const session = await signedUp(of, email);
  const client = await newClient({}, of);
  const tokens = await tokensFor(client, email, {}, of);
  const { browser, page } = await authorize(client, {}, undefined, of);
  await browser.submit(await browser.open(`${page.url}?view=forgot`), '/forgot', { email });
  const [mail] = await mails.mailsTo(email);
  t.true((mail?.token.length ?? 0) >= 43);
  const form = await browser.open((mail?.url ?? '').replace(/^https?:\/\/[^/]+/, platform().base));
  const weak = await browser.submit(form, 'confirm', { password: 'short', repeated: 'short' });
  t.is(weak.status, 422);
  t.is((await browser.submit(weak, 'confirm', { password: 'a new password', repeated: 'another' })).status, 422);
  const done = await browser.submit(weak, 'confirm', { password: 'a new password', repeated: 'a new password' });
  t.is(done.status, 200);
  t.is((await browser.submit(weak, 'confirm', { password: 'a new password', repeated: 'a new password' })).status, 403);
  t.is((await scene.refresh(session.refresh_token, of)).status, 400);
  const next = { grant_type: 'refresh_token', refresh_token: tokens.refresh_token };
  t.is((await post('/token', client, next, { of })).status, 400);
  t.is((await userinfo(tokens.access_token, of)).status, 401);
  t.is((await scene.signIn(email, password, of)).status, 400);
  t.is((await scene.signIn(email, 'a new password', of)).status, 200);
});

test('case 30: signing in gives the browser another session, and one that was planted stays nobody’s', async (t) => {
  const email = newEmail();
  await signedUp(undefined, email);
  const client = await newClient();
  const started = await authorize(client);
  const path = new URL(issuer()).pathname;
  started.browser.setCookie('_session', 'planted-by-a-stranger', path);
  await scene.signInAt(started, email);
  const mine = started.browser.cookie('_session');
  t.truthy(mine);
  t.not(mine, 'planted-by-a-stranger');
  const stranger = new Browser(platform().base);
  stranger.setCookie('_session', 'planted-by-a-stranger', path);
  const { page } = await authorize(client, { prompt: 'none' }, stranger);
  t.is(new URL(page.url).searchParams.get('error'), 'login_required');
  const before = started.browser.cookie('_session');
  const again = await authorize(client, { prompt: 'login' }, started.browser);
  await scene.signInAt(again, email);
  t.not(started.browser.cookie('_session'), before);
});

test('case 31: an interaction of one project opens nothing in another, nor in another browser', async (t) => {
  const other = await scene.newProject();
  const { browser, page } = await authorize(await newClient());
  const there = page.url.replace(scene.project().id, other.id);
  t.is((await browser.request(there)).status, 400);
  const uid = page.url.split('/').at(-1) ?? '';
  browser.setCookie('_interaction', uid, new URL(there).pathname);
  t.is((await browser.request(there)).status, 400);
  t.is((await new Browser(platform().base).request(page.url)).status, 400);
});

test('case 32: no answer has an address that a Host header chose', async (t) => {
  const client = await newClient();
  const { page } = await authorize(client);
  const url = new URL(`${issuer()}/authorize`);
  url.search = new URL(page.url).search;
  const { request } = await import('node:http');
  const answerOf = (path: string): Promise<string> =>
    new Promise((resolve, reject) => {
      const { hostname, port } = new URL(platform().base);
      request({ hostname, port, path, headers: { host: 'evil.example', accept: 'text/html' } }, (response) => {
        let text = JSON.stringify(response.headers);
        response.on('data', (piece: Buffer) => (text += piece.toString()));
        response.on('end', () => resolve(text));
      })
        .on('error', reject)
        .end();
    });
  const root = new URL(issuer()).pathname;
  const query = new URLSearchParams({
    client_id: client.client_id,
    redirect_uri: client.redirect_uris[0] ?? '',
    response_type: 'code',
    scope: 'openid',
    code_challenge: 'x'.repeat(43),
    code_challenge_method: 'S256',
  }).toString();
  for (const path of ['/.well-known/openid-configuration', `/authorize?${query}`, '/logout', '/device', '/userinfo'])
    t.false((await answerOf(root + path)).includes('evil.example'), path);
});

test('case 34: a banned user’s tokens end, and a deleted one’s', async (t) => {
  const client = await newClient();
  for (const end of ['ban', 'delete']) {
    const email = newEmail();
    const { user } = await signedUp(undefined, email);
    const { code, verifier } = await codeFor(client, email);
    const tokens = await tokensFor(client, email);
    const path = `/projects/${scene.project().id}/users/${user.id}`;
    const { token } = scene.developer();
    const until = new Date(Date.now() + 3_600_000).toISOString();
    if (end === 'ban') await platform().client.call('POST', `${path}/ban`, { token, body: { until } });
    else await platform().client.call('DELETE', path, { token });
    t.is((await userinfo(tokens.access_token)).status, 401, end);
    const next = { grant_type: 'refresh_token', refresh_token: tokens.refresh_token };
    t.is((await post('/token', client, next)).status, 400, end);
    t.is((await exchange(client, { code, verifier })).status, 400, end);
  }
});

test('case 35: a token is good for 15 s after its end, for clocks that differ, and not longer', async (t) => {
  const client = await newClient();
  const email = newEmail();
  await signedUp(undefined, email);
  const { access_token: token } = await tokensFor(client, email);
  const of = await findProject(platform().db, scene.project().id);
  if (of === undefined) return t.fail();
  const keyRing = openKeyRing(platform().config.PLINTH_SECRET_KEYS);
  const keys = createSigningKeys(platform().db, ({ id, data_key }) => keyRing.sealerFor(id, data_key));
  const { id, key } = await keys.of(of, 'RS256');
  const claims = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as object;
  const ended = (seconds: number) =>
    new SignJWT({ ...claims, exp: Math.floor(Date.now() / 1000) - seconds })
      .setProtectedHeader({ alg: 'RS256', typ: 'at+jwt', kid: id })
      .sign(key);
  t.is((await userinfo(await ended(5))).status, 200);
  t.is((await userinfo(await ended(30))).status, 401);
});

test('a second factor is asked for after the password, and its code works once', async (t) => {
  const email = newEmail();
  const session = await signedUp(undefined, email);
  const { token } = { token: session.access_token };
  const factor = (await ask('POST', '/factors', { token, body: { factor_type: 'totp' } })).body;
  const challenge = (await ask('POST', `/factors/${factor.id}/challenge`, { token, body: {} })).body;
  const body = { challenge_id: challenge.id, code: codeOf(factor.totp.secret) };
  t.is((await ask('POST', `/factors/${factor.id}/verify`, { token, body })).status, 200);
  const client = await newClient();
  const { browser, page, verifier } = await authorize(client);
  const second = await browser.submit(page, '/login', { email, password });
  t.regex(second.text, /one-time-code/);
  t.is((await browser.submit(second, '/factor', { code: '000000' })).status, 422);
  const code = codeOf(factor.totp.secret, 1);
  let next = await browser.submit(second, '/factor', { code });
  next = await browser.submit(next, '/consent');
  const { body: tokens } = await exchange(client, { code: codeIn(next.url) ?? '', verifier });
  const claims = JSON.parse(Buffer.from(tokens.access_token.split('.')[1], 'base64url').toString());
  t.like(claims, { aal: 'aal2', amr: ['pwd', 'otp', 'mfa'] });
  const other = await authorize(client);
  const again = await other.browser.submit(other.page, '/login', { email, password });
  t.is((await other.browser.submit(again, '/factor', { code })).status, 422);
});

test('the second step of another sign-in is not this one’s', async (t) => {
  const { browser, page } = await authorize(await newClient());
  const { action, fields } = formOf(page, '/login');
  const forged = { ...fields, half: 'AAAA', code: '123456' };
  t.is((await browser.request(action.replace('/login', '/factor'), forged)).status, 422);
});

test('somebody new creates an account on the page and comes back signed in', async (t) => {
  const client = await newClient();
  const email = newEmail();
  const { browser, page, verifier } = await authorize(client);
  const form = await browser.open(`${page.url}?view=signup`);
  t.is((await browser.submit(form, '/signup', { email, password, repeated: 'other' })).status, 400);
  t.is((await browser.submit(form, '/signup', { email, password: 'short', repeated: 'short' })).status, 422);
  let next = await browser.submit(form, '/signup', { email, password, repeated: password });
  next = await browser.submit(next, '/consent');
  const { body } = await exchange(client, { code: codeIn(next.url) ?? '', verifier });
  t.is((await userinfo(body.access_token)).body.email, email);
});

test('a page says what its user can do when the project requires a second factor', async (t) => {
  const of = await scene.newProject();
  const { user } = await signedUp(of);
  const client = await newClient({}, of);
  const path = `/projects/${of.id}/auth/settings`;
  await platform().client.call('PATCH', path, { token: scene.developer().token, body: { mfa: 'required' } });
  const { browser, page } = await authorize(client, {}, undefined, of);
  const signIn = await browser.submit(page, '/login', { email: user.email, password });
  t.regex(signIn.text, /needs a second factor/);
  const fields = { email: newEmail(), password, repeated: password };
  const signUp = await browser.submit(await browser.open(`${page.url}?view=signup`), '/signup', fields);
  t.regex(signUp.text, /needs a second factor/);
});

test('the pages are in the language that is asked for, in the project’s name and colour', async (t) => {
  const of = await scene.newProject();
  const { client } = platform();
  const branding = { logo_url: 'https://cdn.example/logo.svg', color: '#ffcc00' };
  const path = `/projects/${of.id}/auth/settings`;
  const { token } = scene.developer();
  t.is((await client.call('PATCH', path, { token, body: { branding } })).status, 200);
  for (const wrong of [{ color: 'red' }, { color: '#fff' }, { logo_url: 'http://cdn.example/x' }, { logo_url: 'x' }])
    t.is((await client.call('PATCH', path, { token, body: { branding: wrong } })).status, 400);
  const app = await newClient({}, of);
  const german = await authorize(app, { ui_locales: 'fr de' }, undefined, of);
  t.regex(german.page.text, /<html lang="de">[^]*Passwort vergessen/);
  t.regex(german.page.text, /#ffcc00;color:#000000/);
  t.regex(german.page.text, /cdn\.example\/logo\.svg/);
  t.regex(german.page.headers.get('content-security-policy') ?? '', /img-src https:\/\/cdn\.example;/);
  const browser = new Browser(platform().base, { 'accept-language': 'de-AT,de;q=0.8' });
  t.regex((await authorize(app, {}, browser, of)).page.text, /<html lang="de">/);
  t.regex((await authorize(app, {}, undefined, of)).page.text, /<html lang="en">/);
});
