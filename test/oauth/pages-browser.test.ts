import { readFileSync } from 'node:fs';
import { once } from 'node:events';
import { type Server, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createRequire } from 'node:module';
import path from 'node:path';
import test from 'ava';
import type { Page } from 'playwright-core';
import { useAuthMails } from '#test/auth/mail-scene.ts';
import { fits, inBrowser, picture, useBrowser } from '../ops/browser.ts';
import { newEmail, newPkce, password, useOAuth } from './oauth-scene.ts';

const mails = useAuthMails(test);
const scene = useOAuth(test, mails);
const { newClient, signedUp, issuer } = scene;
const visit = useBrowser();

const require = createRequire(import.meta.url);
const axe = readFileSync(require.resolve('axe-core'), 'utf8');
const library = readFileSync(
  path.join(require.resolve('oidc-client-ts'), '../../browser/oidc-client-ts.min.js'),
  'utf8',
);

/** A page alone, with oidc-client-ts as it comes. */
const application = `<!doctype html><html lang="en"><head><title>An application</title></head><body>
<h1>The application</h1><button id="in">Sign in</button><button id="out">Sign out</button><output id="said"></output>
<script src="/oidc-client-ts.js"></script>
<script>
  const say = (text) => { document.getElementById('said').textContent = text; };
  const { issuer, client } = JSON.parse(localStorage.getItem('settings') ?? '{}');
  const manager = issuer && new oidc.UserManager({
    authority: issuer, client_id: client, redirect_uri: location.origin + '/', scope: 'openid profile email',
    post_logout_redirect_uri: location.origin + '/?out', loadUserInfo: true, automaticSilentRenew: false,
  });
  document.getElementById('in').onclick = () => manager.signinRedirect();
  document.getElementById('out').onclick = () => manager.signoutRedirect();
  const show = (user) => say('signed in as ' + user.profile.email);
  if (new URLSearchParams(location.search).has('code'))
    manager.signinCallback().then(show).then(() => manager.signinSilent()).then((user) => user && say('renewed for ' + user.profile.email)).catch((error) => say('failed: ' + error.message));
  if (location.search === '?out') say('signed out');
</script></body></html>`;

let site: Server;
let origin = '';
test.before(async () => {
  site = createServer((request, response) => {
    const isScript = request.url === '/oidc-client-ts.js';
    response.setHeader('Content-Type', isScript ? 'text/javascript' : 'text/html');
    response.end(isScript ? library : application);
  });
  site.listen(0, '127.0.0.1');
  await once(site, 'listening');
  origin = `http://127.0.0.1:${(site.address() as AddressInfo).port}`;
});
test.after.always(() => site?.close());

interface Violation {
  readonly id: string;
  readonly nodes: readonly { readonly html: string }[];
}

/** The findings of axe-core on a page, which must let its script in. */
const violationsOf = async (page: Page): Promise<string[]> => {
  await page.evaluate(axe);
  const found = await page.evaluate<readonly Violation[]>('axe.run().then(({ violations }) => violations)');
  return found.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`);
};

const startUrl = (client: string, redirect: string, of = scene.project(), more = {}): string => {
  const query = new URLSearchParams({
    client_id: client,
    redirect_uri: redirect,
    response_type: 'code',
    scope: 'openid profile email',
    code_challenge: newPkce().challenge,
    code_challenge_method: 'S256',
    ...more,
  });
  return `${issuer(of)}/authorize?${query.toString()}`;
};

inBrowser('oidc-client-ts signs in at the hosted pages, renews, and signs out', async (t) => {
  const client = await newClient({
    application_type: 'spa',
    redirect_uris: [`${origin}/`],
    post_logout_redirect_uris: [`${origin}/?out`],
  });
  const email = newEmail();
  await signedUp(undefined, email);
  const { page, complaints, close } = await visit(origin);
  await page.evaluate(
    `localStorage.setItem('settings', ${JSON.stringify(JSON.stringify({ issuer: issuer(), client: client.client_id }))})`,
  );
  await page.reload();
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByLabel('E-mail address').fill(email);
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('button', { name: 'Allow', exact: true }).click();
  await page.getByText(`renewed for ${email}`).waitFor();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('heading', { name: /Sign out of/ }).waitFor();
  await page.getByRole('button', { name: 'Sign out', exact: true }).click();
  await page.getByText('signed out').waitFor();
  t.deepEqual(complaints, []);
  await close();
});

inBrowser('the hosted pages fit on a phone, and axe-core finds nothing on them', async (t) => {
  const of = await mails.mailProject();
  const redirect = `${origin}/`;
  const client = await newClient({ redirect_uris: [redirect], post_logout_redirect_uris: [redirect] }, of);
  const { client: api } = scene.platform();
  await api.call('PATCH', `/projects/${of.id}/auth/settings`, {
    token: scene.developer().token,
    body: { branding: { color: '#7a1fa2' } },
  });
  const email = newEmail();
  await signedUp(of, email);
  for (const colorScheme of ['light', 'dark'] as const) {
    const options = { bypassCSP: true, viewport: { width: 360, height: 740 }, colorScheme };
    const { page, close } = await visit(startUrl(client.client_id, redirect, of), options);
    const check = async (name: string): Promise<void> => {
      t.deepEqual(await violationsOf(page), [], `${name} ${colorScheme}`);
      t.true(await fits(page), name);
      await picture(page, `hosted-${name}-${colorScheme}`);
    };
    await check('sign-in');
    await page.getByRole('link', { name: 'Create account' }).click();
    await check('sign-up');
    await page.getByRole('link', { name: 'Have an account already?' }).click();
    await page.getByRole('link', { name: 'Forgot your password?' }).click();
    await check('forgot');
    await page.getByRole('link', { name: 'Back to sign-in' }).click();
    await page.getByLabel('E-mail address').fill(email);
    await page.getByLabel('Password').fill('wrong');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByText('The e-mail address or the password is wrong.').waitFor();
    await check('wrong');
    await page.getByLabel('Password').fill(password);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('heading', { name: 'The Shop asks for access' }).waitFor();
    await check('consent');
    await page.getByRole('button', { name: 'Allow', exact: true }).click();
    await page.getByRole('heading', { name: 'The application' }).waitFor();
    t.truthy(new URL(page.url()).searchParams.get('code'));
    await page.goto(`${issuer(of)}/logout?client_id=${client.client_id}`);
    await check('sign-out');
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('heading', { name: 'You are signed out' }).waitFor();
    await check('signed-out');
    await page.goto(`${issuer(of)}/device`);
    await check('device');
    await page.goto(startUrl(client.client_id, 'https://evil.example/', of));
    await check('error');
    await close();
  }
});

inBrowser('a page of a stranger cannot show the sign-in in a frame', async (t) => {
  const client = await newClient({ redirect_uris: [`${origin}/`] });
  const { page, complaints, close } = await visit(origin);
  await page.evaluate(
    `document.body.innerHTML = '<iframe src="${startUrl(client.client_id, `${origin}/`).replaceAll('&', '&amp;')}"></iframe>'`,
  );
  await page
    .waitForEvent('console', { predicate: (message) => /frame-ancestors|X-Frame-Options/i.test(message.text()) })
    .catch(() => undefined);
  t.true(
    complaints.some((text) => /frame/i.test(text)),
    complaints.join('\n'),
  );
  await close();
});

inBrowser('a person signs in without scripts', async (t) => {
  const client = await newClient({ redirect_uris: [`${origin}/`] });
  const email = newEmail();
  await signedUp(undefined, email);
  const { page, complaints, close } = await visit(startUrl(client.client_id, `${origin}/`), {
    javaScriptEnabled: false,
  });
  await page.getByLabel('E-mail address').fill(email);
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('button', { name: 'Allow', exact: true }).click();
  await page.getByRole('heading', { name: 'The application' }).waitFor();
  t.truthy(new URL(page.url()).searchParams.get('code'));
  t.deepEqual(complaints, []);
  await close();
});
