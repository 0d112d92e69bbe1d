import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import test, { type ExecutionContext } from 'ava';
import { useAuth } from '#test/auth/auth-scene.ts';
import { until } from '#test/support/until.ts';
import { Browser } from './browser.ts';
import { newEmail, password, redirectUri, useOAuth } from './oauth-scene.ts';

const scene = useOAuth(test, useAuth(test));
const { newClient, signedUp, issuer, platform } = scene;

const python = '/usr/bin/python3';
const succeeds = (file: string, args: readonly string[]): boolean => {
  try {
    execFileSync(file, args, { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
};
const hasAuthlib = existsSync(python) && succeeds(python, ['-c', 'import authlib, requests']);

const apache = '/usr/sbin/apache2';
const modules = '/usr/lib/apache2/modules';
const hasApache = existsSync(apache) && existsSync(`${modules}/mod_auth_openidc.so`);

/** A test with a program of Debian's; skipped by name where it is missing. */
const withProgram = (isThere: boolean, title: string, work: (t: ExecutionContext) => Promise<void>): void => {
  if (isThere) test.serial(title, work);
  else test.serial.skip(`${title} (not on this machine)`, work);
};

/** Signs in on the pages, and returns where they lead to. */
const signInFrom = async (url: string, email: string, browser = new Browser(platform().base)): Promise<string> => {
  const consent = await browser.submit(await browser.open(url), '/login', { email, password });
  return (await browser.submit(consent, '/consent')).url;
};

/** Authlib as its documentation uses it, with the sign-in itself done by the test. */
const authlibScript = `
import json, os, sys
from authlib.common.security import generate_token
from authlib.integrations.requests_client import OAuth2Session
from authlib.jose import JsonWebKey, jwt
from authlib.oidc.core import CodeIDToken
import requests
issuer, client_id, secret, redirect_uri = sys.argv[1:]
metadata = requests.get(issuer + '/.well-known/openid-configuration', timeout=30).json()
session = OAuth2Session(client_id, secret, scope='openid profile email', redirect_uri=redirect_uri,
    code_challenge_method='S256', token_endpoint_auth_method='client_secret_basic')
verifier, nonce = generate_token(48), generate_token(20)
url, state = session.create_authorization_url(metadata['authorization_endpoint'], code_verifier=verifier, nonce=nonce)
print(url, flush=True)
answer = sys.stdin.readline().strip()
token = session.fetch_token(metadata['token_endpoint'], authorization_response=answer, state=state, code_verifier=verifier)
keys = JsonWebKey.import_key_set(requests.get(metadata['jwks_uri'], timeout=30).json())
claims = jwt.decode(token['id_token'], keys, claims_cls=CodeIDToken, claims_options={
    'iss': {'essential': True, 'value': issuer}, 'aud': {'essential': True, 'value': client_id}}, claims_params={'nonce': nonce})
claims.validate(leeway=10)
info = session.get(metadata['userinfo_endpoint']).json()
session.refresh_token(metadata['token_endpoint'], refresh_token=token['refresh_token'])
revoked = session.revoke_token(metadata['revocation_endpoint'], token=session.token['refresh_token'])
print(json.dumps({'sub': claims['sub'], 'email': info['email'], 'revoked': revoked.status_code}), flush=True)
`;

withProgram(hasAuthlib, 'python3-authlib signs a user in, refreshes and revokes', async (t) => {
  const client = await newClient();
  const email = newEmail();
  const { user } = await signedUp(undefined, email);
  const args = ['-c', authlibScript, issuer(), client.client_id, client.client_secret ?? '', redirectUri];
  const child = spawn(python, args, { env: { ...process.env, AUTHLIB_INSECURE_TRANSPORT: '1' } });
  t.teardown(() => child.kill());
  let errors = '';
  child.stderr.on('data', (piece: Buffer) => (errors += piece.toString()));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async (): Promise<string> => (await lines.next()).value ?? errors;
  child.stdin.write(`${await signInFrom(await next(), email)}\n`);
  t.deepEqual(JSON.parse(await next()), { sub: user.id, email, revoked: 200 }, errors);
});

const freePort = async (): Promise<number> => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
};

/** A page of Apache's that mod_auth_openidc guards. It says who is there by a header. */
const apacheConfig = (folder: string, port: number, client: { id: string; secret: string }): string => `
ServerRoot ${folder}
ServerName 127.0.0.1
Listen 127.0.0.1:${port}
PidFile ${folder}/pid
ErrorLog ${folder}/error.log
DocumentRoot ${folder}
${process.getuid?.() === 0 ? 'User www-data\nGroup www-data' : ''}
LoadModule mpm_event_module ${modules}/mod_mpm_event.so
LoadModule authn_core_module ${modules}/mod_authn_core.so
LoadModule authz_core_module ${modules}/mod_authz_core.so
LoadModule authz_user_module ${modules}/mod_authz_user.so
LoadModule headers_module ${modules}/mod_headers.so
LoadModule auth_openidc_module ${modules}/mod_auth_openidc.so
OIDCProviderMetadataURL ${issuer()}/.well-known/openid-configuration
OIDCClientID ${client.id}
OIDCClientSecret ${client.secret}
OIDCRedirectURI http://127.0.0.1:${port}/callback
OIDCCryptoPassphrase ${crypto.randomUUID()}
OIDCScope "openid profile email"
OIDCPKCEMethod S256
OIDCRemoteUserClaim email
OIDCCacheDir ${folder}
OIDCCacheType file
# Requests of Node say that they are a script's, which would get 401.
OIDCUnAuthAction auth true
<Location />
  AuthType openid-connect
  Require valid-user
  Header set X-User "expr=%{REMOTE_USER}"
</Location>
`;

const isOpen = async (url: string): Promise<boolean> =>
  fetch(url, { redirect: 'manual' }).then(
    () => true,
    () => false,
  );

withProgram(hasApache, 'libapache2-mod-auth-openidc lets a user in who signed in', async (t) => {
  const port = await freePort();
  const site = `http://127.0.0.1:${port}`;
  const client = await newClient({ redirect_uris: [`${site}/callback`] });
  const email = newEmail();
  await signedUp(undefined, email);
  const folder = mkdtempSync(path.join(tmpdir(), 'plinth-apache-'));
  execFileSync('chmod', ['777', folder]);
  writeFileSync(path.join(folder, 'index.html'), 'the guarded page');
  const config = path.join(folder, 'apache.conf');
  writeFileSync(config, apacheConfig(folder, port, { id: client.client_id, secret: client.client_secret ?? '' }));
  const child: ChildProcess = spawn(apache, ['-f', config, '-D', 'FOREGROUND'], { stdio: 'ignore' });
  t.teardown(async () => {
    child.kill();
    await once(child, 'exit');
    rmSync(folder, { recursive: true, force: true });
  });
  await until(() => isOpen(site));
  const browser = new Browser(platform().base);
  const sent = await browser.request(`${site}/index.html`);
  t.is(sent.status, 302);
  const back = await signInFrom(sent.headers.get('location') ?? '', email, browser);
  const returned = await browser.request(back);
  t.is(returned.status, 302, returned.text);
  const page = await browser.request(returned.headers.get('location') ?? '');
  t.is(page.status, 200);
  t.is(page.headers.get('x-user'), email);
  t.regex(page.text, /the guarded page/);
});
