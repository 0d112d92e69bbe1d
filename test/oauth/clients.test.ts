import test from 'ava';
import { decodeProtectedHeader } from 'jose';
import { useAuth } from '#test/auth/auth-scene.ts';
import { newEmail, redirectUri, useOAuth } from './oauth-scene.ts';

const scene = useOAuth(test, useAuth(test));
const { newClient, newProject, signedUp, tokensFor, post, userinfo, platform, developer, project, codeFor } = scene;

const manage = (method: string, path: string, body?: object, of = project()) =>
  platform().client.call(method, `/projects/${of.id}/oauth/clients${path}`, {
    token: developer().token,
    ...(body && { body }),
  });

const user = async (of = project()): Promise<string> => {
  const email = newEmail();
  await signedUp(of, email);
  return email;
};

test('a client is registered with what the interface names, and its secret is shown once', async (t) => {
  const body = {
    name: 'A web application',
    redirect_uris: [redirectUri, 'myapp://callback'],
    grant_types: ['authorization_code'],
    scopes: ['openid', 'profile', 'email'],
  };
  const made = await manage('POST', '', body);
  t.is(made.status, 201, made.text);
  t.like(made.body, { ...body, application_type: 'web' });
  t.regex(made.body.client_secret, /^plinth_cs_/);
  const one = await manage('GET', `/${made.body.client_id}`);
  t.like(one.body, body);
  t.is(one.body.client_secret, undefined);
  const list = await manage('GET', '?limit=200');
  t.true(list.body.clients.some((each: { client_id: string }) => each.client_id === made.body.client_id));
  const rows = await platform().db.query('select to_jsonb(c)::text as text from oauth_clients c where id = $1', [
    made.body.client_id,
  ]);
  t.false(JSON.stringify(rows).includes(made.body.client_secret));
});

const bad: Readonly<Record<string, object>> = {
  'an address without a scheme': { redirect_uris: ['app.example.com/callback'] },
  'http on another machine': { redirect_uris: ['http://app.example.com/callback'] },
  'a script': { redirect_uris: ['javascript:alert(1)'] },
  'addresses of 20 KB': {
    redirect_uris: Array.from({ length: 20 }, (_, n) => `${redirectUri}/${n}${'x'.repeat(1000)}`),
  },
  'a fragment': { redirect_uris: [`${redirectUri}#x`] },
  'a user name': { redirect_uris: ['https://a@app.example.com/'] },
  'a wildcard': { redirect_uris: ['https://*.example.com/'] },
  'a scheme of its own for a page': { application_type: 'spa', redirect_uris: ['com.example:/x'] },
  'no address': { redirect_uris: [] },
  'a grant that there is not': { grant_types: ['password'] },
  'client_credentials without a secret': { application_type: 'native', grant_types: ['client_credentials'] },
  'a scope that there is not': { scopes: ['admin'] },
  'an unknown field': { client_secret: 'mine' },
  'a log-out address that is none': { post_logout_redirect_uris: ['x'] },
  'a back-channel that is no web address': { backchannel_logout_uri: 'ftp://x.example/' },
  'another algorithm': { id_token_signed_response_alg: 'HS256' },
};

for (const [what, fields] of Object.entries(bad)) {
  test(`a client with ${what} is refused`, async (t) => {
    const answer = await manage('POST', '', { name: 'x', redirect_uris: [redirectUri], ...fields });
    t.is(answer.status, 400, answer.text);
    t.is(answer.body.code, 'validation_failed');
  });
}

test('a project has a hundred clients at most', async (t) => {
  const of = await newProject();
  await platform()
    .db.query(
      `insert into oauth_clients (id, project_id, name, application_type, redirect_uris, grant_types, scopes)
     select gen_random_uuid(), $1, 'x', 'spa', '[]', '[]', '[]' from generate_series(1, 100)`,
      [of.id],
    )
    .catch(() => undefined);
  const [{ n } = { n: 0 }] = await platform().db.query<{ n: number }>(
    'select count(*)::int as n from oauth_clients where project_id = $1',
    [of.id],
  );
  for (let made = n; made < 100; made += 1) await newClient({}, of);
  t.is((await manage('POST', '', { name: 'x', redirect_uris: [redirectUri] }, of)).status, 403);
});

test('a change counts at the next request', async (t) => {
  const client = await newClient();
  const email = await user();
  const uri = 'https://next.example.com/callback';
  const changed = await manage('PATCH', `/${client.client_id}`, { redirect_uris: [uri] });
  t.deepEqual(changed.body.redirect_uris, [uri]);
  t.is((await scene.authorize(client)).page.status, 400);
  t.is((await codeFor({ ...client, redirect_uris: [uri] }, email)).url.origin, 'https://next.example.com');
  t.is((await manage('PATCH', `/${client.client_id}`, { application_type: 'spa' })).status, 400);
  t.is((await manage('PATCH', `/${client.client_id}`, { redirect_uris: ['javascript:1'] })).status, 400);
});

test('a deleted client’s tokens die', async (t) => {
  const client = await newClient();
  const tokens = await tokensFor(client, await user());
  t.is((await manage('DELETE', `/${client.client_id}`)).status, 204);
  t.is((await manage('DELETE', `/${client.client_id}`)).status, 404);
  t.is((await userinfo(tokens.access_token)).status, 401);
  const next = { grant_type: 'refresh_token', refresh_token: tokens.refresh_token };
  t.is((await post('/token', client, next)).status, 401);
  const rest = `/p/${project().ref}/v1/rest/things`;
  t.is((await platform().client.call('GET', rest, { token: tokens.access_token })).status, 401);
});

test('a client of another project is not found', async (t) => {
  const client = await newClient();
  const other = await newProject();
  for (const [method, path, body] of [
    ['GET', '', undefined],
    ['PATCH', '', { name: 'mine' }],
    ['POST', '/secret', {}],
    ['DELETE', '', undefined],
  ] as const)
    t.is((await manage(method, `/${client.client_id}${path}`, body, other)).status, 404, method);
});

test('a new secret works at once, and the earlier one as long as it was said', async (t) => {
  const client = await newClient();
  const revoke = (secret: string | null) => post('/revoke', { ...client, client_secret: secret }, { token: 'x' });
  const kept = await manage('POST', `/${client.client_id}/secret`, { overlap_seconds: 60 });
  t.is((await revoke(kept.body.client_secret)).status, 200);
  t.is((await revoke(client.client_secret)).status, 200);
  t.is((await tokensFor({ ...client, client_secret: client.client_secret }, await user())).token_type, 'Bearer');
  const alone = await manage('POST', `/${client.client_id}/secret`, {});
  t.is((await revoke(alone.body.client_secret)).status, 200);
  t.is((await revoke(kept.body.client_secret)).status, 401);
  t.is((await revoke(client.client_secret)).status, 401);
  const page = await newClient({ application_type: 'spa' });
  t.is((await manage('POST', `/${page.client_id}/secret`, {})).status, 409);
});

test('who registered, changed and deleted a client is in the audit log, without a secret', async (t) => {
  const client = await newClient();
  await manage('PATCH', `/${client.client_id}`, { name: 'Another name' });
  const { body } = await manage('POST', `/${client.client_id}/secret`, {});
  await manage('DELETE', `/${client.client_id}`);
  const rows = await platform().db.query<{ action: string; text: string }>(
    'select action, to_jsonb(a)::text as text from audit_entries a where target_id = $1 order by id',
    [client.client_id],
  );
  t.deepEqual(
    rows.map(({ action }) => action),
    ['oauth_client.create', 'oauth_client.update', 'oauth_client.delete'],
  );
  const text = JSON.stringify(rows);
  t.false(text.includes(body.client_secret) || text.includes(client.client_secret ?? '-'));
});

test('a client’s own token has no role in the database', async (t) => {
  const client = await newClient({ grant_types: ['client_credentials'], redirect_uris: [] });
  const answer = await post('/token', client, { grant_type: 'client_credentials' });
  t.is(answer.status, 200, answer.text);
  const { access_token: token } = answer.body;
  t.is(answer.body.refresh_token, undefined);
  for (const path of ['v1/rest/things', 'auth/v1/user']) {
    const call = await platform().client.call('GET', `/p/${project().ref}/${path}`, {
      token,
      key: project().publishableKey,
    });
    t.is(call.status, 403, `${path} ${call.text}`);
  }
  t.is((await userinfo(token)).status, 401);
  const other = await newClient();
  t.is((await post('/token', other, { grant_type: 'client_credentials' })).status, 400);
});

const keys = async (of = project()) => {
  const answer = await platform().client.call('GET', `/oauth/${of.id}/.well-known/jwks.json`);
  return answer.body.keys as { kid: string; alg: string }[];
};

test('keys are rotated with an overlap: what was signed before is good until then', async (t) => {
  const of = await newProject();
  const client = await newClient({ id_token_signed_response_alg: 'ES256' }, of);
  const email = await user(of);
  const tokens = await tokensFor(client, email, {}, of);
  t.is(decodeProtectedHeader(tokens.id_token).alg, 'ES256');
  t.is(decodeProtectedHeader(tokens.access_token).alg, 'RS256');
  const before = await keys(of);
  t.deepEqual(before.map(({ alg }) => alg).toSorted(), ['ES256', 'RS256']);
  const rotate = (body: object) =>
    platform().client.call('POST', `/projects/${of.id}/auth/keys/rotate`, { token: developer().token, body });
  t.is((await rotate({ overlap_seconds: 600 })).status, 200);
  t.is((await keys(of)).length, 4);
  t.is((await userinfo(tokens.access_token, of)).status, 200);
  const next = { grant_type: 'refresh_token', refresh_token: tokens.refresh_token };
  const refreshed = await post('/token', client, next, { of });
  const { kid } = decodeProtectedHeader(refreshed.body.access_token);
  t.false(before.some((key) => key.kid === kid));
  t.is(decodeProtectedHeader(refreshed.body.id_token).alg, 'ES256');
  t.is((await rotate({ overlap_seconds: 0 })).status, 200);
  t.is((await keys(of)).length, 2);
  t.is((await userinfo(tokens.access_token, of)).status, 401);
  t.is((await userinfo(refreshed.body.access_token, of)).status, 401);
  t.is((await tokensFor(client, email, {}, of)).token_type, 'Bearer');
  for (let n = 0; n < 5; n += 1) t.is((await rotate({})).status, 200);
  t.is((await rotate({})).status, 409);
  const listed = await platform().client.call('GET', `/projects/${of.id}/auth/keys`, { token: developer().token });
  t.is(listed.body.keys.length, 12);
  t.false(listed.text.includes('"d"'));
});

test('a change that is meant for another version of a client is refused, and overwrites nothing', async (t) => {
  const made = await manage('POST', '', { name: 'first', redirect_uris: [redirectUri] });
  t.is(made.body.version, 1);
  const change = (version: number, name: string) =>
    platform().client.call('PATCH', `/projects/${project().id}/oauth/clients/${made.body.client_id}`, {
      token: developer().token,
      headers: { 'if-match': `"${version}"` },
      body: { name },
    });
  t.like((await change(1, 'theirs')).body, { name: 'theirs', version: 2 });
  t.is((await change(1, 'mine')).body.code, 'precondition_failed');
  t.is((await manage('GET', `/${made.body.client_id}`)).body.name, 'theirs');
  t.is((await manage('POST', `/${made.body.client_id}/secret`, {})).body.version, 3);
});
