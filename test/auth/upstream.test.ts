import test from 'ava';
import { Browser } from '../oauth/browser.ts';
import { useOAuth } from '../oauth/oauth-scene.ts';
import { newEmail, password, useAuth } from './auth-scene.ts';
import { codeOf } from './totp.ts';
import { landing, site, tokensIn, useUpstream } from './upstream-scene.ts';

const scene = useOAuth(test, useAuth(test));
const { app, ask, developer, newProject, platform, proved, signedUp, signIn, newClient, issuer } = scene;

const { manage, withSite, callbackOf, withIssuer, roundTrip, startLink, finishLink, userOf } = useUpstream(scene);

test('supabase-js signs a user in with another project as the provider, by PKCE, twice as the same user', async (t) => {
  const [of, company] = [await withSite(), await newProject()];
  const client = await newClient({ redirect_uris: [callbackOf(of)] }, company);
  const provider = { client_id: client.client_id, client_secret: client.client_secret, issuer: issuer(company) };
  t.is((await manage(of, 'PUT', '/providers/company', provider)).status, 200);
  const email = newEmail();
  await proved(company, email);
  const ids = [];
  for (let n = 0; n < 2; n += 1) {
    const supabase = app(of, of.publishableKey, 'pkce');
    const options = { skipBrowserRedirect: true, redirectTo: landing };
    const { data } = await supabase.auth.signInWithOAuth({ provider: 'company' as 'google', options });
    const browser = new Browser(platform().base);
    const consent = await browser.submit(await browser.open(data.url ?? ''), '/login', { email, password });
    const back = await browser.submit(consent, '/consent');
    t.true(back.url.startsWith(`${landing}?code=`), back.url);
    const code = new URL(back.url).searchParams.get('code') ?? '';
    const { data: session, error } = await supabase.auth.exchangeCodeForSession(code);
    t.is(error, null);
    t.is(session.user?.email, email);
    t.deepEqual(session.user?.app_metadata, { provider: 'company', providers: ['company'] });
    t.is(session.user?.identities?.[0]?.provider, 'company');
    ids.push(session.user?.id);
  }
  t.is(new Set(ids).size, 1);
  t.is((await ask('GET', '/settings', {}, of)).body.external.company, true);
});

test('the implicit flow leads back with the tokens; an address that is not verified is nobody’s', async (t) => {
  const { of, upstream } = await withIssuer();
  t.teardown(upstream.close);
  const email = newEmail();
  const { at, to } = await roundTrip(of, upstream, { email, name: 'Ada' });
  t.is(at.origin + at.pathname, landing);
  t.is(to.searchParams.get('code_challenge_method'), 'S256');
  t.is(upstream.forms[0]?.get('client_secret'), 'the secret');
  const user = await userOf(of, at);
  t.like(user, { email: null, user_metadata: { name: 'Ada' } });
  t.is(user.identities[0].identity_data.email, email);
  t.is((await signedUp(of, email)).user.email, email);
});

test('accounts are linked by a verified address only, and only where the project says so', async (t) => {
  const { of, upstream } = await withIssuer();
  t.teardown(upstream.close);
  const { user } = await proved(of);
  const claims = { email: user.email, email_verified: true };
  const refused = await roundTrip(of, upstream, claims);
  t.is(refused.at.searchParams.get('error_code'), 'email_exists');
  const body = { client_id: 'the client', client_secret: '••••', issuer: upstream.url, link_by_verified_email: true };
  t.is((await manage(of, 'PUT', '/providers/company', body)).status, 400);
  t.is((await manage(of, 'PUT', '/providers/company', { ...body, client_secret: 'the secret' })).status, 200);
  const unverified = await roundTrip(of, upstream, { ...claims, email_verified: false, sub: 'a stranger' });
  t.not((await userOf(of, unverified.at)).id, user.id);
  const linked = await roundTrip(of, upstream, claims);
  t.is((await userOf(of, linked.at)).id, user.id);
  t.is((await userOf(of, linked.at)).identities.length, 2);
});

test('an address that nobody confirmed is not linked', async (t) => {
  const { of, upstream } = await withIssuer({ link_by_verified_email: true });
  t.teardown(upstream.close);
  const email = newEmail();
  const body = { email, email_verified: false };
  const made = await platform().client.call('POST', `/projects/${of.id}/users`, { token: developer().token, body });
  t.is(made.status, 201, made.text);
  const { at } = await roundTrip(of, upstream, { email, email_verified: true });
  t.is(at.searchParams.get('error_code'), 'email_exists', at.href);
});

const wrongTokens: Readonly<Record<string, Record<string, unknown>>> = {
  'another nonce': { nonce: 'another' },
  'no nonce': { nonce: undefined },
  'another audience': { aud: 'somebody else' },
  'another issuer': { iss: 'https://accounts.google.com' },
  'an end in the past': { exp: 1 },
  'no subject': { sub: undefined },
  'a subject of 300 characters': { sub: 'x'.repeat(300) },
  'NUL in its subject': { sub: 'a\u0000b' },
};

for (const [what, claims] of Object.entries(wrongTokens)) {
  test(`an id token with ${what} signs nobody in`, async (t) => {
    const { of, upstream } = await withIssuer();
    t.teardown(upstream.close);
    const { at } = await roundTrip(of, upstream, claims);
    t.is(at.origin, site);
    t.is(at.searchParams.get('error'), 'server_error');
    t.is(tokensIn(at).get('access_token'), null);
  });
}

for (const alg of ['none', 'stranger'] as const) {
  test(`an id token that is signed by ${alg} signs nobody in`, async (t) => {
    const { of, upstream } = await withIssuer();
    t.teardown(upstream.close);
    upstream.alg = alg;
    t.is((await roundTrip(of, upstream)).at.searchParams.get('error'), 'server_error');
  });
}

test('a state works once, in its own browser and project alone', async (t) => {
  const { of, upstream } = await withIssuer();
  t.teardown(upstream.close);
  const { back, browser } = await roundTrip(of, upstream);
  t.is((await browser.request(back.href)).status, 404);
  const other = await withIssuer();
  t.teardown(other.upstream.close);
  const sent = await browser.request(
    `${platform().base}/p/${of.ref}/auth/v1/authorize?provider=company&redirect_to=${landing}`,
  );
  const state = new URL(sent.headers.get('location') ?? '').searchParams.get('state') ?? '';
  const query = `?state=${state}&code=x`;
  t.is((await browser.request(callbackOf(other.of) + query)).status, 404);
  t.is((await new Browser(platform().base).request(callbackOf(of) + query)).status, 404);
  t.is((await browser.request(`${callbackOf(of)}?state=made-up&code=x`)).status, 404);
});

test('a refusal of the provider, and an answer of another issuer, reach the application', async (t) => {
  const { of, upstream } = await withIssuer();
  t.teardown(upstream.close);
  const refused = await roundTrip(
    of,
    upstream,
    {},
    {
      change: (url) => {
        url.searchParams.delete('code');
        url.searchParams.set('error', 'access_denied');
        url.searchParams.set('error_description', 'no, thanks');
        return url;
      },
    },
  );
  t.is(refused.at.searchParams.get('error_description'), 'no, thanks');
  t.is(tokensIn(refused.at).get('error'), 'access_denied');
  const mixed = await roundTrip(
    of,
    upstream,
    {},
    {
      change: (url) => {
        url.searchParams.set('iss', 'https://evil.example');
        return url;
      },
    },
  );
  t.is(mixed.at.searchParams.get('error'), 'server_error');
});

test('a provider that is away, answers nonsense or far too much signs nobody in', async (t) => {
  const { of, upstream } = await withIssuer();
  t.teardown(upstream.close);
  for (const body of ['nonsense', '{}', JSON.stringify({ access_token: 'x'.repeat(2_000_000) })]) {
    upstream.answer = () => ({ status: 200, body });
    t.is((await roundTrip(of, upstream)).at.searchParams.get('error'), 'server_error');
  }
  upstream.answer = () => ({ status: 500, body: 'broken' });
  t.is((await roundTrip(of, upstream)).at.searchParams.get('error'), 'server_error');
  for (const address of ['http://127.0.0.1:9', 'http://169.254.169.254', 'https://10.0.0.1']) {
    await manage(of, 'PUT', '/providers/company', { client_id: 'c', client_secret: 'the secret', issuer: address });
    const path = `/p/${of.ref}/auth/v1/authorize?provider=company&redirect_to=${landing}`;
    t.is((await fetch(platform().base + path, { redirect: 'manual' })).status, 422, address);
  }
});

test('nobody is led to an address that the settings do not name', async (t) => {
  const { of, upstream } = await withIssuer();
  t.teardown(upstream.close);
  const { at } = await roundTrip(of, upstream, {}, { more: '&redirect_to=https://evil.example/' });
  t.is(at.origin, site);
  await manage(of, 'PATCH', '/settings', { site_url: null, redirect_allow_list: [] });
  const path = `/p/${of.ref}/auth/v1/authorize?provider=company&redirect_to=https://evil.example/`;
  t.is((await fetch(platform().base + path, { redirect: 'manual' })).status, 400);
});

test('nobody new signs in where sign-up is closed, and a banned user does not', async (t) => {
  const { of, upstream } = await withIssuer({}, { signup: 'invite' });
  t.teardown(upstream.close);
  t.is((await roundTrip(of, upstream)).at.searchParams.get('error_code'), 'signup_disabled');
  await manage(of, 'PATCH', '/settings', { signup: 'open' });
  const user = await userOf(of, (await roundTrip(of, upstream)).at);
  const until = new Date(Date.now() + 3_600_000).toISOString();
  const path = `/projects/${of.id}/users/${user.id}/ban`;
  await platform().client.call('POST', path, { token: developer().token, body: { until } });
  t.is((await roundTrip(of, upstream)).at.searchParams.get('error_code'), 'user_banned');
});

test('a user adds a provider and takes ways to sign in away, but for the last one', async (t) => {
  const { of, upstream } = await withIssuer();
  t.teardown(upstream.close);
  const { user, access_token: token } = await signedUp(of);
  await finishLink(of, upstream, (await startLink(of, token)).body.url);
  const present = (await ask('GET', '/user', { token }, of)).body;
  t.is(present.id, user.id);
  t.is(present.identities.length, 2);
  t.deepEqual(present.app_metadata, { provider: 'email', providers: ['email', 'company'] });
  const [first, second] = present.identities as { identity_id: string }[];
  const remove = (id = '', by = token) => ask('DELETE', `/user/identities/${id}`, { token: by }, of);
  const stranger = await signedUp(of);
  t.is((await remove(first?.identity_id, stranger.access_token)).status, 404);
  const both = await Promise.all([remove(first?.identity_id), remove(second?.identity_id)]);
  t.is(both.filter(({ status }) => status === 200).length, 1);
  t.is(both.filter(({ status }) => status === 422).length, 1);
  const { app_metadata: metadata, identities } = (await ask('GET', '/user', { token }, of)).body;
  const { provider } = identities[0];
  t.deepEqual(metadata, { provider, providers: [provider] });
});

test('an identity belongs to one user', async (t) => {
  const { of, upstream } = await withIssuer();
  t.teardown(upstream.close);
  await roundTrip(of, upstream);
  const { access_token: token } = await signedUp(of);
  const at = await finishLink(of, upstream, (await startLink(of, token)).body.url);
  t.is(at.searchParams.get('error_code'), 'identity_already_exists');
});

test('an address that a sign-up alone made count is linked to nobody', async (t) => {
  const { of, upstream } = await withIssuer({ link_by_verified_email: true });
  t.teardown(upstream.close);
  const planted = await signedUp(of);
  const moved = await signedUp(of);
  const victim = newEmail();
  t.is((await ask('PUT', '/user', { token: moved.access_token, body: { email: victim } }, of)).status, 200);
  for (const email of [planted.user.email, victim]) {
    const { at } = await roundTrip(of, upstream, { email, email_verified: true, sub: email });
    t.is(at.searchParams.get('error_code'), 'email_exists', email);
  }
});

test('a token whose sign-in has ended adds no provider, takes none away, and signs nobody out', async (t) => {
  const { of, upstream } = await withIssuer();
  t.teardown(upstream.close);
  const { access_token: token, user } = await signedUp(of);
  const started = (await startLink(of, token)).body.url;
  t.is((await ask('POST', '/logout?scope=local', { token }, of)).status, 204);
  t.is((await startLink(of, token)).body.error_code, 'session_not_found');
  const at = await finishLink(of, upstream, started);
  t.is(at.searchParams.get('error_code'), 'session_not_found');
  const fresh = (await signIn(user.email, password, of)).body;
  const { identities } = (await ask('GET', '/user', { token: fresh.access_token }, of)).body;
  t.is(identities.length, 1);
  const path = `/user/identities/${identities[0].identity_id}`;
  t.is((await ask('DELETE', path, { token }, of)).body.error_code, 'session_not_found');
  t.is((await ask('POST', '/logout', { token }, of)).status, 403);
  t.is((await ask('GET', '/user', { token: fresh.access_token }, of)).status, 200);
});

test('with a second factor the password alone adds and takes away no provider', async (t) => {
  const { of, upstream } = await withIssuer();
  t.teardown(upstream.close);
  const { access_token: token, user } = await signedUp(of);
  await finishLink(of, upstream, (await startLink(of, token)).body.url);
  const { auth } = app(of);
  await auth.signInWithPassword({ email: user.email, password });
  const { data: factor } = await auth.mfa.enroll({ factorType: 'totp' });
  if (factor?.type !== 'totp') return t.fail();
  t.is((await auth.mfa.challengeAndVerify({ factorId: factor.id, code: codeOf(factor.totp.secret) })).error, null);
  const half = (await signIn(user.email, password, of)).body;
  t.is((await startLink(of, half.access_token)).body.error_code, 'insufficient_aal');
  const { identities } = (await ask('GET', '/user', { token: half.access_token }, of)).body;
  for (const { identity_id: id } of identities)
    t.is((await ask('DELETE', `/user/identities/${id}`, { token: half.access_token }, of)).status, 403);
});

test('once the address is no way to sign in any more, its password is none either', async (t) => {
  const { of, upstream } = await withIssuer();
  t.teardown(upstream.close);
  const { access_token: token, user } = await signedUp(of);
  await finishLink(of, upstream, (await startLink(of, token)).body.url);
  const { identities } = (await ask('GET', '/user', { token }, of)).body as {
    identities: { identity_id: string; provider: string }[];
  };
  const own = identities.find(({ provider }) => provider === 'email');
  t.is((await ask('DELETE', `/user/identities/${own?.identity_id}`, { token }, of)).status, 200);
  t.is((await signIn(user.email, password, of)).status, 400);
});

test('providers are listed without their secrets, which are nowhere in the clear', async (t) => {
  const { of, upstream } = await withIssuer({ client_secret: 'a-secret-of-the-provider-0123' });
  t.teardown(upstream.close);
  const list = await manage(of, 'GET', '/providers');
  t.like(list.body.providers[0], { provider: 'company', client_id: 'the client', enabled: true });
  const rows = await platform().db.query(
    `select (select json_agg(p)::text from auth_providers p where project_id = $1) ||
       (select json_agg(a)::text from audit_entries a where project_id = $1) as text`,
    [of.id],
  );
  t.false((list.text + JSON.stringify(rows)).includes('a-secret-of-the-provider-0123'));
  for (const [name, body] of [
    ['unknown', { client_id: 'a', client_secret: 'b' }],
    ['company', { client_id: '', client_secret: 'b', issuer: upstream.url }],
    ['company', { client_id: 'a', client_secret: 'b', issuer: 'ftp://x' }],
  ] as const)
    t.is((await manage(of, 'PUT', `/providers/${name}`, body)).status, 400, JSON.stringify(body));
  const upper = { client_id: 'a', client_secret: 'b', issuer: upstream.url };
  t.is((await manage(of, 'PUT', '/providers/Company', upper)).status, 404);
  t.is((await manage(of, 'PUT', '/providers/google', { client_id: 'a', client_secret: 'b' })).status, 200);
  t.is((await manage(of, 'DELETE', '/providers/company')).status, 204);
  t.is((await manage(of, 'DELETE', '/providers/company')).status, 404);
  t.is((await signIn(newEmail(), password, of)).status, 400);
});

test('GitHub is asked by its own API', async (t) => {
  const of = await withSite();
  const email = newEmail();
  const { createServer } = await import('node:http');
  const server = createServer((request, response) => {
    const answers: Record<string, unknown> = {
      '/login/oauth/access_token': { access_token: 'gho_x' },
      '/api/v3/user': { id: 7, login: 'ada', name: 'Ada', avatar_url: null },
      '/api/v3/user/emails': [
        { email: 'other@example.com', primary: false, verified: true },
        { email, primary: true, verified: true },
      ],
    };
    response.end(JSON.stringify(answers[request.url ?? ''] ?? null));
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  const address = server.address();
  const url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`;
  await manage(of, 'PUT', '/providers/github', { client_id: 'a', client_secret: 'b', issuer: url });
  const browser = new Browser(platform().base);
  const sent = await browser.request(
    `${platform().base}/p/${of.ref}/auth/v1/authorize?provider=github&redirect_to=${landing}`,
  );
  const to = new URL(sent.headers.get('location') ?? '');
  t.is(to.pathname, '/login/oauth/authorize');
  const page = await browser.request(`${callbackOf(of)}?code=x&state=${to.searchParams.get('state') ?? ''}`);
  const user = await userOf(of, new URL(page.headers.get('location') ?? ''));
  t.like(user, { email, app_metadata: { provider: 'github' }, user_metadata: { name: 'Ada' } });
});
