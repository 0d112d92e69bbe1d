import test from 'ava';
import { ownOrgId } from '#test/support/organization.ts';
import { addMember } from '#test/support/members.ts';
import { longTestMs } from '#test/support/time-outs.ts';
import { inBrowser, useBrowser } from '../ops/browser.ts';
import { looksRight, seriousOf, signIn } from './browse.ts';
import { useDashboard } from './scene.ts';

const { platform } = useDashboard(test);
const open = useBrowser();

const hostile = '<img src=x onerror=alert(1)> "Ü" 🦄';

inBrowser('an invite becomes an accepted colleague, whose role is changed and who is removed', async (t) => {
  t.timeout(longTestMs);
  const { client } = platform();
  const owner = await client.signUp();
  const orgId = await ownOrgId(platform(), owner);
  const headers = { 'x-org-id': orgId };
  await client.call('PATCH', '/team/orgs/current', { token: owner.token, headers, body: { org_name: hostile } });
  const { page, complaints, close } = await open(`${platform().base}/dashboard`);
  await signIn(page, owner);
  await page.getByRole('link', { name: /^<img/ }).click();
  await page.getByRole('heading', { level: 1, name: hostile }).waitFor();
  await page.getByRole('button', { name: 'Invite a colleague' }).click();
  const email = `grace-${process.pid}@example.org`;
  await page.getByLabel('E-mail').fill(email);
  await page.getByRole('dialog').getByRole('combobox').selectOption('viewer');
  await page.getByText('A viewer looks at everything and changes nothing.').waitFor();
  await looksRight(t, page, 'invite');
  await page.getByRole('dialog').getByRole('button', { name: 'Invite' }).click();
  const link = await page
    .getByRole('dialog')
    .getByText(/\/invite\//)
    .textContent();
  await page.getByRole('button', { name: 'Close' }).click();
  await page
    .getByRole('row', { name: new RegExp(email) })
    .getByText('invited')
    .waitFor();

  const colleague = await open(platform().base + new URL(link ?? '').pathname);
  await colleague.page.getByText(hostile).waitFor();
  await colleague.page.getByText(`${owner.email} invites you to`).waitFor();
  await colleague.page.getByText(/as a viewer/).waitFor();
  await colleague.page.getByLabel('Choose a password').fill('correct horse battery');
  await colleague.page.getByLabel('Repeat the password').fill('correct horse battery');
  await colleague.page.getByRole('button', { name: 'Create account and join' }).click();
  await colleague.page.getByRole('link', { name: 'the dashboard' }).click();
  await signIn(colleague.page, { email, password: 'correct horse battery' });
  await colleague.page.getByRole('link', { name: /^<img/ }).click();
  await colleague.page.getByText('Admins and owners invite, change roles and remove.').waitFor();
  const offered = colleague.page.getByRole('main').getByRole('button');
  await colleague.page.getByRole('button', { name: 'Leave the organization' }).waitFor();
  t.deepEqual(await offered.allTextContents(), ['Leave']);
  t.is(await colleague.page.getByRole('link', { name: 'Settings' }).count(), 0);

  await page.reload();
  await page.getByRole('button', { name: `Change the role of ${email}` }).click();
  await page.getByRole('dialog').getByRole('combobox').selectOption('developer');
  await page.getByRole('button', { name: 'Change the role', exact: true }).click();
  await page
    .getByRole('row', { name: new RegExp(email) })
    .getByText('developer')
    .waitFor();
  await looksRight(t, page, 'members');
  await page.getByRole('button', { name: `Remove ${email}` }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click();
  await page.getByRole('row', { name: new RegExp(email) }).waitFor({ state: 'detached' });
  await colleague.page.reload();
  await colleague.page.getByText('There is no such organization, or you are not a member of it.').waitFor();
  t.deepEqual([...seriousOf(complaints), ...seriousOf(colleague.complaints)], []);
  await colleague.close();
  await close();
});

inBrowser('roles are explained by what they may do, and projects by what they use', async (t) => {
  t.timeout(longTestMs);
  const { client } = platform();
  const owner = await client.signUp();
  const project = await client.createProject(owner);
  const viewer = await addMember(platform(), project.orgId, 'viewer');
  const { page, complaints, close } = await open(`${platform().base}/dashboard/orgs/${project.orgId}/roles`);
  await signIn(page, viewer);
  await page.getByRole('strong').filter({ hasText: 'API keys' }).click();
  const row = page.getByRole('row', { name: /^Make a key/ });
  t.deepEqual(await row.getByRole('cell').allTextContents(), ['no', 'no', 'yes', 'yes']);
  await looksRight(t, page, 'roles');
  await page.getByRole('link', { name: 'Projects and usage' }).click();
  await page.getByRole('meter').first().waitFor();
  await page.getByText(/Invocations count anew from/).waitFor();
  await looksRight(t, page, 'org-projects');
  await page.goto(`${platform().base}/dashboard/orgs/${project.orgId}/settings`);
  await page.getByText('There is no such page, or your role does not open it.').waitFor();
  t.deepEqual(seriousOf(complaints), []);
  await close();
});

inBrowser('an organization is made, renamed, handed over and deleted', async (t) => {
  t.timeout(longTestMs);
  const { client } = platform();
  const owner = await client.signUp();
  const { page, complaints, close } = await open(`${platform().base}/dashboard`);
  await signIn(page, owner);
  await page.getByRole('button', { name: 'New organization' }).click();
  await page.getByLabel('Name').fill('Engines');
  await page.getByRole('button', { name: 'Create the organization' }).click();
  await page.getByRole('heading', { level: 1, name: 'Engines' }).waitFor();
  await page.getByRole('link', { name: 'Settings' }).click();
  await page.getByLabel('Name of the organization').fill('Difference Engines');
  await page.getByRole('button', { name: 'Rename' }).click();
  await page.getByRole('heading', { level: 1, name: 'Difference Engines' }).waitFor();
  await page.getByRole('button', { name: 'Delete the organization' }).click();
  t.true(await page.getByRole('button', { name: 'Delete everything' }).isDisabled());
  await page.getByRole('dialog').getByRole('textbox').fill('Difference Engines');
  await looksRight(t, page, 'org-delete');
  await page.getByRole('button', { name: 'Delete everything' }).click();
  await page.getByRole('heading', { level: 1, name: 'Projects' }).waitFor();
  await page.getByRole('link', { name: /Difference Engines/ }).waitFor({ state: 'detached' });
  t.deepEqual(seriousOf(complaints), []);
  await close();
});
