import test from 'ava';
import type { BrowserContextOptions } from 'playwright-core';
import { systemActor } from '#domain/audit/actor.ts';
import { newId } from '#lib/ids.ts';
import { usePlatform } from '#test/support/platform.ts';
import { useWebBuild } from '#test/support/web-build.ts';
import { fits, inBrowser, picture, signIn, useBrowser } from './browser.ts';
import { type SeededProject, dead, seedJobs, seedProjects } from './scene.ts';

// Without a worker: jobs wait until they are cancelled.
const platform = usePlatform(test, { worker: false, settings: useWebBuild(test) });
const visit = useBrowser();

let shop: SeededProject | undefined;

test.before('a shop has jobs that wait, failed and died, and schedules', async () => {
  const { db } = platform();
  [shop] = await seedProjects(db, 1);
  const projectId = shop?.id ?? '';
  await seedJobs(db, [
    ...Array.from({ length: 60 }, () => ({ projectId, status: 'failed', errorCode: 'error' })),
    ...Array.from({ length: 12 }, () => ({ projectId, status: 'queued', secondsAgo: 300 })),
    dead(projectId),
  ]);
  await db.transaction(async (tx) => {
    const [late, fine] = [newId(), newId()];
    await tx.query(
      `insert into schedules (id, project_id, name, schedule, timezone, target, payload, enabled, overlap, misfire, next_run_at, due_at)
       select id, $2, name, '*/5 * * * *', 'Europe/Berlin', '{"type":"http","url":"https://example.com"}', 'null', true, 'skip', 'once', at, at
       from unnest($1::uuid[], array['Nightly report', 'Heartbeat'], array[now() - interval '9 min', now() + interval '1 h']) as s (id, name, at)`,
      [[late, fine], projectId],
    );
    await tx.query(
      `insert into schedule_runs (id, schedule_id, fire_at, trigger, status, error_code, error_message)
       values ($2, $1, now() - interval '14 min', 'schedule', 'failed', 'timeout', 'example.com did not answer in time.')`,
      [late, newId()],
    );
  }, systemActor);
});

const at = async (view: string, options: BrowserContextOptions = {}) => {
  const one = await visit(`${platform().base}/ops/${view}`, options);
  await one.page.getByLabel('Token').waitFor();
  await signIn(one.page);
  return one;
};

const pausesOf = () => platform().db.query(`select from job_pauses where project_id is null and type = 'email.send'`);

inBrowser('a wrong token is said to be wrong', async (t) => {
  const { page, close } = await visit(`${platform().base}/ops`);
  await page.getByLabel('Token').fill('not the token');
  await page.keyboard.press('Enter');
  await page.getByRole('alert').getByText('not the operators’ token').waitFor();
  t.true(await page.getByRole('heading', { name: 'Operators only' }).isVisible());
  await close();
});

inBrowser('a type is paused for all projects after a question, and a failure of it is shown', async (t) => {
  const { page, close } = await at('');
  const pause = page.getByRole('button', { name: 'Pause email.send for all projects' });
  await pause.press('Enter');
  const dialog = page.getByRole('dialog');
  await dialog.getByText('Pause email.send for all projects?').waitFor();
  await page.route('**/ops/api/queues/*/pause', (route) =>
    route.fulfill({ status: 503, json: { code: 'overloaded', message: 'It is too busy.', details: null, hint: null } }),
  );
  await dialog.getByRole('button', { name: 'Pause' }).press('Enter');
  await dialog.getByRole('alert').getByText('It is too busy.').waitFor();
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
  t.is((await pausesOf()).length, 0);
  await page.unroute('**/ops/api/queues/*/pause');
  await pause.press('Enter');
  await dialog.getByRole('button', { name: 'Pause' }).press('Enter');
  await page.getByRole('button', { name: 'Resume email.send for all projects' }).press('Enter');
  await dialog.getByRole('button', { name: 'Resume' }).press('Enter');
  await pause.waitFor();
  t.is((await pausesOf()).length, 0);
  await close();
});

inBrowser('the global limit of a type is shown and set', async (t) => {
  const { page, close } = await at('');
  const card = page.getByRole('article', { name: 'email.send' });
  await card.getByText('Global limit: no limit').waitFor();
  await card.getByRole('button', { name: 'Global limit of email.send' }).press('Enter');
  await page.getByRole('dialog').getByLabel('At a time').fill('7');
  await page.keyboard.press('Enter');
  await card.getByText('Global limit: 7 at a time (set here)').waitFor();
  t.true(await fits(page));
  await close();
});

inBrowser('what is wrong now stands first, and leads to the jobs that it is about', async (t) => {
  const { page, close } = await at('');
  const section = page.getByRole('region', { name: 'What is wrong now' });
  await section.getByRole('link', { name: /function\.invoke failed with error in the last hour/ }).press('Enter');
  await page.getByText(/1–50 of/).waitFor();
  t.is(await page.getByLabel('Error code').inputValue(), 'error');
  await close();
});

inBrowser('the jobs of a filter are cancelled together after a question that says how many', async (t) => {
  const { page, close } = await at('jobs');
  const name = shop?.name ?? '';
  const cancel = page.getByRole('button', { name: 'Cancel all of this filter…' });
  t.true(await cancel.isDisabled(), 'not without a filter');
  await page.getByRole('textbox', { name: 'Project' }).fill(name);
  await page.getByLabel('Status').selectOption('queued');
  await page.keyboard.press('Enter');
  await page.getByRole('row').nth(1).waitFor();
  const waiting = () => platform().db.query(`select from jobs where project_id = $1 and status = 'queued'`, [shop?.id]);
  const before = (await waiting()).length;
  await cancel.press('Enter');
  const dialog = page.getByRole('dialog');
  await dialog.getByText(`Cancel ${before} jobs?`).waitFor();
  await picture(page, 'bulk-cancel');
  await dialog.getByRole('button', { name: 'Cancel them' }).press('Enter');
  await dialog.waitFor({ state: 'detached' });
  t.is((await waiting()).length, 0);
  t.true(before > 1);
  await close();
});

inBrowser('schedules show their expression, how they ended last, and that they are overdue', async (t) => {
  const { page, close } = await at('cron');
  const row = page.getByRole('row').filter({ hasText: 'Nightly report' });
  await row.getByText('overdue').waitFor();
  const text = await row.innerText();
  for (const part of ['*/5 * * * *', 'Europe/Berlin', 'failed', 'timeout: example.com did not answer in time.']) {
    t.true(text.includes(part), part);
  }
  t.regex(await page.getByRole('row').filter({ hasText: 'Heartbeat' }).innerText(), /none yet/);
  await close();
});

for (const colorScheme of ['light', 'dark'] as const) {
  for (const width of [390, 1280]) {
    inBrowser(`at ${width} px and in ${colorScheme} what changed fits`, async (t) => {
      const { page, close } = await at('', { viewport: { width, height: 900 }, colorScheme });
      for (const view of ['', 'projects', 'jobs?status=failed', 'cron']) {
        await page.goto(`${platform().base}/ops/${view}`);
        await page.locator('article, tbody tr, .empty:visible').first().waitFor();
        t.true(await fits(page), view);
        await picture(page, `${width}-${colorScheme}-${view.split('?')[0] || 'overview'}`);
      }
      await close();
    });
  }
}
