import { readFile } from 'node:fs/promises';
import test from 'ava';
import { addMember } from '#test/support/members.ts';
import { longTestMs } from '#test/support/time-outs.ts';
import { inBrowser, useBrowser } from '../ops/browser.ts';
import { looksRight, seriousOf, signIn } from './browse.ts';
import { useDashboard } from './scene.ts';

const { platform } = useDashboard(test);
const open = useBrowser();

inBrowser('the audit log is filtered, shows what differs, and is downloaded', async (t) => {
  t.timeout(longTestMs);
  const { client } = platform();
  const owner = await client.signUp();
  const project = await client.createProject(owner);
  const rename = (name: string) =>
    client.call('PATCH', `/projects/${project.id}`, { token: owner.token, body: { name } });
  await rename('<img src=x onerror=alert(1)>');
  await rename('=1+1');
  const at = `${platform().base}/dashboard/orgs/${project.orgId}/audit`;
  const { page, complaints, close } = await open(at);
  await signIn(page, owner);
  await page.getByText('project.update').first().waitFor();
  await page.getByText('api_key.create').first().waitFor();
  await page.getByLabel('Action').fill('project.update');
  await page.getByLabel('Actor').fill(owner.email);
  await page.getByRole('button', { name: 'Search' }).click();
  await page.getByText('api_key.create').first().waitFor({ state: 'detached' });
  await page.reload();
  await page.getByText('project.update').first().click();
  const changes = page.getByRole('region', { name: /before and after$/ });
  await changes.getByText('<img src=x onerror=alert(1)>').waitFor();
  await changes.getByText('=1+1').waitFor();
  await looksRight(t, page, 'audit');
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Download as CSV' }).click(),
  ]);
  const text = await readFile(await download.path(), 'utf8');
  t.regex(text, /^created_at,actor,action,/);
  t.is(text.trim().split('\r\n').length, 3);
  t.true(text.includes(owner.email));
  await page.getByLabel('Actor').fill('nobody@example.com');
  await page.getByRole('button', { name: 'Search' }).click();
  await page.getByText('No entry was found.').waitFor();
  t.deepEqual(seriousOf(complaints), []);
  await close();
});

inBrowser('a developer has no tab for the audit log, and is told so at its address', async (t) => {
  t.timeout(longTestMs);
  const { client } = platform();
  const owner = await client.signUp();
  const project = await client.createProject(owner);
  const developer = await addMember(platform(), project.orgId, 'developer');
  const { page, complaints, close } = await open(`${platform().base}/dashboard/orgs/${project.orgId}/audit`);
  await signIn(page, developer);
  await page.getByText('There is no such page, or your role does not open it.').waitFor();
  t.is(await page.getByRole('link', { name: 'Audit log' }).count(), 0);
  t.deepEqual(seriousOf(complaints), []);
  await close();
});
