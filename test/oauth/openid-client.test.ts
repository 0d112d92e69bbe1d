import test from 'ava';
import * as oidc from 'openid-client';
import { useAuth } from '#test/auth/auth-scene.ts';
import { Browser } from './browser.ts';
import { newEmail, password, redirectUri, useOAuth } from './oauth-scene.ts';

const scene = useOAuth(test, useAuth(test));
const { newClient, signedUp, issuer, platform } = scene;

const insecure = { execute: [oidc.allowInsecureRequests] };

const discovered = async (
  fields: object = {},
  auth?: (secret: string) => oidc.ClientAuth,
  algorithm: { readonly id_token_signed_response_alg?: string } = {},
) => {
  const client = await newClient(fields);
  const secret = client.client_secret ?? undefined;
  const method = auth && secret !== undefined ? auth(secret) : undefined;
  const metadata = { ...(secret !== undefined && { client_secret: secret }), ...algorithm };
  return oidc.discovery(new URL(issuer()), client.client_id, metadata, method, insecure);
};

const signIn = async (config: oidc.Configuration, email: string, scope = 'openid profile email') => {
  const verifier = oidc.randomPKCECodeVerifier();
  const state = oidc.randomState();
  const nonce = oidc.randomNonce();
  const url = oidc.buildAuthorizationUrl(config, {
    redirect_uri: redirectUri,
    scope,
    state,
    nonce,
    code_challenge: await oidc.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
  });
  const browser = new Browser(platform().base);
  const consent = await browser.submit(await browser.open(url.href), '/login', { email, password });
  const back = await browser.submit(consent, '/consent');
  return oidc.authorizationCodeGrant(config, new URL(back.url), {
    pkceCodeVerifier: verifier,
    expectedState: state,
    expectedNonce: nonce,
    idTokenExpected: true,
  });
};

for (const [name, auth] of Object.entries({
  'in the form': oidc.ClientSecretPost,
  'by Basic': oidc.ClientSecretBasic,
})) {
  test(`openid-client signs a user in, reads, refreshes and revokes, with its secret ${name}`, async (t) => {
    const config = await discovered({}, auth);
    const email = newEmail();
    const { user } = await signedUp(undefined, email);
    const tokens = await signIn(config, email);
    t.is(tokens.claims()?.sub, user.id);
    const info = await oidc.fetchUserInfo(config, tokens.access_token, user.id);
    t.is(info.email, email);
    const next = await oidc.refreshTokenGrant(config, tokens.refresh_token ?? '');
    t.is(next.claims()?.sub, user.id);
    t.true((await oidc.tokenIntrospection(config, next.access_token)).active);
    await oidc.tokenRevocation(config, next.refresh_token ?? '');
    t.false((await oidc.tokenIntrospection(config, next.access_token)).active);
    await t.throwsAsync(oidc.refreshTokenGrant(config, next.refresh_token ?? ''), {
      message: /error in the response body/,
    });
  });
}

test('openid-client verifies id tokens of ES256, too', async (t) => {
  const config = await discovered({ id_token_signed_response_alg: 'ES256' }, undefined, {
    id_token_signed_response_alg: 'ES256',
  });
  oidc.enableNonRepudiationChecks(config);
  const email = newEmail();
  await signedUp(undefined, email);
  const tokens = await signIn(config, email);
  t.is(JSON.parse(Buffer.from(tokens.id_token?.split('.')[0] ?? '', 'base64url').toString()).alg, 'ES256');
});

test('openid-client obtains a client’s own token', async (t) => {
  const config = await discovered({ grant_types: ['client_credentials'], redirect_uris: [] });
  t.truthy((await oidc.clientCredentialsGrant(config)).access_token);
});

test('openid-client connects a device', async (t) => {
  const config = await discovered({
    application_type: 'native',
    grant_types: ['authorization_code', 'urn:ietf:params:oauth:grant-type:device_code'],
  });
  const email = newEmail();
  const { user } = await signedUp(undefined, email);
  const started = await oidc.initiateDeviceAuthorization(config, { scope: 'openid email' });
  const browser = new Browser(platform().base);
  let page = await browser.submit(await browser.open(started.verification_uri), '/device', {
    user_code: started.user_code,
  });
  page = await browser.submit(page, '/device', { confirm: 'yes' });
  page = await browser.submit(page, '/login', { email, password });
  await browser.submit(page, '/consent');
  const tokens = await oidc.pollDeviceAuthorizationGrant(config, { ...started, interval: 0 });
  t.is(tokens.claims()?.sub, user.id);
});
