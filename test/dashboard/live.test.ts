import test from 'ava';
import { longTestMs } from '#test/support/time-outs.ts';
import { until } from '#test/support/until.ts';
import { inBrowser, useBrowser } from '../ops/browser.ts';
import { seriousOf, signIn } from './browse.ts';
import { useDashboard } from './scene.ts';

const { platform } = useDashboard(test);
const open = useBrowser();

inBrowser('all tabs of a project share one stream, and each shows what happens without asking', async (t) => {
  t.timeout(longTestMs);
  const { client } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  const fn = await client.deploy(user, project, 'export const handler = () => { throw new Error("seen"); };');
  const at = `${platform().base}/dashboard/projects/${project.id}`;
  const { page, complaints, close } = await open(`${at}/jobs`);
  const requested: string[] = [];
  page.context().on('request', (request) => requested.push(new URL(request.url()).pathname));
  await signIn(page, user);
  await page.getByRole('link', { name: 'Creation of the project' }).or(page.getByRole('row').nth(1)).first().waitFor();
  await until(() => requested.some((each) => each.endsWith('/live')));
  const other = await page.context().newPage();
  await other.goto(`${at}/jobs?status=failed`);
  await other.getByText('There is no such job.').waitFor();
  await client.call('POST', `/projects/${project.id}/functions/${fn.id}/invoke`, {
    token: user.token,
    body: { payload: null },
  });
  await other.getByText('seen').waitFor();
  await page.bringToFront();
  await page.getByText('seen').waitFor();
  t.is(requested.filter((each) => each.endsWith('/live')).length, 1);

  await page.close();
  await until(() => requested.filter((each) => each.endsWith('/live')).length === 2);
  await client.call('POST', `/projects/${project.id}/functions/${fn.id}/invoke`, {
    token: user.token,
    body: { payload: null },
  });
  await until(async () => (await other.getByRole('row').count()) === 3);
  t.deepEqual(seriousOf(complaints), []);
  await close();
});

inBrowser('a page says that the platform is away, keeps what was typed, and goes on when it is back', async (t) => {
  t.timeout(longTestMs);
  const { client } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  const fn = await client.deploy(user, project, 'export const handler = () => "deployed";');
  const { page, close } = await open(`${platform().base}/dashboard/projects/${project.id}/functions/${fn.id}`);
  await signIn(page, user);
  await page.locator('.cm-content').click();
  await page.keyboard.press('Control+A');
  await page.keyboard.insertText('export const handler = () => "typed";');
  await page.context().setOffline(true);
  await page.getByRole('button', { name: 'Deploy', exact: true }).click();
  await page.getByRole('alert').getByText('The platform cannot be reached.').waitFor();
  await page.getByRole('button', { name: 'Run the draft' }).click();
  await page.getByRole('region', { name: 'Run' }).getByText('The platform cannot be reached.').waitFor();
  await page.context().setOffline(false);
  t.true((await page.locator('.cm-content').innerText()).includes('typed'));
  await page.getByRole('button', { name: 'Run the draft' }).click();
  await page.getByText('"typed"', { exact: true }).last().waitFor();
  await page.getByRole('button', { name: 'Deploy', exact: true }).click();
  await page.getByText('Version 2', { exact: true }).waitFor();
  await close();
});
