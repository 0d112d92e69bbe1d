import { createPublicKey } from 'node:crypto';
import test from 'ava';
import { type JWK, SignJWT, decodeJwt, decodeProtectedHeader, exportJWK, generateKeyPair } from 'jose';
import { createSigningKeys } from '#domain/end-users/keys.ts';
import { createTokenSigner } from '#domain/end-users/tokens.ts';
import { findProject } from '#domain/projects/store.ts';
import { openKeyRing } from '#lib/secrets.ts';
import type { TestProject } from '#test/support/client.ts';
import { useOAuth } from '../oauth/oauth-scene.ts';
import { useAuth } from './auth-scene.ts';

const scene = useOAuth(test, useAuth(test));
const { ask, developer, issuer, newClient, newProject, platform, post, signedUp, tokensFor } = scene;

const b64 = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');

/** A token that was signed by the project's own key and is over. */
const expired = async (of: TestProject, good: string): Promise<string> => {
  const keyRing = openKeyRing(platform().config.PLINTH_SECRET_KEYS);
  const keys = createSigningKeys(platform().db, ({ id, data_key }) => keyRing.sealerFor(id, data_key));
  const project = await findProject(platform().db, of.id);
  if (project === undefined) throw new Error('there is no project');
  const { sub = '', session_id: session } = decodeJwt(good);
  const order = { issuer: issuer(of), audience: 'x', subject: sub, expiresIn: -60, claims: { session_id: session } };
  return createTokenSigner(keys).sign(project, order);
};

/** Tokens that are none, by what is wrong with them. */
const forgeriesOf = async (of: TestProject, good: string): Promise<Readonly<Record<string, string>>> => {
  const [head = '', payload = '', signature = ''] = good.split('.');
  const { kid = '' } = decodeProtectedHeader(good);
  const claims = decodeJwt(good);
  const { keys } = (await (await fetch(`${issuer(of)}/.well-known/jwks.json`)).json()) as { keys: JWK[] };
  const own = createPublicKey({ key: keys.find((key) => key.kid === kid) ?? {}, format: 'jwk' });
  const pem = own.export({ type: 'spki', format: 'pem' });
  const stranger = await generateKeyPair('RS256');
  const jwk = await exportJWK(stranger.publicKey);
  const by = (header: object) =>
    new SignJWT(claims).setProtectedHeader({ alg: 'RS256', typ: 'at+jwt', ...header }).sign(stranger.privateKey);
  const email = String(claims['email']);
  const { id_token: idToken } = await tokensFor(await newClient({}, of), email, {}, of);
  return {
    'signed by somebody else': await by({ kid }),
    'signed by the key that it brings': await by({ jwk }),
    'signed by a key elsewhere': await by({ kid, jku: 'https://evil.example/jwks.json', x5u: 'https://evil.example/' }),
    'HS256 with the public key': await new SignJWT(claims)
      .setProtectedHeader({ alg: 'HS256', typ: 'at+jwt', kid })
      .sign(Buffer.from(pem)),
    unsigned: `${b64({ alg: 'none', typ: 'at+jwt' })}.${payload}.${signature}`,
    'with an empty signature': `${head}.${payload}.AA`,
    'with another user': `${head}.${b64({ ...claims, sub: crypto.randomUUID() })}.${signature}`,
    'with another role': `${head}.${b64({ ...claims, role: 'service_role' })}.${signature}`,
    'an id token': idToken,
    expired: await expired(of, good),
    'of another project': (await signedUp(await newProject())).access_token,
    'no token': 'a.b.c',
  };
};

test('a token that is forged, foreign, expired or of another kind is refused on every surface', async (t) => {
  const of = await newProject();
  const { client } = platform();
  const fn = await client.deploy(developer(), of, 'exports.handler = (x) => x');
  const { access_token: good } = await signedUp(of);
  const oauthClient = await newClient({}, of);
  const key = of.publishableKey;
  const surfaces: Readonly<Record<string, (token: string) => Promise<{ readonly status: number }>>> = {
    'REST by the key': (token) => client.call('GET', '/v1/rest/', { key, token }),
    'REST by the project': (token) => client.call('GET', `/p/${of.ref}/v1/rest/`, { key, token }),
    'REST by the token alone': (token) => client.call('GET', `/p/${of.ref}/v1/rest/`, { token }),
    GraphQL: (token) => client.call('POST', '/api/graphql', { key, token, body: { query: '{__typename}' } }),
    functions: (token) => client.call('POST', `/api/functions/${fn.slug}`, { key, token, body: 1 }),
    jobs: (token) => client.call('GET', `/api/jobs/${crypto.randomUUID()}`, { key, token }),
    user: (token) => ask('GET', '/user', { token }, of),
    'change of the user': (token) => ask('PUT', '/user', { token, body: { data: { a: 1 } } }, of),
    'log-out': (token) => ask('POST', '/logout', { token, body: {} }, of),
    reauthenticate: (token) => ask('GET', '/reauthenticate', { token }, of),
    factors: (token) => ask('POST', '/factors', { token, body: { factor_type: 'totp' } }, of),
    identities: (token) => ask('GET', '/user/identities/authorize?provider=x', { token }, of),
    administration: (token) => ask('GET', '/admin/users', { key: of.key, token }, of),
    userinfo: (token) => scene.userinfo(token, of),
    'the management of the project': (token) => client.call('GET', `/projects/${of.id}/users`, { token }),
  };
  for (const [what, token] of Object.entries(await forgeriesOf(of, good))) {
    for (const [where, call] of Object.entries(surfaces))
      t.is((await call(token)).status, 401, `a token ${what}, at ${where}`);
    const seen = await post('/introspect', oauthClient, { token }, { of });
    t.deepEqual(seen.body, { active: false }, what);
  }
  for (const where of ['REST by the key', 'REST by the token alone', 'GraphQL', 'functions', 'user'])
    t.true(((await surfaces[where]?.(good))?.status ?? 500) < 300, `the right one, at ${where}`);
});

test('a token of the project’s own making that names no user or sign-in of ours changes nothing of anybody', async (t) => {
  const of = await newProject();
  await signedUp(of);
  const bodies = [
    { sub: 'bob', claims: { session_id: crypto.randomUUID() } },
    { sub: crypto.randomUUID(), claims: { session_id: 'none' } },
    { sub: crypto.randomUUID(), claims: { session_id: { a: 1 } } },
    { sub: crypto.randomUUID(), claims: { session_id: crypto.randomUUID() } },
  ];
  for (const body of bodies) {
    const path = `/projects/${of.id}/users/tokens`;
    const { token: by } = developer();
    const { access_token: token } = (await platform().client.call('POST', path, { token: by, body })).body;
    for (const [method, where] of [
      ['GET', '/user'],
      ['POST', '/logout'],
      ['GET', '/reauthenticate'],
      ['POST', '/factors'],
    ] as const) {
      const { status } = await ask(
        method,
        where,
        { token, ...(method === 'POST' && { body: { factor_type: 'x' } }) },
        of,
      );
      t.true([400, 403].includes(status), `${JSON.stringify(body)} ${where}: ${status}`);
    }
  }
});
