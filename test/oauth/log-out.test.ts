import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import test from 'ava';
import { createRemoteJWKSet, jwtVerify } from 'jose';
import { useAuth } from '#test/auth/auth-scene.ts';
import { until } from '#test/support/until.ts';
import { Browser } from './browser.ts';
import { newEmail, useOAuth } from './oauth-scene.ts';

const scene = useOAuth(test, useAuth(test));
const { authorize, newClient, signedUp, codeFor, exchange, post, issuer, platform } = scene;

const user = async (): Promise<string> => {
  const email = newEmail();
  await signedUp(undefined, email);
  return email;
};

const after = 'https://app.example.com/after';

test('signing out asks first, then leads on, ends the browser’s session and the client’s tokens', async (t) => {
  const client = await newClient({ post_logout_redirect_uris: [after] });
  const { code, verifier, browser } = await codeFor(client, await user());
  const { body } = await exchange(client, { code, verifier });
  const query = new URLSearchParams({ id_token_hint: body.id_token, post_logout_redirect_uri: after, state: 's' });
  const page = await browser.open(`${issuer()}/logout?${query.toString()}`);
  t.regex(page.text, /Sign out of/);
  const done = await browser.submit(page, '/logout/confirm', { logout: 'yes' });
  t.is(done.url, `${after}?state=s`);
  const again = await authorize(client, { prompt: 'none' }, browser);
  t.is(new URL(again.page.url).searchParams.get('error'), 'login_required');
  const next = { grant_type: 'refresh_token', refresh_token: body.refresh_token };
  t.is((await post('/token', client, next)).status, 400);
});

test('an address that is not registered is not led to, and a form of a stranger signs nobody out', async (t) => {
  const client = await newClient({ post_logout_redirect_uris: [after] });
  const { browser } = await codeFor(client, await user());
  for (const uri of ['https://evil.example/', `${after}/`, 'javascript:alert(1)']) {
    const query = new URLSearchParams({ client_id: client.client_id, post_logout_redirect_uri: uri });
    t.is((await browser.open(`${issuer()}/logout?${query.toString()}`)).status, 400, uri);
  }
  await browser.open(`${issuer()}/logout?client_id=${client.client_id}`);
  t.is((await browser.open(`${issuer()}/logout/confirm`, { logout: 'yes', xsrf: 'x' })).status, 400);
  const { page } = await authorize(client, { prompt: 'none' }, browser);
  t.truthy(new URL(page.url).searchParams.get('code'));
});

test('a client is told of a sign-out in the back', async (t) => {
  const received: string[] = [];
  const server = createServer((request, response) => {
    let text = '';
    request.on('data', (piece: Buffer) => (text += piece.toString()));
    request.on('end', () => {
      received.push(text);
      response.end();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const { port } = server.address() as AddressInfo;
  const client = await newClient({ backchannel_logout_uri: `http://127.0.0.1:${port}/logout` });
  const email = await user();
  const { code, verifier, browser } = await codeFor(client, email);
  const { body } = await exchange(client, { code, verifier });
  const page = await browser.open(`${issuer()}/logout?id_token_hint=${body.id_token}`);
  const done = await browser.submit(page, '/logout/confirm', { logout: 'yes' });
  t.regex(done.text, /You are signed out/);
  await until(() => received.length === 1);
  const token = new URLSearchParams(received[0]).get('logout_token') ?? '';
  const keys = createRemoteJWKSet(new URL(`${issuer()}/.well-known/jwks.json`));
  const { payload } = await jwtVerify(token, keys, { issuer: issuer(), audience: client.client_id, typ: 'logout+jwt' });
  t.like(payload, { sid: JSON.parse(Buffer.from(body.id_token.split('.')[1], 'base64url').toString()).sid });
});

test('a client that is told in the back and does not answer holds nobody up for long', async (t) => {
  const client = await newClient({ backchannel_logout_uri: 'http://127.0.0.1:9/logout' });
  const { browser } = await codeFor(client, await user());
  const page = await browser.open(`${issuer()}/logout?client_id=${client.client_id}`);
  t.regex((await browser.submit(page, '/logout/confirm', { logout: 'yes' })).text, /You are signed out/);
});

test('a device is connected by a code that its user enters elsewhere', async (t) => {
  const client = await newClient({
    application_type: 'native',
    redirect_uris: [],
    grant_types: ['urn:ietf:params:oauth:grant-type:device_code', 'refresh_token'],
  });
  const email = await user();
  const started = await post('/device/authorize', client, { scope: 'openid email' });
  t.is(started.status, 200, started.text);
  t.is(started.body.verification_uri, `${issuer()}/device`);
  const poll = () =>
    post('/token', client, {
      grant_type: 'urn:ietf:params:oauth:grant-type:device_code',
      device_code: started.body.device_code,
    });
  t.is((await poll()).body.error, 'authorization_pending');
  const browser = new Browser(platform().base);
  const form = await browser.open(`${issuer()}/device`);
  const wrong = await browser.submit(form, '/device', { user_code: 'WRONG' });
  t.regex(wrong.text, /This code is wrong/);
  const confirm = await browser.submit(wrong, '/device', { user_code: started.body.user_code });
  t.true(confirm.text.includes(started.body.user_code));
  let page = await browser.submit(confirm, '/device', { confirm: 'yes' });
  page = await browser.submit(page, '/login', { email, password: 'correct horse battery' });
  page = await browser.submit(page, '/consent');
  t.regex(page.text, /Your device is connected/);
  const tokens = await poll();
  t.is(tokens.status, 200, tokens.text);
  t.is((await scene.userinfo(tokens.body.access_token)).body.email, email);
  t.is((await poll()).body.error, 'invalid_grant');
});

test('a device is not connected when its user does not want it', async (t) => {
  const client = await newClient({
    application_type: 'native',
    redirect_uris: [],
    grant_types: ['urn:ietf:params:oauth:grant-type:device_code'],
  });
  const { body } = await post('/device/authorize', client, { scope: 'openid' });
  const browser = new Browser(platform().base);
  const form = await browser.open(`${issuer()}/device`);
  const confirm = await browser.submit(form, '/device', { user_code: body.user_code });
  const stopped = await browser.submit(confirm, '/device', { abort: 'yes' });
  t.regex(stopped.text, /not connected/);
  const grant = 'urn:ietf:params:oauth:grant-type:device_code';
  const poll = await post('/token', client, { grant_type: grant, device_code: body.device_code });
  t.is(poll.body.error, 'access_denied');
});

test('an address of a device’s sign-in that is over is refused with a page', async (t) => {
  const page = await new Browser(platform().base).open(`${issuer()}/device/${crypto.randomUUID()}`);
  t.is(page.status, 400);
  t.regex(page.text, /<html/);
});
