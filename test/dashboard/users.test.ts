import test from 'ava';
import type { Page } from 'playwright-core';
import type { TestProject, TestUser } from '#test/support/client.ts';
import { addMember } from '#test/support/members.ts';
import { longTestMs } from '#test/support/time-outs.ts';
import { inBrowser, useBrowser } from '../ops/browser.ts';
import { looksRight, seriousOf, signIn } from './browse.ts';
import { useDashboard } from './scene.ts';

const { platform } = useDashboard(test);
const open = useBrowser();

const hostile = '<img src=x onerror=alert(1)> "Ü" \u202Emoc.live 🦄';

interface Scene {
  readonly owner: TestUser;
  readonly project: TestProject;
  readonly at: (path?: string) => string;
}

const newScene = async (): Promise<Scene> => {
  const { client } = platform();
  const owner = await client.signUp();
  const project = await client.createProject(owner);
  return { owner, project, at: (path = '') => `${platform().base}/dashboard/projects/${project.id}${path}` };
};

const newUser = async ({ owner, project }: Scene, email: string, more: object = {}): Promise<string> => {
  const body = { email, password: 'correct horse battery', ...more };
  const {
    status,
    body: made,
    text,
  } = await platform().client.call('POST', `/projects/${project.id}/users`, {
    token: owner.token,
    body,
  });
  if (status !== 201) throw new Error(text);
  return made.id;
};

const signUpAs = async ({ project }: Scene, email: string): Promise<void> => {
  const path = `/p/${project.ref}/auth/v1/token?grant_type=password`;
  const body = { email, password: 'correct horse battery' };
  const { status, text } = await platform().client.call('POST', path, { key: project.publishableKey, body });
  if (status !== 200) throw new Error(text);
};

/** A file as a person picks it. */
const file = (text: string) => ({ name: 'users.json', mimeType: 'application/json', buffer: Buffer.from(text) });

const heading = (page: Page, name: string) => page.getByRole('heading', { level: 1, name }).waitFor();

inBrowser('users are made, found, looked at, banned and deleted', async (t) => {
  t.timeout(longTestMs);
  const scene = await newScene();
  await newUser(scene, 'ada@example.com', { user_metadata: { name: hostile } });
  await newUser(scene, 'bob@example.com');
  await signUpAs(scene, 'ada@example.com');
  const { page, complaints, close } = await open(scene.at('/users'));
  await signIn(page, scene.owner);
  await heading(page, 'Users');
  await page.getByRole('link', { name: 'bob@example.com' }).waitFor();
  await looksRight(t, page, 'users');

  await page.getByLabel('Address or id').fill('ada@');
  await page.keyboard.press('Enter');
  await page.getByRole('link', { name: 'bob@example.com' }).waitFor({ state: 'detached' });
  t.regex(page.url(), /\?q=ada%40/);
  await page.reload();
  await page.getByRole('link', { name: 'ada@example.com' }).click();
  await heading(page, 'ada@example.com');
  await page.getByText('onerror=alert(1)').waitFor();
  await page.getByRole('region', { name: 'Sign-ins' }).waitFor();
  await looksRight(t, page, 'user');

  await page.getByLabel(/^Application metadata/).fill('{"plan": ');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('alert').waitFor();
  await page.reload();
  t.is(await page.getByLabel(/^Application metadata/).inputValue(), '{"plan": ');
  const shown: string[] = [];
  await page.route('**/users/*', async (route) => {
    if (route.request().method() === 'GET') shown.push(await page.getByLabel(/^Application metadata/).inputValue());
    await route.continue();
  });
  await page.getByLabel(/^Application metadata/).fill('{"plan": "gold"}');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('button', { name: 'Save' }).waitFor({ state: 'detached' });
  t.is(shown[0], '{"plan": "gold"}', 'what was saved is shown until it is read again');
  await page.unroute('**/users/*');
  t.regex(await page.getByLabel(/^Application metadata/).inputValue(), /"plan": "gold"/);

  await page.getByRole('button', { name: 'Sign out everywhere' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Sign out' }).click();
  await page.getByText('The user is signed in nowhere.').waitFor();
  await page.getByRole('button', { name: 'Ban', exact: true }).click();
  await looksRight(t, page, 'ban');
  await page.getByRole('dialog').getByRole('button', { name: 'Ban' }).click();
  await page.getByText(/banned until/).waitFor();
  await page.getByRole('button', { name: 'End the ban' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'End the ban' }).click();
  await page.getByText('confirmed', { exact: true }).waitFor();

  await page.getByRole('button', { name: 'Delete', exact: true }).click();
  await page.getByRole('button', { name: 'Delete the user' }).click();
  await heading(page, 'Users');
  await page.getByRole('link', { name: 'bob@example.com' }).waitFor();
  t.is(await page.getByRole('link', { name: 'ada@example.com' }).count(), 0);
  t.deepEqual(seriousOf(complaints), []);
  await close();
});

inBrowser('an admin signs in as a user, and hands out a link for a password', async (t) => {
  t.timeout(longTestMs);
  const scene = await newScene();
  const { client } = platform();
  await client.call('PATCH', `/projects/${scene.project.id}/auth/settings`, {
    token: scene.owner.token,
    body: { site_url: 'https://app.example/start' },
  });
  const uid = await newUser(scene, 'mary@example.com');
  const { page, complaints, close } = await open(scene.at(`/users/${uid}`));
  await signIn(page, scene.owner);
  await page.getByRole('button', { name: 'Sign in as' }).click();
  await page.getByRole('button', { name: 'Sign in for 30 minutes' }).click();
  const link = page.getByRole('link', { name: 'Open the application as this user' });
  await link.waitFor();
  await looksRight(t, page, 'sign-in-as');
  const address = new URL((await link.getAttribute('href')) ?? '');
  t.is(address.host, 'app.example');
  const token = new URLSearchParams(address.hash.slice(1)).get('access_token') ?? '';
  const self = await client.call('GET', `/p/${scene.project.ref}/auth/v1/user`, {
    key: scene.project.publishableKey,
    token,
  });
  t.is(self.body.id, uid);
  await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click();
  await page.getByText(/the team, until/).waitFor();
  await page.getByRole('button', { name: 'Reset link' }).click();
  await page.getByRole('button', { name: 'Make the link' }).click();
  await page.getByText(/\/auth\/v1\/verify\?type=recovery/).waitFor();
  t.deepEqual(seriousOf(complaints), []);
  await close();
});

inBrowser('users are made in dialogs, by file and with errors in words', async (t) => {
  t.timeout(longTestMs);
  const scene = await newScene();
  const { page, complaints, close } = await open(scene.at('/users'));
  await signIn(page, scene.owner);
  await page.getByText('Nobody has signed up yet.').waitFor();
  await page.getByRole('button', { name: 'Invite' }).click();
  await page.getByLabel('E-mail').fill('eve@example.com');
  await page.getByRole('button', { name: 'Send the invitation' }).click();
  await heading(page, 'eve@example.com');
  await page.getByText('not confirmed').waitFor();
  await page.getByRole('link', { name: 'All users' }).click();
  await page.getByRole('button', { name: 'Import' }).click();
  await page.getByLabel('File').setInputFiles(file('no json'));
  await page.getByText(/The file is not JSON/).waitFor();
  await page.getByLabel('File').setInputFiles(file('{"users": [{"email": "one@example.com"}, {"email": "nobody"}]}'));
  await page.getByText('The file has 2 users, 0 with a password.').waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Import' }).click();
  await page.getByText(/1 imported, 0 skipped, 1 failed/).waitFor();
  const faults = page.getByRole('region', { name: 'Not imported' });
  await faults.getByText('no. 2').waitFor();
  await faults.getByText('the address is not one').waitFor();
  await looksRight(t, page, 'users-imported');
  await page.getByRole('button', { name: 'Close' }).click();
  await page.getByRole('link', { name: 'one@example.com' }).waitFor();
  await page.getByRole('region', { name: 'Imports' }).getByText('succeeded').waitFor();
  await page.getByRole('button', { name: 'New user' }).click();
  await page.getByLabel('E-mail').fill('two@example.com');
  await page.getByLabel(/^Password/).fill('short');
  await page.getByRole('button', { name: 'Create the user' }).click();
  await page.getByRole('alert').waitFor();
  t.is(await page.getByLabel('E-mail').inputValue(), 'two@example.com');
  await page.getByLabel(/^Password/).fill('correct horse battery');
  await page.getByRole('button', { name: 'Create the user' }).click();
  await heading(page, 'two@example.com');
  t.deepEqual(seriousOf(complaints), []);
  await close();
});

const given = (text: string) => ({ name: 'users.csv', mimeType: 'text/csv', buffer: Buffer.from(text) });

/** The rows of a table with a first line of names, one of which has no meaning to the import. */
const table = [
  'email,email_verified,password_hash,user_metadata,team',
  'one@example.com,true,,"{""name"": ""Ü""}",<b>red</b>',
  '',
  'one@example.com,no,,,',
  'two@example.com,1,not-a-hash,,',
  '"three, the third",,,,',
  'four@example.com,,,no json,',
].join('\r\n');

inBrowser('a table of users is shown before it is imported, followed, and its errors named row by row', async (t) => {
  t.timeout(longTestMs);
  const scene = await newScene();
  await newUser(scene, 'ada@example.com');
  const { page, complaints, close } = await open(scene.at('/users'));
  await signIn(page, scene.owner);
  await page.getByRole('button', { name: 'Import' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('File').setInputFiles(given('name,address\nAda,ada@example.com'));
  await dialog.getByText(/one of them has to be email/).waitFor();
  await dialog.getByLabel('File').setInputFiles(given(`${table}\r\nada@example.com,,,,`));
  await dialog.getByText(/^The file has 6 users, 1 with a password\. 1 repeat/).waitFor();
  const preview = dialog.getByRole('region', { name: 'The first users of the file' });
  await preview.getByText('{"name":"Ü","team":"<b>red</b>"}').waitFor();
  await looksRight(t, page, 'users-preview');
  await dialog.getByRole('button', { name: 'Import' }).click();
  await dialog.getByText('1 imported, 2 skipped, 3 failed').waitFor();
  const faults = dialog.getByRole('region', { name: 'Not imported' });
  t.deepEqual(await faults.locator('tbody tr').allInnerTexts(), [
    'row 5\ttwo@example.com\tthe password hash is of no known form, or too costly',
    'row 6\tthree, the third\tthe address is not one',
    'row 7\tfour@example.com\ta field is missing, unknown, or not of its form',
  ]);
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    dialog.getByRole('button', { name: 'Download them' }).click(),
  ]);
  t.is(download.suggestedFilename(), 'users-not-imported.csv');
  await dialog.getByRole('button', { name: 'Close' }).click();
  await page.getByRole('link', { name: 'one@example.com' }).waitFor();
  t.is(await page.getByRole('link', { name: 'two@example.com' }).count(), 0);
  t.deepEqual(seriousOf(complaints), []);
  await close();
});

inBrowser('settings of sign-in and providers are kept', async (t) => {
  t.timeout(longTestMs);
  const scene = await newScene();
  const { page, complaints, close } = await open(scene.at('/sign-in'));
  await signIn(page, scene.owner);
  await page.getByRole('combobox', { name: 'New users' }).selectOption('invite');
  await page.getByLabel('Fewest characters').fill('12');
  await page.getByLabel(/^Further allowed/).fill('https://app.example/*\nnonsense');
  await page.getByRole('button', { name: 'Save the settings' }).click();
  await page.getByRole('alert').waitFor();
  t.is(await page.getByLabel('Fewest characters').inputValue(), '12');
  await page.getByLabel(/^Further allowed/).fill('https://app.example/*');
  await page.getByRole('button', { name: 'Save the settings' }).click();
  await page.getByText('Saved.').waitFor();
  await page.getByRole('button', { name: 'Add a provider' }).click();
  await page.getByLabel(/^Provider:/).fill('github');
  await page.getByLabel('Client id').fill(hostile);
  await page.getByLabel('Client secret').fill('very-secret-indeed');
  await page.getByRole('button', { name: 'Save the provider' }).click();
  await page.getByRole('button', { name: 'Change github' }).click();
  t.not(await page.getByLabel('Client secret').inputValue(), 'very-secret-indeed');
  await page.getByRole('button', { name: 'Save the provider' }).click();
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await page.reload();
  await page.getByRole('button', { name: 'Change github' }).waitFor();
  t.is(await page.getByRole('combobox', { name: 'New users' }).inputValue(), 'invite');
  t.is(await page.getByLabel(/^Further allowed/).inputValue(), 'https://app.example/*');
  await looksRight(t, page, 'sign-in-settings');
  t.deepEqual(seriousOf(complaints), []);
  await close();
});

inBrowser('a viewer sees users and settings, and no control that writes', async (t) => {
  t.timeout(longTestMs);
  const scene = await newScene();
  const uid = await newUser(scene, 'ada@example.com');
  const viewer = await addMember(platform(), scene.project.orgId, 'viewer');
  const { page, complaints, close } = await open(scene.at('/users'));
  await signIn(page, viewer);
  await page.getByText(/Users are made and changed by/).waitFor();
  await page.getByRole('link', { name: 'ada@example.com' }).waitFor();
  const main = page.getByRole('main');
  t.deepEqual(await main.getByRole('button').allTextContents(), ['Search']);
  await page.goto(scene.at(`/users/${uid}`));
  await page.getByText(/Users are changed by/).waitFor();
  await page.getByRole('region', { name: 'Identities' }).waitFor();
  t.deepEqual(await main.getByRole('button').allTextContents(), ['Copy']);
  await page.goto(scene.at('/sign-in'));
  await page.getByLabel('Fewest characters').waitFor();
  t.true(await page.getByLabel('Fewest characters').isDisabled());
  t.is(await main.getByRole('button').count(), 0);
  t.deepEqual(seriousOf(complaints), []);
  await close();
});

inBrowser('a role that is lowered while a page is open is said in words, and its controls go', async (t) => {
  t.timeout(longTestMs);
  const scene = await newScene();
  const uid = await newUser(scene, 'ada@example.com');
  const colleague = await addMember(platform(), scene.project.orgId, 'admin');
  const { page, complaints, close } = await open(scene.at(`/users/${uid}`));
  await signIn(page, colleague);
  await page.getByRole('button', { name: 'Ban', exact: true }).click();
  const { client } = platform();
  const headers = { 'x-org-id': scene.project.orgId };
  const members = await client.call('GET', '/team/members', { token: scene.owner.token, headers });
  const member = (members.body as { id: string; email: string }[]).find(({ email }) => email === colleague.email);
  const body = { role: 'viewer' };
  await client.call('PATCH', `/team/members/${member?.id}/role`, { token: scene.owner.token, headers, body });
  await page.getByRole('dialog').getByRole('button', { name: 'Ban' }).click();
  await page.getByRole('alert').getByText(/role/).waitFor();
  await page.getByText(/Users are changed by/).waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  t.deepEqual(await page.getByRole('main').getByRole('button').allTextContents(), ['Copy']);
  t.deepEqual(seriousOf(complaints), []);
  await close();
});
