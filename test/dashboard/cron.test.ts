import test from 'ava';
import { addMember } from '#test/support/members.ts';
import { longTestMs } from '#test/support/time-outs.ts';
import { inBrowser, useBrowser } from '../ops/browser.ts';
import { looksRight, seriousOf, signIn } from './browse.ts';
import { useDashboard } from './scene.ts';

const { platform } = useDashboard(test);
const open = useBrowser();

inBrowser('a schedule is made for a function, run by hand, paused, changed and deleted', async (t) => {
  t.timeout(longTestMs);
  const { client } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  const fn = await client.deploy(user, project, 'export const handler = (x) => x;');
  const base = `/projects/${project.id}`;
  const only = async () => (await client.call('GET', `${base}/cron`, { token: user.token })).body.schedules[0];
  const { page, complaints, close } = await open(`${platform().base}/dashboard${base}/functions/${fn.id}?tab=triggers`);
  await signIn(page, user);
  await page.getByRole('link', { name: 'Run it at set times' }).click();
  await page.getByLabel('Name').fill('<b>nightly</b> \u202Egnp');
  await page.getByLabel('Payload').fill('{ "n": 1');
  await page.getByLabel('Times').fill('61 * * * *');
  await page.getByLabel('Time zone').fill('Europe/Berlin');
  await page.getByRole('button', { name: 'Create the schedule' }).click();
  await page.getByText('The payload is not JSON.').waitFor();
  await page.getByLabel('Payload').fill('{ "n": 1 }');
  await page.getByRole('button', { name: 'Create the schedule' }).click();
  await page.getByRole('dialog').getByRole('alert').waitFor();
  await looksRight(t, page, 'schedule-new');
  await page.getByRole('button', { name: 'every night at three' }).click();
  await page.getByRole('button', { name: 'Create the schedule' }).click();
  await page.getByText('It has not run yet.').waitFor();
  t.like(await only(), {
    schedule: '0 3 * * *',
    timezone: 'Europe/Berlin',
    payload: { n: 1 },
    target: { function_id: fn.id },
  });

  await page.getByRole('button', { name: 'Run it now' }).click();
  await page.getByRole('cell', { name: 'succeeded' }).waitFor();
  await looksRight(t, page, 'schedule');
  await page.getByRole('button', { name: 'Pause' }).click();
  await page.getByText('It is paused.').waitFor();
  t.like(await only(), { enabled: false });
  await page.getByText('Change it').click();
  await page.getByLabel('Times').fill('*/7 * * * *');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('*/7 * * * *').first().waitFor();
  t.like(await only(), { schedule: '*/7 * * * *', enabled: false, payload: { n: 1 } });
  await page.getByRole('link', { name: 'All schedules' }).click();
  await page.getByRole('cell', { name: 'paused' }).waitFor();
  await looksRight(t, page, 'schedules');
  await page.getByRole('link', { name: '<b>nightly</b>' }).click();
  await page.getByRole('button', { name: 'Delete', exact: true }).click();
  await page.getByRole('button', { name: 'Delete the schedule' }).click();
  await page.getByText(/No schedule yet/).waitFor();
  t.is(await only(), undefined);
  t.deepEqual(seriousOf(complaints), []);
  await close();
});

inBrowser('a viewer sees schedules and their runs, and is offered no change', async (t) => {
  t.timeout(longTestMs);
  const { client } = platform();
  const owner = await client.signUp();
  const project = await client.createProject(owner);
  const body = { name: 'one', schedule: '0 3 * * *', target: { type: 'sql', sql: 'select 1' } };
  await client.call('POST', `/projects/${project.id}/cron`, { token: owner.token, body });
  const viewer = await addMember(platform(), project.orgId, 'viewer');
  const { page, close } = await open(`${platform().base}/dashboard/projects/${project.id}/cron?new=any`);
  await signIn(page, viewer);
  await page.getByRole('link', { name: 'one' }).waitFor();
  t.is(await page.getByRole('dialog').count(), 0);
  t.is(await page.getByRole('button', { name: /New/ }).count(), 0);
  await page.getByRole('link', { name: 'one' }).click();
  await page.getByText('Developers, admins and owners change and run schedules.').waitFor();
  t.is(await page.getByRole('button', { name: /Run|Pause|Delete|Save/ }).count(), 0);
  await close();
});
