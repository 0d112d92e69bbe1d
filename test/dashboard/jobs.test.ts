import test from 'ava';
import { systemActor } from '#domain/audit/actor.ts';
import { addMember } from '#test/support/members.ts';
import { longTestMs } from '#test/support/time-outs.ts';
import { until } from '#test/support/until.ts';
import { inBrowser, useBrowser } from '../ops/browser.ts';
import { looksRight, signIn } from './browse.ts';
import { useDashboard } from './scene.ts';

const { platform } = useDashboard(test);
const open = useBrowser();

const code = `export const handler = async (payload, sdk) => {
  if (payload?.steps) {
    await sdk.step.run('first <b>', () => 1);
    await sdk.step.run('second', () => { throw new Error('step failed'); });
  }
  if (payload === 'bad') throw new Error('<i>no luck</i> \\u202Egnp');
  if (payload === 'once' && sdk.attempt < 2) throw new Error('the first time');
  return payload;
};`;

const setUp = async (at = '/jobs') => {
  const { client } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  const fn = await client.deploy(user, project, code);
  const base = `/projects/${project.id}`;
  const enqueue = async (body: object): Promise<string> => {
    const answer = await client.call('POST', `${base}/functions/${fn.id}/jobs`, { token: user.token, body });
    return String(answer.body.jobs[0].job_id);
  };
  const jobWhen = (id: string, ...statuses: string[]) =>
    until(async () => {
      const { body } = await client.call('GET', `${base}/jobs/${id}`, { token: user.token });
      return statuses.includes(String(body.status)) && body;
    });
  const visit = () => open(`${platform().base}/dashboard${base}${at}`);
  return { client, user, project, fn, base, enqueue, jobWhen, visit };
};

inBrowser('states are counted, jobs found, and run again together after a look at how many', async (t) => {
  t.timeout(longTestMs);
  const { user, enqueue, jobWhen, visit } = await setUp();
  const bad = await enqueue({ payload: 'bad' });
  const good = await enqueue({ payload: 'good' });
  const later = await enqueue({ payload: 'later', delay_ms: 3_600_000 });
  await jobWhen(bad, 'failed');
  await jobWhen(good, 'succeeded');
  const { page, complaints, close } = await visit();
  await signIn(page, user);
  await page
    .getByRole('link', { name: /failed/ })
    .filter({ hasText: '1' })
    .waitFor();
  await page.getByText('its time has not come').waitFor();
  await looksRight(t, page, 'jobs');
  await page.getByRole('link', { name: /failed/ }).click();
  await page.getByText('<i>no luck</i>').waitFor();
  t.true(page.url().includes('status=failed'));
  await until(async () => (await page.getByRole('row').count()) === 2);
  await page.getByRole('button', { name: 'Run all of these again…' }).click();
  await page.getByText('1 job', { exact: true }).waitFor();
  await looksRight(t, page, 'jobs-bulk');
  t.is((await jobWhen(bad, 'failed')).attempt, 1);
  await page.getByRole('button', { name: 'Run them again (1)' }).click();
  await page.getByText('1 of 1 were changed.').waitFor();
  await page.getByRole('button', { name: 'Close' }).click();
  await jobWhen(bad, 'failed');

  await page.getByRole('combobox', { name: 'Status' }).selectOption('queued');
  await page.getByRole('button', { name: 'Cancel all of these…' }).click();
  await page.getByRole('button', { name: 'Cancel them (1)' }).click();
  await page.getByText('1 of 1 were changed.').waitFor();
  await jobWhen(later, 'cancelled');
  t.deepEqual(
    complaints.filter((complaint) => !/status of 401/.test(complaint)),
    [],
  );
  await close();
});

inBrowser('a job shows its attempts, its steps, its payload and result, and runs again from a step on', async (t) => {
  t.timeout(longTestMs);
  const { user, enqueue, jobWhen, visit, base } = await setUp();
  const tried = await enqueue({ payload: 'once', retry: { max_attempts: 3, base_ms: 1 } });
  await jobWhen(tried, 'succeeded');
  const stepped = await enqueue({ payload: { steps: true } });
  await jobWhen(stepped, 'failed', 'dead');
  const { page, close } = await visit();
  await signIn(page, user);
  await page.getByRole('heading', { level: 1, name: 'Jobs' }).waitFor();
  await page.goto(`${platform().base}/dashboard${base}/jobs/${tried}`);
  await page.getByText(/attempt 1 failed/).waitFor();
  await page.getByText('the first time').waitFor();
  await page.getByRole('region', { name: 'Payload' }).getByText('once').waitFor();
  await looksRight(t, page, 'job');
  await page.goto(`${platform().base}/dashboard${base}/jobs/${stepped}`);
  await page.getByRole('cell', { name: 'first <b>', exact: true }).waitFor();
  await looksRight(t, page, 'job-steps');
  await page.getByRole('button', { name: 'Run again from first <b> on' }).click();
  await page.getByRole('region', { name: 'What happened' }).waitFor();
  t.is(await page.getByRole('alert').count(), 0);
  await close();
});

inBrowser('the queue says how soon a job would start, and which function failed', async (t) => {
  t.timeout(longTestMs);
  const { user, enqueue, jobWhen, visit } = await setUp('/jobs?tab=queue');
  await jobWhen(await enqueue({ payload: 'bad' }), 'failed');
  const { page, close } = await visit();
  await signIn(page, user);
  await page.getByText('A new job starts in about').waitFor();
  await page.getByRole('link', { name: 'Show them' }).waitFor();
  await looksRight(t, page, 'jobs-queue');
  await page.getByRole('link', { name: 'Show them' }).click();
  await page.getByText('<i>no luck</i>').waitFor();
  await close();
});

inBrowser('a role that is lowered while the page is open is said, and nothing is changed', async (t) => {
  t.timeout(longTestMs);
  const { project, enqueue, jobWhen, base } = await setUp();
  const job = await enqueue({ payload: 'bad' });
  await jobWhen(job, 'failed');
  const member = await addMember(platform(), project.orgId, 'developer');
  const { page, close } = await open(`${platform().base}/dashboard${base}/jobs/${job}`);
  await signIn(page, member);
  await page.getByRole('button', { name: 'Run again' }).waitFor();
  const lowered = `update members set role = 'viewer' where user_id = $1 and org_id = $2`;
  await platform().db.transaction((tx) => tx.query(lowered, [member.id, project.orgId]), systemActor);
  await page.getByRole('button', { name: 'Run again' }).click();
  await page
    .getByRole('alert')
    .getByText(/forbidden/)
    .waitFor();
  await page.reload();
  await page.getByRole('heading', { name: 'What happened' }).waitFor();
  t.is(await page.getByRole('button', { name: /Run again|Cancel/ }).count(), 0);
  await page.getByRole('link', { name: 'All jobs' }).click();
  await page.getByRole('row').nth(1).waitFor();
  t.is(await page.getByRole('button', { name: /Run|Cancel/ }).count(), 0);
  await close();
});
