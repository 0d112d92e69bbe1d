import test from 'ava';
import { SignJWT, decodeJwt, generateKeyPair } from 'jose';
import { useAuth } from '#test/auth/auth-scene.ts';
import { useDatabase } from '../database/guard-scene.ts';
import { newEmail, newPkce, useOAuth } from './oauth-scene.ts';

const scene = useOAuth(test, useAuth(test));
const { newClient, signedUp, codeFor, exchange, post, tokensFor, userinfo, newProject, issuer, platform } = scene;

const user = async (): Promise<string> => {
  const email = newEmail();
  await signedUp(undefined, email);
  return email;
};

const refresh = (client: Parameters<typeof post>[1], token: string, fields = {}) =>
  post('/token', client, { grant_type: 'refresh_token', refresh_token: token, ...fields });

const b64 = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');

const count = (answers: readonly { status: number }[], wanted: number): number =>
  answers.filter(({ status }) => status === wanted).length;

test('case 1: a code that comes again ends what the first use obtained', async (t) => {
  const client = await newClient();
  const { code, verifier } = await codeFor(client, await user());
  const { body } = await exchange(client, { code, verifier });
  t.is((await userinfo(body.access_token)).status, 200);
  const again = await exchange(client, { code, verifier });
  t.is(again.status, 400);
  t.is(again.body.error, 'invalid_grant');
  t.is((await refresh(client, body.refresh_token)).body.error, 'invalid_grant');
  t.is((await userinfo(body.access_token)).status, 401);
});

test('case 2: of twenty exchanges of one code at once one succeeds, and what it obtained is dead', async (t) => {
  const client = await newClient();
  const { code, verifier } = await codeFor(client, await user());
  const answers = await Promise.all(Array.from({ length: 20 }, () => exchange(client, { code, verifier })));
  t.is(count(answers, 200), 1, JSON.stringify(answers.map(({ status, text }) => [status, text.slice(0, 80)])));
  t.is(count(answers, 400), 19);
  const { body } = answers.find(({ status }) => status === 200) ?? { body: {} };
  t.is((await refresh(client, body.refresh_token)).status, 400);
  t.is((await userinfo(body.access_token)).status, 401);
});

test('case 3: a wrong verifier, and none, are refused', async (t) => {
  const client = await newClient();
  const { code } = await codeFor(client, await user());
  for (const wrong of [newPkce().verifier, undefined]) {
    const { status, body } = await exchange(client, { code, verifier: '' }, { code_verifier: wrong });
    t.deepEqual([status, body.error], [400, 'invalid_grant']);
  }
});

test('case 8: another redirect address at the exchange is refused', async (t) => {
  const client = await newClient({ redirect_uris: ['https://a.example/cb', 'https://b.example/cb'] });
  const { code, verifier } = await codeFor(client, await user());
  const { status, body } = await exchange(client, { code, verifier }, { redirect_uri: 'https://b.example/cb' });
  t.deepEqual([status, body.error], [400, 'invalid_grant']);
});

test('case 9: a code of another client is refused', async (t) => {
  const [client, other] = [await newClient(), await newClient()];
  const { code, verifier } = await codeFor(client, await user());
  const { status, body } = await exchange(other, { code, verifier });
  t.deepEqual([status, body.error], [400, 'invalid_grant']);
});

test('case 10: a client of one project is nobody in another, and so is its code', async (t) => {
  const other = await newProject();
  const client = await newClient();
  const { code, verifier } = await codeFor(client, await user());
  const { status, body } = await exchange(client, { code, verifier }, {}, other);
  t.deepEqual([status, body.error], [401, 'invalid_client']);
  const there = await newClient({}, other);
  t.is((await exchange(there, { code, verifier }, {}, other)).body.error, 'invalid_grant');
});

test('case 11: a wrong secret, none, and an unknown client have the same answer', async (t) => {
  const client = await newClient();
  const { code, verifier } = await codeFor(client, await user());
  const answers = [];
  for (const path of ['code', 'refresh', 'revoke', 'introspect']) {
    for (const shown of [
      { ...client, client_secret: 'wrong' },
      { ...client, client_secret: null },
      { ...client, client_id: crypto.randomUUID() },
    ]) {
      const answer =
        path === 'code'
          ? await exchange(shown, { code, verifier })
          : path === 'refresh'
            ? await refresh(shown, 'x')
            : await post(`/${path}`, shown, { token: 'x' });
      t.is(answer.status, 401, `${path} ${answer.text}`);
      answers.push([answer.body.error, answer.body.error_description]);
    }
  }
  t.is(new Set(answers.map((one) => JSON.stringify(one))).size, 1, JSON.stringify(answers));
});

test('the secret is taken by Basic, form-encoded, and not in two ways at once', async (t) => {
  const client = await newClient();
  const { code, verifier } = await codeFor(client, await user());
  const basic = `Basic ${Buffer.from(`${client.client_id}:${encodeURIComponent(client.client_secret ?? '')}`).toString('base64')}`;
  const fields = {
    grant_type: 'authorization_code',
    code,
    code_verifier: verifier,
    redirect_uri: client.redirect_uris[0],
  };
  t.is((await post('/token', client, fields, { headers: { authorization: basic } })).body.error, 'invalid_request');
  const { status, body } = await post('/token', null, fields, { headers: { authorization: basic } });
  t.is(status, 200);
  const next = { grant_type: 'refresh_token', refresh_token: body.refresh_token };
  t.is((await post('/token', client, next, { headers: { authorization: basic } })).body.error, 'invalid_request');
  t.is((await post('/token', null, next, { headers: { authorization: basic } })).status, 200);
});

test('a client without a secret must not show one', async (t) => {
  const client = await newClient({ application_type: 'spa' });
  t.is(client.client_secret, null);
  const tokens = await tokensFor(client, await user());
  t.is((await refresh({ ...client, client_secret: 'x' }, tokens.refresh_token)).status, 401);
  t.is((await refresh(client, tokens.refresh_token)).status, 200);
});

test('case 12: parameters that come twice are refused', async (t) => {
  const client = await newClient();
  const { code, verifier } = await codeFor(client, await user());
  const base = `client_id=${client.client_id}&client_secret=${client.client_secret}`;
  for (const form of [
    `${base}&grant_type=authorization_code&grant_type=authorization_code&code=${code}&code_verifier=${verifier}`,
    `${base}&grant_type=authorization_code&code=${code}&code=${code}&code_verifier=${verifier}`,
    `${base}&grant_type=refresh_token&refresh_token=a&refresh_token=b`,
    `${base}&client_id=${client.client_id}&grant_type=refresh_token&refresh_token=a`,
  ]) {
    const response = await fetch(`${issuer()}/token`, {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: form,
    });
    t.is(response.status, 400, form);
    t.is(((await response.json()) as { error: string }).error, 'invalid_request');
  }
});

test('case 13: a body of JSON is refused, and so is a form of megabytes', async (t) => {
  const client = await newClient();
  const requested = { grant_type: 'refresh_token', refresh_token: 'x', ...client };
  for (const path of ['/token', '/revoke', '/introspect']) {
    const response = await fetch(issuer() + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(requested),
    });
    t.is(response.status, 400);
    t.like(await response.json(), { error: 'invalid_request' });
  }
  t.is((await post('/token', client, { grant_type: 'refresh_token', refresh_token: 'x'.repeat(200_000) })).status, 413);
});

test('case 14: the grant password, and one that is unknown, are refused', async (t) => {
  const client = await newClient();
  for (const grant of ['password', 'urn:x', '']) {
    const { status, body } = await post('/token', client, { grant_type: grant, username: 'a', password: 'b' });
    t.is(status, 400);
    t.regex(body.error, /unsupported_grant_type|invalid_request/, grant);
  }
});

test('case 18: an access token of one project is none at another', async (t) => {
  const other = await newProject();
  const tokens = await tokensFor(await newClient(), await user());
  t.is((await userinfo(tokens.access_token, other)).status, 401);
  const rest = `/p/${other.ref}/v1/rest/things`;
  const options = { key: other.publishableKey, token: tokens.access_token };
  t.is((await platform().client.call('GET', rest, options)).status, 401);
});

test('case 19: unsigned tokens, those signed with the public key, and id tokens are no access tokens', async (t) => {
  const tokens = await tokensFor(await newClient(), await user());
  const { access_token: token, id_token: idToken } = tokens;
  const [head = '', payload = ''] = token.split('.');
  const kid = JSON.parse(Buffer.from(head, 'base64url').toString()).kid as string;
  const jwks = await (await fetch(`${issuer()}/.well-known/jwks.json`)).text();
  const secret = new TextEncoder().encode(jwks);
  const claims = decodeJwt(token);
  const { privateKey } = await generateKeyPair('RS256');
  for (const forged of [
    idToken,
    `${b64({ alg: 'none', typ: 'at+jwt' })}.${payload}.`,
    await new SignJWT(claims).setProtectedHeader({ alg: 'HS256', typ: 'at+jwt', kid }).sign(secret),
    await new SignJWT(claims).setProtectedHeader({ alg: 'RS256', typ: 'at+jwt', kid }).sign(privateKey),
  ]) {
    t.is((await userinfo(forged)).status, 401);
    const { project } = scene;
    const rest = await platform().client.call('GET', `/p/${project().ref}/v1/rest/things`, { token: forged });
    t.is(rest.status, 401);
  }
});

test('case 20: an access token in the address is refused', async (t) => {
  const { access_token: token } = await tokensFor(await newClient(), await user());
  t.is((await fetch(`${issuer()}/userinfo?access_token=${token}`)).status, 400);
});

test('case 21: of twenty trades of a refresh token at once all have the same answer; later the family ends', async (t) => {
  const client = await newClient();
  const tokens = await tokensFor(client, await user());
  const answers = await Promise.all(Array.from({ length: 20 }, () => refresh(client, tokens.refresh_token)));
  t.is(count(answers, 200), 20);
  t.is(new Set(answers.map(({ body }) => body.refresh_token)).size, 1);
  t.is(new Set(answers.map(({ body }) => body.access_token)).size, 1);
  const { sid } = decodeJwt(tokens.id_token);
  const sessionId = decodeJwt(tokens.access_token)['session_id'];
  t.is(typeof sessionId, 'string');
  t.is(sid === undefined || typeof sid === 'string', true);
  const next = await refresh(client, answers[0]?.body.refresh_token);
  t.is(next.status, 200);
  t.is((await refresh(client, tokens.refresh_token)).body.error, 'invalid_grant');
  t.is((await refresh(client, next.body.refresh_token)).body.error, 'invalid_grant');
  t.is((await userinfo(next.body.access_token)).status, 401);
});

test('case 22: a refresh token of another client is refused and lives on; a wider scope is refused', async (t) => {
  const [client, other] = [await newClient(), await newClient()];
  const tokens = await tokensFor(client, await user(), { scope: 'openid email' });
  t.deepEqual(
    [(await refresh(other, tokens.refresh_token)).status, (await refresh(other, tokens.refresh_token)).body.error],
    [400, 'invalid_grant'],
  );
  const wider = await refresh(client, tokens.refresh_token, { scope: 'openid email profile' });
  t.deepEqual([wider.status, wider.body.error], [400, 'invalid_scope']);
  const narrow = await refresh(client, tokens.refresh_token, { scope: 'openid' });
  t.is(narrow.body.scope, 'openid');
  t.is(decodeJwt(narrow.body.id_token)['email'], undefined);
});

test('a refresh token of auth/v1 is none of a client, and the other way round', async (t) => {
  const client = await newClient();
  const email = newEmail();
  const session = await signedUp(undefined, email);
  const tokens = await tokensFor(client, email);
  t.is((await refresh(client, session.refresh_token)).status, 400);
  t.is((await scene.refresh(tokens.refresh_token)).status, 400);
  t.is((await scene.refresh(session.refresh_token)).status, 200);
  t.is((await refresh(client, tokens.refresh_token)).status, 200);
});

test('case 23: revoking by another client is refused, and the token lives', async (t) => {
  const [client, other] = [await newClient(), await newClient()];
  const tokens = await tokensFor(client, await user());
  for (const token of [tokens.refresh_token, tokens.access_token])
    t.is((await post('/revoke', other, { token })).status, 400);
  t.is((await userinfo(tokens.access_token)).status, 200);
  t.is((await post('/revoke', client, { token: 'nothing that we know' })).status, 200);
  t.is((await post('/revoke', client, {})).status, 400);
});

test('case 23: either token revokes the sign-in, at once', async (t) => {
  const client = await newClient();
  for (const kind of ['refresh_token', 'access_token']) {
    const tokens = await tokensFor(client, await user());
    t.is((await post('/revoke', client, { token: tokens[kind] })).status, 200, kind);
    t.is((await userinfo(tokens.access_token)).status, 401);
    t.is((await refresh(client, tokens.refresh_token)).status, 400);
  }
});

test('case 24: a code that is too old is refused', async (t) => {
  const of = await newProject();
  const client = await newClient({}, of);
  const { user: owner } = await signedUp(of);
  const { code, verifier } = await codeFor(client, owner.email, {}, of);
  await useDatabase(platform(), of).query(
    'auth',
    `update auth.openid set expires_at = now() - interval '1 s' where model = 'AuthorizationCode'`,
  );
  const { status, body } = await exchange(client, { code, verifier }, {}, of);
  t.deepEqual([status, body.error], [400, 'invalid_grant']);
});

test('a token is introspected by its own client alone', async (t) => {
  const [client, other] = [await newClient(), await newClient()];
  const page = await newClient({ application_type: 'spa' });
  const tokens = await tokensFor(client, await user());
  const ask = async (by: typeof client, token: string) => (await post('/introspect', by, { token })).body;
  t.like(await ask(client, tokens.access_token), { active: true, client_id: client.client_id, token_type: 'Bearer' });
  t.deepEqual(await ask(other, tokens.access_token), { active: false });
  t.deepEqual(await ask(client, 'nothing'), { active: false });
  t.is((await ask(page, tokens.access_token)).error, 'unauthorized_client');
  await post('/revoke', client, { token: tokens.access_token });
  t.deepEqual(await ask(client, tokens.access_token), { active: false });
});
