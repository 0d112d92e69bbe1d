import test from 'ava';
import { createRemoteJWKSet, decodeJwt, decodeProtectedHeader, jwtVerify } from 'jose';
import { useAuth } from '#test/auth/auth-scene.ts';
import { newEmail, useOAuth } from './oauth-scene.ts';

const scene = useOAuth(test, useAuth(test));
const { issuer, newClient, proved, signedUp, tokensFor, codeFor, userinfo, exchange, post, platform, project } = scene;

test('a client obtains tokens that say who the user is, and that libraries verify', async (t) => {
  const client = await newClient();
  const email = newEmail();
  const { user } = await proved(undefined, email);
  const { code, verifier, url } = await codeFor(client, email, { nonce: 'a nonce' });
  t.is(url.origin + url.pathname, 'https://app.example.com/callback');
  t.is(url.searchParams.get('state'), 'some state');
  t.is(url.searchParams.get('iss'), issuer());
  const { status, body, headers } = await exchange(client, { code, verifier });
  t.is(status, 200);
  t.is(headers.get('cache-control'), 'no-store');
  t.like(body, { token_type: 'Bearer', expires_in: 3600, scope: 'openid profile email' });
  const keys = createRemoteJWKSet(new URL(`${issuer()}/.well-known/jwks.json`));
  const id = await jwtVerify(body.id_token, keys, { issuer: issuer(), audience: client.client_id });
  t.is(id.protectedHeader.alg, 'RS256');
  t.like(id.payload, { sub: user.id, email, email_verified: true, nonce: 'a nonce', amr: ['pwd'] });
  const access = await jwtVerify(body.access_token, keys, {
    issuer: issuer(),
    audience: `${platform().base}/p/${project().ref}`,
    typ: 'at+jwt',
  });
  t.like(access.payload, { sub: user.id, client_id: client.client_id, role: 'authenticated', aal: 'aal1' });
  const info = await userinfo(body.access_token);
  t.is(info.status, 200, info.text);
  t.like(info.body, { sub: user.id, email, email_verified: true });
});

test('an address that was never proved is told as such, and as proved once a link to it was used', async (t) => {
  const client = await newClient();
  const { user } = await signedUp();
  const first = await tokensFor(client, user.email);
  t.is((await userinfo(first.access_token)).body.email_verified, false);
  t.is(decodeJwt(first.id_token)['email_verified'], false);
  const next = await post('/token', client, { grant_type: 'refresh_token', refresh_token: first.refresh_token });
  t.is(decodeJwt(next.body.id_token)['email_verified'], false);
  const path = `/p/${project().ref}/auth/v1`;
  const { key } = project();
  const body = { type: 'magiclink', email: user.email };
  const link = await platform().client.call('POST', `${path}/admin/generate_link`, { key, body });
  const use = { type: 'magiclink', token_hash: link.body.hashed_token };
  t.is((await scene.ask('POST', '/verify', { body: use })).status, 200);
  t.is((await userinfo(first.access_token)).body.email_verified, true);
  t.is((await scene.signIn(user.email)).status, 200, 'a password that was right before stays so');
  const renamed = await platform().client.call('PUT', `${path}/admin/users/${user.id}`, {
    key,
    body: { user_metadata: { name: 'Ada' } },
  });
  t.is(renamed.status, 200);
  t.is((await userinfo(first.access_token)).body.email_verified, true);
});

test('a refresh token is traded once; the same trade again within 30 s has the same answer', async (t) => {
  const client = await newClient();
  const email = newEmail();
  await signedUp(undefined, email);
  const first = await tokensFor(client, email, { nonce: 'n' });
  const refresh = (token: string, fields = {}) =>
    post('/token', client, { grant_type: 'refresh_token', refresh_token: token, ...fields });
  const second = await refresh(first.refresh_token);
  t.is(second.status, 200, second.text);
  t.not(second.body.refresh_token, first.refresh_token);
  t.deepEqual((await refresh(first.refresh_token)).body, second.body);
  t.like(decodeJwt(second.body.id_token), { nonce: 'n', aud: client.client_id, sub: decodeJwt(first.id_token).sub });
  t.is(decodeProtectedHeader(second.body.access_token).typ, 'at+jwt');
  t.is((await userinfo(second.body.access_token)).status, 200);
  t.is((await refresh(second.body.refresh_token)).status, 200);
  t.is((await refresh(first.refresh_token)).body.error, 'invalid_grant');
  t.is((await refresh(second.body.refresh_token)).body.error, 'invalid_grant');
});

test('a client’s token reads its user’s data, and does not touch the account', async (t) => {
  const email = newEmail();
  await signedUp(undefined, email);
  const { access_token: token } = await tokensFor(await newClient(), email);
  const calls: [string, string, object?][] = [
    ['GET', '/user'],
    ['PUT', '/user', { password: 'another password' }],
    ['PUT', '/user', { email: newEmail() }],
    ['POST', '/logout'],
    ['POST', '/factors', { factor_type: 'totp' }],
    ['GET', '/user/identities/authorize?provider=google'],
    ['DELETE', `/user/identities/${crypto.randomUUID()}`],
  ];
  for (const [method, path, body] of calls) {
    const answer = await scene.ask(method, path, { token, ...(body && { body }) });
    t.deepEqual([answer.status, answer.body.error_code], [403, 'access_denied'], `${method} ${path}`);
  }
  t.is((await scene.signIn(email)).status, 200);
  const rest = `/p/${project().ref}/v1/rest/things`;
  t.is((await platform().client.call('GET', rest, { token })).status, 404);
});
