import test from 'ava';
import { decodeProtectedHeader } from 'jose';
import { addMember } from '#test/support/members.ts';
import { serve } from '#test/support/serve.ts';
import { longTestMs } from '#test/support/time-outs.ts';
import { inBrowser, useBrowser } from '../ops/browser.ts';
import { looksRight, seriousOf, signIn } from './browse.ts';
import { newCheckedScene, useDashboard } from './scene.ts';

const { platform } = useDashboard(test);
const open = useBrowser();

const hostile = '<img src=x onerror=alert(1)> "Ü" \u202Emoc.live 🦄';

const newScene = () => newCheckedScene(platform());

inBrowser('what is wrong with a setting stands beside its field, and the list of passwords is tried', async (t) => {
  t.timeout(longTestMs);
  const scene = await newScene();
  const list = await serve(t, (_request, response) => response.end('nothing\r\n'));
  const { page, complaints, close } = await open(scene.at('/sign-in'));
  await signIn(page, scene.owner);
  const site = page.getByLabel('Address of your application');
  await site.fill('javascript:alert(1)');
  await page.getByLabel(/^Further allowed/).fill('https://app.example/\nhttps://*.example/');
  await page.getByLabel(/^Address of a logo/).fill('http://logo.example/');
  await page.getByRole('button', { name: 'Save the settings' }).click();
  await page.getByRole('alert').waitFor();
  for (const label of [/^Address of your application/, /^Further allowed/, /^Address of a logo/])
    t.is(await page.getByLabel(label).getAttribute('aria-invalid'), 'true', String(label));
  const described = await page.getByLabel(/^Further allowed/).getAttribute('aria-describedby');
  t.regex((await page.locator(`[id="${described}"]`).textContent()) ?? '', /^no\. 2 /i);
  t.is(await page.getByRole('alert').getByText('redirect_allow_list').count(), 0, 'it is said once');
  await looksRight(t, page, 'sign-in-faults');
  await page.getByLabel(/^List of passwords/).fill(`${list}/range/`);
  await page.getByRole('button', { name: 'Test the list' }).click();
  await page.getByText(/It does not list the password/).waitFor();
  t.is(await site.inputValue(), 'javascript:alert(1)');
  t.deepEqual(seriousOf(complaints), []);
  await close();
});

inBrowser('a colleague’s change of the settings is shown, and only one’s own fields are saved', async (t) => {
  t.timeout(longTestMs);
  const scene = await newScene();
  const { page, complaints, close } = await open(scene.at('/sign-in'));
  await signIn(page, scene.owner);
  await page.getByLabel('Fewest characters').fill('14');
  await scene.call('PATCH', '/auth/settings', { signup: 'closed', session: { idle_s: 7200 } });
  await page.getByLabel('Days after which every sign-in ends').fill('10');
  await page.getByRole('button', { name: 'Save the settings' }).click();
  await page.getByText(/Nothing was overwritten/).waitFor();
  await page.getByRole('region', { name: 'What they changed' }).getByText('closed').waitFor();
  await looksRight(t, page, 'sign-in-conflict');
  t.like(await scene.call('GET', '/auth/settings'), { signup: 'closed', password_min: 8 });
  await page.getByRole('button', { name: 'Save mine all the same' }).click();
  await page.getByText('Saved.').waitFor();
  const { session, ...rest } = await scene.call('GET', '/auth/settings');
  t.like(rest, { signup: 'closed', password_min: 14 });
  t.like(session, { idle_s: 7200, absolute_s: 10 * 86_400 });
  t.is(await page.getByRole('combobox', { name: 'New users' }).inputValue(), 'closed');

  await page.getByLabel('Fewest characters').fill('20');
  await scene.call('PATCH', '/auth/settings', { password_min: 16 });
  await page.getByRole('button', { name: 'Save the settings' }).click();
  await page.getByRole('button', { name: 'Take theirs' }).click();
  await page.getByText(/Nothing was overwritten/).waitFor({ state: 'detached' });
  t.is(await page.getByLabel('Fewest characters').inputValue(), '16');
  t.deepEqual(seriousOf(complaints), []);
  await close();
});

inBrowser('a captcha is tried, kept with a secret that nobody sees again, changed and removed', async (t) => {
  t.timeout(longTestMs);
  const scene = await newScene();
  const service = await serve(t, (request, response) => {
    let text = '';
    request.on('data', (piece: Buffer) => (text += piece.toString()));
    request.on('end', () => {
      const isKnown = new URLSearchParams(text).get('secret') === 'a-very-secret-key-of-captcha';
      const codes = [isKnown ? 'invalid-input-response' : 'invalid-input-secret'];
      response.end(JSON.stringify({ success: false, 'error-codes': codes }));
    });
  });
  const { page, complaints, close } = await open(scene.at('/sign-in?tab=checks'));
  await signIn(page, scene.owner);
  await page.getByText('No captcha is asked for.').waitFor();
  await page.getByRole('button', { name: 'Set up a captcha' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel(/^Site key/).fill(hostile);
  await dialog.getByLabel(/^Secret/).fill('wrong');
  await dialog.getByLabel(/^Another service/).fill(`${service}/siteverify`);
  await dialog.getByRole('button', { name: 'Test it' }).click();
  await dialog.getByText(/It does not know the secret/).waitFor();
  await dialog.getByLabel(/^Secret/).fill('a-very-secret-key-of-captcha');
  await dialog.getByRole('button', { name: 'Test it' }).click();
  await dialog.getByText(/does not object to the secret/).waitFor();
  await looksRight(t, page, 'captcha');
  await dialog.getByRole('button', { name: 'Save the captcha' }).click();
  await dialog.waitFor({ state: 'detached' });
  const captcha = page.getByRole('region', { name: 'Captcha' });
  await captcha.getByText('Cloudflare Turnstile').waitFor();
  await captcha.getByText('<img src=x').waitFor();
  t.false((await page.content()).includes('a-very-secret-key-of-captcha'));

  await page.getByRole('button', { name: 'Change the captcha' }).click();
  t.is(await dialog.getByLabel(/^Secret/).inputValue(), '');
  await dialog.getByRole('button', { name: 'Test it' }).click();
  await dialog.getByText(/does not object to the secret/).waitFor();
  await dialog.getByRole('combobox', { name: 'Provider' }).selectOption('hcaptcha');
  await dialog.getByLabel(/^Another service/).fill('https://elsewhere.example/verify');
  await dialog.getByRole('button', { name: 'Save the captcha' }).click();
  await dialog.getByText('is masked, and there is no such value to keep').waitFor();
  await dialog.getByLabel(/^Another service/).fill(`${service}/siteverify`);
  await scene.call('PATCH', '/auth/settings', { password_min: 11 });
  await dialog.getByRole('button', { name: 'Save the captcha' }).click();
  await dialog.getByText(/Nothing was overwritten/).waitFor();
  await dialog.getByRole('button', { name: 'Save mine all the same' }).click();
  await captcha.getByText('hCaptcha').first().waitFor();
  t.is((await scene.call('GET', '/auth/settings')).password_min, 11);
  await captcha.getByRole('button', { name: 'Remove' }).click();
  await page.getByRole('button', { name: 'Remove the captcha' }).click();
  await page.getByText('No captcha is asked for.').waitFor();
  t.is((await scene.call('GET', '/auth/settings')).captcha, null);
  t.deepEqual(seriousOf(complaints), []);
  await close();
});

inBrowser('a claims function is tried against a user before it is chosen, with its failures in words', async (t) => {
  t.timeout(longTestMs);
  const scene = await newScene();
  const { client } = platform();
  const adds = `export const handler = ({ user, claims }) =>
    ({ claims: { ...claims, team: ${JSON.stringify(hostile)}, role: 'service_role' } });`;
  const good = await client.deploy(scene.owner, scene.project, adds);
  const bad = await client.deploy(
    scene.owner,
    scene.project,
    `export const handler = () => { throw new Error('no team'); };`,
  );
  await scene.call('POST', '/users', { email: 'ada@example.com', password: 'correct horse battery' });
  const { page, complaints, close } = await open(scene.at('/sign-in?tab=checks'));
  await signIn(page, scene.owner);
  const claims = page.getByRole('region', { name: 'Custom claims' });
  await claims.getByLabel('Function').selectOption(bad.id);
  await claims.getByLabel(/^Address or id/).fill('nobody@example.com');
  await claims.getByRole('button', { name: 'Try it' }).click();
  await claims.getByText('Nobody has this address or id.').waitFor();
  await claims.getByLabel(/^Address or id/).fill('ada@example.com');
  await claims.getByRole('button', { name: 'Try it' }).click();
  await claims.getByText(/The sign-in would be refused after \d+ ms: .*no team/).waitFor();
  await claims.getByLabel('Function').selectOption(good.id);
  await claims.getByRole('button', { name: 'Try it' }).click();
  await claims.getByText(/Only the platform sets role/).waitFor();
  await claims.getByRole('region', { name: 'Claims of the access token' }).getByText('<img src=x').waitFor();
  await looksRight(t, page, 'claims');

  await claims.getByRole('button', { name: 'Choose the function' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Function').selectOption(good.id);
  await dialog.getByRole('button', { name: 'Save the function' }).click();
  await dialog.waitFor({ state: 'detached' });
  await claims.getByText('changes the claims of each access token.').waitFor();
  t.is((await scene.call('GET', '/auth/settings')).custom_claims_function_id, good.id);
  await claims.getByRole('button', { name: 'Choose the function' }).click();
  await dialog.getByLabel('Function').selectOption(bad.id);
  await scene.call('DELETE', `/functions/${bad.id}`);
  await dialog.getByRole('button', { name: 'Save the function' }).click();
  await dialog.getByText('must be a function of the project').waitFor();
  t.is(await dialog.getByLabel('Function').getAttribute('aria-invalid'), 'true');
  t.deepEqual(seriousOf(complaints), []);
  await close();
});

inBrowser('an OpenID client is registered, its secret shown once and rolled, changed and deleted', async (t) => {
  t.timeout(longTestMs);
  const scene = await newScene();
  const { page, complaints, close } = await open(scene.at('/sign-in?tab=clients'));
  await signIn(page, scene.owner);
  await page.getByText('There are no clients.').waitFor();
  await page.getByText(`/oauth/${scene.project.id}`).first().waitFor();
  await page.getByRole('button', { name: 'New client' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel(/^Name/).fill(hostile);
  await dialog.getByLabel(/^Where codes/).fill('https://app.example/callback\nhttp://other.example/');
  await dialog.getByRole('button', { name: 'Register the client' }).click();
  await dialog.getByRole('alert').waitFor();
  t.is(await dialog.getByLabel(/^Where codes/).getAttribute('aria-invalid'), 'true');
  await looksRight(t, page, 'client-new');
  await dialog.getByLabel(/^Where codes/).fill('https://app.example/callback');
  await dialog.getByRole('button', { name: 'Register the client' }).click();
  await dialog.getByText('The secret is shown this once.').waitFor();
  const secretOf = async (): Promise<string> => (await dialog.locator('.copyable code').last().textContent()) ?? '';
  const first = await secretOf();
  t.regex(first, /^plinth_cs_/);
  await dialog.getByRole('button', { name: 'I have saved it' }).click();
  await page.getByRole('region', { name: 'Clients' }).getByText('<img src=x').first().waitFor();
  t.false((await page.content()).includes(first));
  await looksRight(t, page, 'clients');

  await page.getByRole('button', { name: /^New secret of/ }).click();
  await dialog.getByRole('button', { name: 'Make a new secret' }).click();
  await dialog.getByText('The secret is shown this once.').waitFor();
  t.not(await secretOf(), first);
  await dialog.getByRole('button', { name: 'I have saved it' }).click();

  const { clients } = await scene.call('GET', '/oauth/clients');
  const path = `/oauth/clients/${clients[0].client_id}`;
  await page.getByRole('button', { name: /^Change/ }).click();
  await scene.call('PATCH', path, { scopes: ['openid'] });
  await dialog.getByLabel(/^Where codes/).fill('https://app.example/callback\nhttps://app.example/second');
  await dialog.getByRole('button', { name: 'Save the client' }).click();
  await dialog.getByText(/Nothing was overwritten/).waitFor();
  await dialog.getByRole('button', { name: 'Save mine all the same' }).click();
  await dialog.waitFor({ state: 'detached' });
  t.like(await scene.call('GET', path), {
    scopes: ['openid'],
    redirect_uris: ['https://app.example/callback', 'https://app.example/second'],
  });
  await page.getByRole('button', { name: /^Delete/ }).click();
  t.true(await page.getByRole('button', { name: 'Delete the client' }).isDisabled());
  await dialog.getByRole('textbox').fill(hostile);
  await page.getByRole('button', { name: 'Delete the client' }).click();
  await page.getByText('There are no clients.').waitFor();
  t.deepEqual(seriousOf(complaints), []);
  await close();
});

inBrowser('keys are rotated, and the earlier ones say how long they verify', async (t) => {
  t.timeout(longTestMs);
  const scene = await newScene();
  const { page, complaints, close } = await open(scene.at('/sign-in?tab=keys'));
  await signIn(page, scene.owner);
  await page.getByText('There are no keys yet').waitFor();
  const { access_token: token } = await scene.call('POST', '/users/tokens', { sub: 'user-1' });
  const { kid } = decodeProtectedHeader(token);
  await page.reload();
  const keys = page.getByRole('region', { name: 'Signing keys' });
  await keys.getByText(kid ?? 'none').waitFor();
  await page.getByRole('button', { name: 'Rotate the keys' }).click();
  const dialog = page.getByRole('dialog');
  await looksRight(t, page, 'keys-rotate');
  await dialog.getByLabel(/^The present keys/).selectOption('for an hour');
  await dialog.getByRole('button', { name: 'Rotate the keys' }).click();
  await dialog.waitFor({ state: 'detached' });
  await keys
    .getByText(/^verifies until/)
    .first()
    .waitFor();
  t.is(await keys.getByText('signs', { exact: true }).count(), 2);
  await looksRight(t, page, 'signing-keys');
  t.deepEqual(seriousOf(complaints), []);
  await close();
});

inBrowser('a viewer sees all parts of sign-in, and no control that writes; a developer tries claims', async (t) => {
  t.timeout(longTestMs);
  const scene = await newScene();
  await platform().client.deploy(scene.owner, scene.project, 'export const handler = () => ({ claims: {} });');
  await scene.call('POST', '/oauth/clients', { name: hostile, redirect_uris: ['https://app.example/callback'] });
  await scene.call('PATCH', '/auth/settings', {
    captcha: { provider: 'hcaptcha', secret: 'a-very-secret-key-of-captcha' },
  });
  const viewer = await addMember(platform(), scene.project.orgId, 'viewer');
  const { page, complaints, close } = await open(scene.at('/sign-in?tab=checks'));
  await signIn(page, viewer);
  const main = page.getByRole('main');
  await page.getByRole('region', { name: 'Captcha' }).getByText('hCaptcha').first().waitFor();
  await page.getByText('No function changes the claims of tokens.').waitFor();
  t.is(await main.getByRole('button').count(), 0);
  await page.getByRole('link', { name: 'OpenID clients' }).click();
  await page.getByText('<img src=x').first().waitFor();
  await page.getByText(`/oauth/${scene.project.id}`).first().waitFor();
  t.deepEqual(await main.getByRole('button').allTextContents(), ['Copy']);
  await page.getByRole('link', { name: 'Signing keys' }).click();
  await page.getByText('There are no keys yet').waitFor();
  t.deepEqual(await main.getByRole('button').allTextContents(), ['Copy']);
  t.deepEqual(seriousOf(complaints), []);
  await close();

  const developer = await addMember(platform(), scene.project.orgId, 'developer');
  const second = await open(scene.at('/sign-in?tab=checks'));
  await signIn(second.page, developer);
  await second.page.getByRole('button', { name: 'Try it' }).waitFor();
  t.deepEqual(await second.page.getByRole('main').getByRole('button').allTextContents(), ['Try it']);
  await second.close();
});
