import test from 'ava';
import type { BrowserContextOptions, Page } from 'playwright-core';
import { opsToken, usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';
import { useWebBuild } from '#test/support/web-build.ts';
import { fits, inBrowser, picture, signIn, useBrowser } from './browser.ts';
import { type SeededJob, type SeededProject, dead, seedJobs, seedProjects } from './scene.ts';

const platform = usePlatform(test, { settings: useWebBuild(test) });
const visit = useBrowser();

const projectCount = 50;
const jobCount = 10_000;
const noisyCount = 7;
const codes = ['error', 'error', 'error', 'timeout', 'timeout', 'memory_limit', 'crashed'];

let projects: SeededProject[] = [];

/** How the i-th job of a day of shops ended: most are done, some failed, some were given up. */
const endOf = (i: number): Pick<SeededJob, 'status' | 'errorCode'> => {
  if (i % 11 === 0) return { status: 'failed', errorCode: codes[i % codes.length] ?? '' };
  if (i % 83 === 0) return { status: 'cancelled', errorCode: 'cancelled' };
  return { status: 'succeeded' };
};

const jobOf = (i: number): SeededJob => {
  const projectId = projects[(i * i + 7 * i) % projectCount]?.id ?? '';
  const secondsAgo = (3500 * ((i * 7919) % jobCount)) / jobCount;
  if (i % 97 === 0) {
    return dead(projectId, { secondsAgo, errorCode: i % 2 === 0 ? 'dependency_unavailable' : 'internal' });
  }
  if (i % 9 === 0) {
    return { projectId: projects[i % noisyCount]?.id ?? '', status: 'queued', secondsAgo: secondsAgo / 20 };
  }
  const slow = secondsAgo > 1500 && secondsAgo < 1900 ? 400 : 0;
  return { projectId, secondsAgo, waitMs: 5 + ((i * 31) % 90) + slow, ...endOf(i) };
};

test.before('50 projects have 10,000 jobs, and seven of them may run none just now', async () => {
  const { db, client } = platform();
  projects = await seedProjects(db, projectCount);
  await db.transaction(
    (tx) =>
      tx.query(`insert into job_limits (project_id, type, running) select unnest($1::uuid[]), 'function.invoke', 0`, [
        projects.slice(0, noisyCount).map(({ id }) => id),
      ]),
    { 'plinth.actor': '{"type":"system"}' },
  );
  await seedJobs(
    db,
    Array.from({ length: jobCount }, (_, i) => jobOf(i)),
  );
  const owner = await client.signUp();
  const project = await client.createProject(owner, { name: 'Slow shop' });
  const code = 'export const handler = async () => { await new Promise((r) => setTimeout(r, 60000)); };';
  const slow = await client.deploy(owner, project, code, { timeout_ms: 120_000 });
  for (let i = 0; i < 7; i += 1) {
    const path = `/projects/${project.id}/functions/${slow.id}/invoke`;
    await client.call('POST', path, { token: owner.token, body: { payload: i }, headers: { prefer: 'respond-async' } });
  }
});

const ops = (): string => `${platform().base}/ops`;

const card = (page: Page) => page.getByRole('article', { name: 'function.invoke' });

/** A page that is signed in, at a view, with the figures of all that waits. */
const at = async (view: string, options: BrowserContextOptions = {}) => {
  const one = await visit(`${ops()}/${view}`, options);
  await one.page.getByLabel('Token').waitFor();
  // The browser notes the 401 by which the page learns that it has no session yet.
  one.complaints.length = 0;
  await signIn(one.page);
  return one;
};

const waits = (page: Page) =>
  until(async () => Number((await card(page).locator('dd').first().innerText()).replace(',', '')) > 500);

inBrowser('a person signs in and sees the queues with their numbers', async (t) => {
  const { page, complaints, hosts, close } = await visit(ops());
  await page.getByRole('heading', { name: 'Operators only' }).waitFor();
  await picture(page, 'sign-in');
  complaints.length = 0;
  await signIn(page);
  await card(page).locator('.chart svg').first().waitFor();
  await waits(page);
  await picture(page, 'overview');
  t.regex(
    (await card(page).locator('.chart svg').first().getAttribute('aria-label')) ?? '',
    /[1-9],?\d* accepted, [1-9]\d* failed/,
  );
  t.regex(await card(page).innerText(), /timeout \d+/);
  t.deepEqual(complaints, []);
  t.deepEqual([...hosts], [new URL(platform().base).host]);
  await close();
});

const focused = (page: Page): Promise<string | null> =>
  page.evaluate<string | null>(`document.activeElement.getAttribute('aria-label')`);

inBrowser('a project is paused and resumed by keyboard alone', async (t) => {
  const { page, close } = await at('projects');
  const name = projects[0]?.name ?? '';
  const row = page.getByRole('row').filter({ has: page.getByRole('link', { name, exact: true }) });
  await row.waitFor();
  await picture(page, 'projects');
  const label = `Pause ${name} for function.invoke`;
  const pause = page.getByRole('button', { name: label, exact: true });
  // From the top of the page with the tabulator.
  await page.evaluate('document.activeElement.blur()');
  for (let presses = 0; presses < 60; presses += 1) {
    await page.keyboard.press('Tab');
    if ((await focused(page)) === label) break;
  }
  t.is(await focused(page), label);
  const outline = await page.evaluate<string>('getComputedStyle(document.activeElement).outlineStyle');
  t.not(outline, 'none', 'the focus is seen');
  t.true(await pause.isVisible());
  await page.keyboard.press('Enter');
  const dialog = page.getByRole('dialog');
  await dialog.getByText(`Pause function.invoke of ${name}?`).waitFor();
  t.regex(await dialog.innerText(), /\d+ jobs that wait stay where they are[^]*other types and other projects go on/);
  await picture(page, 'pause-asks');
  const pausesOf = () => platform().db.query('select type from job_pauses where project_id = $1', [projects[0]?.id]);
  t.is((await pausesOf()).length, 0, 'nothing is paused before the answer');
  await dialog.getByRole('button', { name: 'Pause' }).press('Enter');
  await row.getByText('paused').waitFor();
  t.deepEqual(await pausesOf(), [{ type: 'function.invoke' }], 'this type only');
  await page.getByRole('button', { name: `Resume ${name} for function.invoke`, exact: true }).press('Enter');
  await dialog.getByRole('button', { name: 'Resume' }).press('Enter');
  await row.getByText('at its limit').waitFor();
  t.is((await pausesOf()).length, 0);
  await close();
});

inBrowser('the limits of a project are set in a dialog', async (t) => {
  const { page, close } = await at('projects');
  const project = projects[1];
  await page
    .getByRole('button', { name: `Limits of ${project?.name} for function.invoke`, exact: true })
    .press('Enter');
  const dialog = page.getByRole('dialog');
  await picture(page, 'limits');
  await dialog.getByLabel('Waiting').fill('77');
  await page.keyboard.press('Enter');
  await dialog.waitFor({ state: 'detached' });
  const rows = await platform().db.query('select running, waiting from job_limits where project_id = $1', [
    project?.id,
  ]);
  t.deepEqual(rows, [{ running: 0, waiting: 77 }]);
  await close();
});

inBrowser('what is paused for one type alone is resumed alone', async (t) => {
  const { id = '', name = '' } = projects.at(-2) ?? {};
  const type = 'function.invoke';
  for (const each of [type, 'cron.fire']) {
    await platform().client.call('POST', `/ops/api/projects/${id}/pause`, { token: opsToken, body: { type: each } });
  }
  const { page, close } = await at('projects');
  await page.getByRole('button', { name: `Resume ${name} for ${type}`, exact: true }).press('Enter');
  await page.getByRole('dialog').getByRole('button', { name: 'Resume' }).press('Enter');
  await page.getByRole('button', { name: `Resume ${name} for ${type}`, exact: true }).waitFor({ state: 'detached' });
  const pauses = await platform().db.query('select type from job_pauses where project_id = $1', [id]);
  t.deepEqual(pauses, [{ type: 'cron.fire' }]);
  await close();
});

inBrowser('a job is found and opened, and what it says is text, not markup', async (t) => {
  const { page, complaints, close } = await at('jobs');
  await page.getByLabel('Status').selectOption('failed');
  await page.getByLabel('Error code').fill('memory_limit');
  await page.keyboard.press('Enter');
  await page.getByText(/1–50 of 1\d\d/).waitFor();
  await picture(page, 'jobs');
  await page.getByRole('row').nth(1).getByRole('link').first().press('Enter');
  await page.getByRole('heading', { name: 'Payload' }).waitFor();
  await page.getByText('memory_limit: It ended with memory_limit <b>and this is no markup</b>.').waitFor();
  t.regex(await page.locator('pre').first().innerText(), /"trigger": "api"/);
  await picture(page, 'job');
  t.true(await page.getByRole('button', { name: 'Retry' }).isVisible());
  t.deepEqual(complaints, []);
  await close();
});

inBrowser('a running job shows its log, its worker, and can be cancelled', async (t) => {
  const { page, close } = await at('jobs?status=running');
  await platform().db.query(
    `insert into job_log_parts (job_id, first_line, lines, body) select id, 1, 1, $1 from jobs where status = 'running'`,
    [JSON.stringify({ ts: new Date().toISOString(), level: 'info', message: 'still at it <i>' })],
  );
  await page.getByRole('row').nth(1).getByRole('link').first().press('Enter');
  await page.getByText('still at it <i>').waitFor();
  await picture(page, 'job-running');
  await page.getByRole('button', { name: 'Cancel job' }).press('Enter');
  await page.getByRole('button', { name: 'Cancel the job' }).press('Enter');
  await page.locator('.job-head').getByText('cancelled').waitFor();
  t.pass();
  await close();
});

const deadCount = async (): Promise<number> =>
  (
    await platform().db.query<{ n: number }>(
      `select count(*)::int as n from jobs where status = 'dead' and type = 'project.provision'`,
    )
  )[0]?.n ?? 0;

inBrowser('a dead letter is redriven after a question', async (t) => {
  // Other dead letters may come at any time: jobs of the platform find no database of the seeded projects.
  const { page, close } = await at('dead?type=project.provision');
  const first = page.getByRole('row').nth(1);
  await first.waitFor();
  await picture(page, 'dead');
  const before = await deadCount();
  await first.getByRole('button', { name: /^Redrive/ }).press('Enter');
  await page.getByRole('dialog').getByText('Redrive this dead letter?').waitFor();
  await picture(page, 'redrive');
  await page.getByRole('dialog').getByRole('button', { name: 'Redrive' }).press('Enter');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  t.is(await deadCount(), before - 1);
  await close();
});

inBrowser('workers are listed with what they run, and the cron view says that nothing is due', async (t) => {
  const { page, close } = await at('workers');
  await page
    .getByRole('article')
    .getByRole('link', { name: /function.invoke/ })
    .first()
    .waitFor();
  await picture(page, 'workers');
  await page.getByRole('link', { name: 'Cron' }).press('Enter');
  await page.getByText('No schedule is due').waitFor();
  await picture(page, 'cron');
  t.is(await page.evaluate<string>('document.activeElement.textContent'), 'Upcoming', 'the new view has the focus');
  await close();
});

for (const colorScheme of ['light', 'dark'] as const) {
  inBrowser(`at 375 px and in ${colorScheme} nothing sticks out at the side`, async (t) => {
    const { page, close } = await at('', { viewport: { width: 375, height: 740 }, colorScheme });
    for (const view of ['', 'projects', 'jobs', 'dead', 'workers', 'cron']) {
      await page.goto(`${ops()}/${view}`);
      await page.locator('article, tbody tr, .empty:visible').first().waitFor();
      t.true(await fits(page), view);
      await picture(page, `narrow-${colorScheme}-${view || 'overview'}`);
    }
    const dark = await page.evaluate<string>('getComputedStyle(document.body).backgroundColor');
    t.is(dark === 'rgb(16, 19, 21)', colorScheme === 'dark');
    await close();
  });
}

inBrowser('the wide page can be dark', async (t) => {
  const { page, close } = await at('', { colorScheme: 'dark' });
  await waits(page);
  await card(page).locator('.chart svg').first().waitFor();
  await picture(page, 'overview-dark');
  t.true(await fits(page));
  await close();
});

inBrowser('Bull Board opens for a signed-in operator', async (t) => {
  const { page, close } = await at('');
  await page.getByRole('link', { name: 'BullMQ' }).press('Enter');
  await page.getByRole('link', { name: 'function.invoke' }).first().press('Enter');
  await page
    .getByRole('link', { name: /active/i })
    .first()
    .waitFor();
  await picture(page, 'bullmq');
  t.is(await page.getByRole('button', { name: /pause|retry|clean|add/i }).count(), 0, 'there is nothing to change');
  await close();
});

inBrowser('signing out leads back to the form', async (t) => {
  const { page, close } = await at('');
  await page.getByRole('button', { name: 'Sign out' }).press('Enter');
  await page.getByRole('heading', { name: 'Operators only' }).waitFor();
  await page.reload();
  await page.getByRole('heading', { name: 'Operators only' }).waitFor();
  t.pass();
  await close();
});
