import test from 'ava';
import { addMember } from '#test/support/members.ts';
import { longTestMs } from '#test/support/time-outs.ts';
import { until } from '#test/support/until.ts';
import { inBrowser, useBrowser } from '../ops/browser.ts';
import { looksRight, seriousOf, signIn } from './browse.ts';
import { useDashboard } from './scene.ts';

const { platform } = useDashboard(test);
const open = useBrowser();

inBrowser('a leaked key becomes a rolled key: both work for a while, then the old one is deleted', async (t) => {
  t.timeout(longTestMs);
  const { client } = platform();
  const owner = await client.signUp();
  const project = await client.createProject(owner);
  const use = async (key: string): Promise<number> =>
    (await client.call('GET', `/p/${project.ref}/rest/v1/`, { key })).status;
  t.is(await use(project.key), 200);
  await until(async () => {
    const { body } = await client.call('GET', `/projects/${project.id}/api-keys`, { token: owner.token });
    return body.api_keys.some((key: { last_used_at: string | null }) => key.last_used_at !== null);
  });
  const { page, complaints, close } = await open(`${platform().base}/dashboard/projects/${project.id}/keys`);
  await signIn(page, owner);
  await page.getByLabel('Name').fill('<b>old</b> "key"');
  await page.getByLabel('Kind').selectOption('secret');
  await page.getByRole('button', { name: 'Create a key' }).click();
  const first = (await page.getByRole('dialog').locator('.copyable code').textContent()) ?? '';
  await looksRight(t, page, 'key-made');
  await page.getByRole('button', { name: 'I have saved it' }).click();
  t.false((await page.content()).includes(first));
  await page.getByRole('button', { name: 'Roll <b>old</b> "key"' }).click();
  await page.getByLabel(/^The old key/).selectOption('for a day');
  await page.getByRole('button', { name: 'Roll the key' }).click();
  const second = (await page.getByRole('dialog').locator('.copyable code').textContent()) ?? '';
  const code = page.getByRole('dialog').getByRole('region', { name: 'Code' }).locator('pre');
  for (const language of ['JavaScript', 'Python', 'curl']) {
    await page.getByRole('dialog').getByRole('button', { name: language, exact: true }).click();
    t.true(((await code.textContent()) ?? '').includes(second), language);
  }
  await page.getByRole('button', { name: 'I have saved it' }).click();
  t.deepEqual([await use(first), await use(second)], [200, 200]);
  await looksRight(t, page, 'keys');
  await page.getByRole('button', { name: 'Delete <b>old</b> "key"' }).first().click();
  await page.getByRole('button', { name: 'Delete the key' }).click();
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await until(async () => (await use(first)) === 401);
  t.is(await use(second), 200);
  t.deepEqual(seriousOf(complaints), []);
  await close();
});

inBrowser('a project is renamed, gets shared variables, and is deleted by its name', async (t) => {
  t.timeout(longTestMs);
  const { client } = platform();
  const owner = await client.signUp();
  const project = await client.createProject(owner);
  const { page, complaints, close } = await open(`${platform().base}/dashboard/projects/${project.id}/settings`);
  await signIn(page, owner);
  const name = '<i>My</i> "Ü" 🦄';
  const general = page.getByRole('group', { name: 'General' });
  await general.getByLabel('Name', { exact: true }).fill(name);
  await general.getByLabel(/^Schemas/).fill('auth');
  await general.getByRole('button', { name: 'Save the settings' }).click();
  await page.getByRole('alert').getByText('cannot be exposed').waitFor();
  t.is(await general.getByLabel('Name', { exact: true }).inputValue(), name);
  await general.getByLabel(/^Schemas/).fill('');
  await general.getByRole('button', { name: 'Save the settings' }).click();
  await page.getByText('Saved.').waitFor();
  await page.getByLabel('Name', { exact: true }).last().fill('API_TOKEN');
  await page.getByLabel('Value').fill('very-secret-value');
  await page.getByRole('button', { name: 'Set the variable' }).click();
  await page.getByRole('button', { name: 'Delete API_TOKEN' }).waitFor();
  t.false((await page.content()).includes('very-secret-value'));
  await looksRight(t, page, 'settings');
  await page.getByRole('button', { name: 'Delete API_TOKEN' }).click();
  await page.getByRole('button', { name: 'Delete the variable' }).click();
  await page.getByText('There are no shared variables.').waitFor();
  await page.getByRole('button', { name: 'Delete the project' }).click();
  await page.getByText('0 tables with all rows').waitFor();
  await looksRight(t, page, 'project-delete');
  const last = page.getByRole('dialog').getByRole('button', { name: 'Delete the project' });
  await page.getByRole('dialog').getByRole('textbox').fill(name.slice(1));
  t.true(await last.isDisabled());
  await page.getByRole('dialog').getByRole('textbox').fill(name);
  await last.click();
  await page.getByText(/No project yet/).waitFor();
  t.is((await client.call('GET', `/projects/${project.id}`, { token: owner.token })).status, 404);
  t.deepEqual(seriousOf(complaints), []);
  await close();
});

inBrowser('a viewer sees keys and settings, and no control that writes', async (t) => {
  t.timeout(longTestMs);
  const { client } = platform();
  const owner = await client.signUp();
  const project = await client.createProject(owner);
  const viewer = await addMember(platform(), project.orgId, 'viewer');
  const { page, complaints, close } = await open(`${platform().base}/dashboard/projects/${project.id}/keys`);
  await signIn(page, viewer);
  await page.getByText(/Keys are made, rolled and deleted by/).waitFor();
  const main = page.getByRole('main');
  t.deepEqual(await main.getByRole('button').allTextContents(), [
    'JavaScript',
    'Python',
    'curl',
    'Copy the JavaScript code',
  ]);
  await page.getByRole('link', { name: 'Settings' }).click();
  await page.getByText('Owners delete the project.').waitFor();
  await page.getByText('There are no shared variables.').waitFor();
  t.deepEqual(await main.getByRole('button').allTextContents(), ['Copy', 'Copy']);
  t.deepEqual(seriousOf(complaints), []);
  await close();
});
