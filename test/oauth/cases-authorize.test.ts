import test from 'ava';
import { useAuth } from '#test/auth/auth-scene.ts';
import { newEmail, redirectUri, useOAuth } from './oauth-scene.ts';

const scene = useOAuth(test, useAuth(test));
const { authorize, newClient, signedUp, codeFor, newProject } = scene;

/** The error that a request for a sign-in leads back with. */
const errorOf = (url: string): string | null => new URL(url).searchParams.get('error');

test('case 4: a request without PKCE leads back with an error', async (t) => {
  const { page } = await authorize(await newClient(), { code_challenge: undefined, code_challenge_method: undefined });
  t.true(page.url.startsWith(redirectUri));
  t.is(errorOf(page.url), 'invalid_request');
  t.is(new URL(page.url).searchParams.get('state'), 'some state');
});

test('cases 5 and 6: the method plain, and none, are refused', async (t) => {
  const client = await newClient();
  for (const method of ['plain', undefined, 's256']) {
    const { page } = await authorize(client, { code_challenge_method: method });
    t.is(errorOf(page.url), 'invalid_request', method ?? 'none');
  }
});

const unlike = [
  `${redirectUri}/`,
  `${redirectUri}?x=1`,
  `${redirectUri}/../callback`,
  'https://app.example.com@evil.example/callback',
  'https://APP.example.com/callback',
  'http://app.example.com/callback',
  'javascript:alert(1)',
  `${redirectUri}#x`,
  'http://localhost/callback',
  'https://app.example.com:443/callback',
  'https://app.example.com.evil.example/callback',
  'https://evil.example/callback',
  '//app.example.com/callback',
  'https://app.example.com/callback%2f..',
  'https://app.example.com\\@evil.example/callback',
];

for (const uri of unlike) {
  test(`case 7: ${uri} is not the registered address, and nobody is led there`, async (t) => {
    const { page } = await authorize(await newClient(), { redirect_uri: uri });
    t.is(page.status, 400);
    t.is(page.headers.get('location'), null);
    t.regex(page.text, /<html/);
    t.false(page.text.includes('evil.example/callback"'));
  });
}

test('a redirect address that comes twice, or not at all, gets a page', async (t) => {
  const client = await newClient();
  t.is((await authorize(client, { redirect_uri: undefined })).page.status, 400);
  const { page, browser } = await authorize(client);
  const twice = new URL(page.url);
  twice.pathname = new URL(scene.issuer()).pathname + '/authorize';
  twice.search = `?client_id=${client.client_id}&redirect_uri=${redirectUri}&redirect_uri=https://evil.example`;
  t.is((await browser.request(twice.href)).status, 400);
});

test('an unknown client, and one of another project, get a page', async (t) => {
  const client = await newClient();
  const other = await newProject();
  t.is((await authorize({ ...client, client_id: crypto.randomUUID() })).page.status, 400);
  const { page } = await authorize(client, {}, undefined, other);
  t.is(page.status, 400);
  t.is(page.headers.get('location'), null);
});

test('case 14: implicit and hybrid answers are refused', async (t) => {
  const client = await newClient();
  for (const type of ['token', 'id_token', 'code id_token', 'code token', 'none']) {
    const { page } = await authorize(client, { response_type: type, nonce: 'n' });
    t.regex(
      decodeURIComponent(page.url),
      /error=(unsupported_response_type|unauthorized_client|invalid_request)/,
      type,
    );
  }
});

test('case 15: markup in the state is only ever percent-encoded', async (t) => {
  const email = newEmail();
  await signedUp(undefined, email);
  const state = `"><script>alert(1)</script>'`;
  const client = await newClient();
  const { page } = await authorize(client, { state });
  t.false(page.text.includes('<script>alert'));
  const { url } = await codeFor(client, email, { state });
  t.is(url.searchParams.get('state'), state);
  t.false(url.href.includes('<script>'));
});

test('case 16: prompt=none without a session leads back with login_required', async (t) => {
  const { page } = await authorize(await newClient(), { prompt: 'none' });
  t.is(errorOf(page.url), 'login_required');
});

test('prompt=none with a session and what was allowed before needs no page', async (t) => {
  const email = newEmail();
  await signedUp(undefined, email);
  const client = await newClient();
  const { browser } = await codeFor(client, email);
  const { page } = await authorize(client, { prompt: 'none' }, browser);
  t.truthy(new URL(page.url).searchParams.get('code'));
});

test('prompt=login and an old sign-in with max_age ask again', async (t) => {
  const email = newEmail();
  await signedUp(undefined, email);
  const client = await newClient();
  const { browser } = await codeFor(client, email);
  for (const params of [{ prompt: 'login' }, { max_age: '0' }]) {
    const { page } = await authorize(client, params, browser);
    t.regex(page.text, /name="password"/, JSON.stringify(params));
  }
});

test('case 17: a request object is refused', async (t) => {
  const none = `${Buffer.from('{"alg":"none"}').toString('base64url')}.${Buffer.from('{}').toString('base64url')}.`;
  const { page } = await authorize(await newClient(), { request: none });
  t.is(errorOf(page.url), 'request_not_supported');
});

test('case 33: a resource that is none of ours is refused', async (t) => {
  const { page } = await authorize(await newClient(), { resource: 'https://other.example/api' });
  t.is(errorOf(page.url), 'invalid_target');
});

test('a scope that the client may not ask for is refused', async (t) => {
  const client = await newClient({ scopes: ['openid'] });
  const { page } = await authorize(client, { scope: 'openid email' });
  t.is(errorOf(page.url), 'invalid_scope');
});

test('a user who does not go on is led back with access_denied', async (t) => {
  const started = await authorize(await newClient());
  const back = await started.browser.submit(started.page, '/abort');
  t.is(errorOf(back.url), 'access_denied');
  t.is(new URL(back.url).searchParams.get('iss'), scene.issuer());
});

test('a user who does not allow what is asked for is led back with access_denied', async (t) => {
  const email = newEmail();
  await signedUp(undefined, email);
  const { browser, page } = await authorize(await newClient());
  const consent = await browser.submit(page, '/login', { email, password: 'correct horse battery' });
  t.regex(consent.text, /See your e-mail address/);
  const back = await browser.submit(consent, '/abort');
  t.is(errorOf(back.url), 'access_denied');
});

test('an address with a scheme of an application, and loopback with any port, are led back to', async (t) => {
  const email = newEmail();
  await signedUp(undefined, email);
  const own = await newClient({ application_type: 'native', redirect_uris: ['com.example.app:/callback'] });
  t.is(own.client_secret, null);
  t.true((await codeFor(own, email)).url.href.startsWith('com.example.app:/callback?'));
  const local = await newClient({ application_type: 'native', redirect_uris: ['http://127.0.0.1/callback'] });
  const { url } = await codeFor(local, email, { redirect_uri: 'http://127.0.0.1:5123/callback' });
  t.is(url.origin, 'http://127.0.0.1:5123');
});
