import test from 'ava';
import type { BrowserContextOptions, Page } from 'playwright-core';
import { systemActor } from '#domain/audit/actor.ts';
import { newId } from '#lib/ids.ts';
import { usePlatform } from '#test/support/platform.ts';
import { longTestMs } from '#test/support/time-outs.ts';
import { useWebBuild } from '#test/support/web-build.ts';
import { axeFaults, looksRight, seriousOf } from '../dashboard/browse.ts';
import { fits, inBrowser, picture, signIn, useBrowser } from './browser.ts';
import { type SeededProject, dead, seedJobs, seedProjects } from './scene.ts';

const platform = usePlatform(test, { settings: useWebBuild(test) });
const visit = useBrowser();

const odd = '<b>"Shop" & Söhne</b> \u202Elrt 🏪';
let shop: SeededProject | undefined;
let failed = '';

test.before('a shop with an odd name has jobs, a schedule and a deleted neighbour', async () => {
  const { db, client } = platform();
  const projects = await seedProjects(db, 2);
  shop = projects[0];
  const projectId = shop?.id ?? '';
  await db.transaction(async (tx) => {
    await tx.query('update projects set name = $2 where id = $1', [projectId, odd]);
    await tx.query('update projects set deleted_at = now() where id = $1', [projects[1]?.id]);
    await tx.query(
      `insert into schedules (id, project_id, name, schedule, timezone, target, payload, enabled, overlap, misfire, next_run_at, due_at)
       values ($2, $1, 'Nightly', '0 3 * * *', 'UTC', '{"type":"http","url":"https://example.com"}', 'null', true, 'skip', 'once', now() + interval '1 h', now() + interval '1 h')`,
      [projectId, newId()],
    );
  }, systemActor);
  const ids = await seedJobs(db, [
    ...Array.from({ length: 60 }, () => ({ projectId, status: 'failed', errorCode: 'error' })),
    dead(projectId),
    dead(projectId),
  ]);
  failed = ids[0] ?? '';
  await client.call('POST', '/auth/forgot', { body: { email: (await client.signUp()).email } });
});

const at = async (view: string, options: BrowserContextOptions = {}) => {
  const one = await visit(`${platform().base}/ops${view}`, options);
  await one.page.getByLabel('Token').waitFor();
  await signIn(one.page);
  return one;
};

/** Every view, and a text by which it is complete. */
const views: Readonly<Record<string, readonly [address: () => string, complete: (page: Page) => Promise<void>]>> = {
  overview: [() => '/', (page) => page.locator('.chart svg').first().waitFor()],
  projects: [() => '/projects', (page) => page.getByRole('heading', { name: 'Deleted projects' }).waitFor()],
  jobs: [() => '/jobs?status=failed', (page) => page.getByText('1–50 of 60').waitFor()],
  job: [() => `/jobs/${failed}`, (page) => page.getByRole('heading', { name: 'Payload' }).waitFor()],
  dead: [() => '/dead?type=project.provision', (page) => page.getByText('1–2 of 2').waitFor()],
  workers: [() => '/workers', (page) => page.getByRole('article').first().waitFor()],
  cron: [() => '/cron', (page) => page.getByText('Nightly').waitFor()],
  mail: [() => '/mail', (page) => page.getByRole('link', { name: 'Reset your password' }).waitFor()],
};

for (const [name, [address, complete]] of Object.entries(views)) {
  inBrowser(`axe finds nothing in the view ${name}, and it fits a telephone and 320 px`, async (t) => {
    t.timeout(longTestMs);
    const { page, complaints, close } = await at(address());
    await complete(page);
    await looksRight(t, page, `ops-${name}`);
    await page.setViewportSize({ width: 320, height: 640 });
    t.true(await fits(page), '320 px');
    await picture(page, `ops-${name}-320`);
    t.deepEqual(seriousOf(complaints), []);
    await close();
  });
}

inBrowser('axe finds nothing in the form, in a question and in the navigation of a telephone', async (t) => {
  const { page, close } = await visit(`${platform().base}/ops/dead`);
  await page.getByLabel('Token').waitFor();
  await looksRight(t, page, 'ops-sign-in');
  await signIn(page);
  await page
    .getByRole('button', { name: /^Redrive project/ })
    .first()
    .press('Enter');
  await page.getByRole('dialog').waitFor();
  t.deepEqual(await axeFaults(page), []);
  await page.keyboard.press('Escape');
  await page.setViewportSize({ width: 360, height: 780 });
  await page.getByRole('button', { name: 'Dead letters', exact: true }).press('Enter');
  const link = page.getByRole('link', { name: 'Workers' });
  await link.waitFor();
  t.deepEqual(await axeFaults(page), []);
  await picture(page, 'ops-navigation-narrow');
  await link.press('Enter');
  await page.getByRole('heading', { name: 'Workers' }).waitFor();
  t.true(page.url().endsWith('/ops/workers'));
  t.is(await page.title(), 'Workers · plinth operations');
  await close();
});

inBrowser('the skip link leads past the navigation', async (t) => {
  const { page, close } = await at('/cron');
  await page.getByText('Nightly').waitFor();
  await page.evaluate('document.activeElement.blur()');
  await page.keyboard.press('Tab');
  t.is(await page.evaluate<string>('document.activeElement.textContent'), 'Skip to the content');
  await page.keyboard.press('Enter');
  await page.keyboard.press('Tab');
  t.true(await page.evaluate<boolean>(`document.activeElement.closest('main') !== null`));
  t.is(await page.getByRole('heading', { level: 1 }).innerText(), 'Upcoming', 'the view is the same');
  await close();
});

inBrowser('links of earlier versions, with the view behind the #, lead to it with its filter', async (t) => {
  const { page, close } = await at(`#/jobs?project_id=${shop?.id}&status=dead&type=project.provision`);
  await page.getByText('1–2 of 2').waitFor();
  t.is(new URL(page.url()).pathname, '/ops/jobs');
  t.is(await page.getByLabel('Status').inputValue(), 'dead');
  await page.evaluate(`location.hash = '#/mail?status=kept'`);
  await page.getByRole('link', { name: 'Reset your password' }).waitFor();
  t.true(page.url().endsWith('/ops/mail?status=kept'));
  await close();
});

inBrowser('a filter and the page of a list stand in the address', async (t) => {
  const { page, close } = await at('/jobs');
  await page.getByLabel('Status').selectOption('failed');
  await page.getByLabel('Accepted from').fill('2020-01-02T03:04');
  await page.getByRole('button', { name: 'Search' }).press('Enter');
  await page.getByText('1–50 of 60').waitFor();
  await page.getByRole('button', { name: 'Next' }).press('Enter');
  await page.getByText('51–60 of 60').waitFor();
  await page.reload();
  await page.getByText('51–60 of 60').waitFor();
  t.is(await page.getByLabel('Status').inputValue(), 'failed');
  t.is(await page.getByLabel('Accepted from').inputValue(), '2020-01-02T03:04');
  t.is(new URL(page.url()).searchParams.get('offset'), '50');
  await close();
});

inBrowser('an address that is no view says so', async (t) => {
  const { page, close } = await at('/nothing');
  await page.getByText('There is no such view.').waitFor();
  t.is(await page.title(), 'Not found · plinth operations');
  await close();
});

inBrowser('a session that has ended elsewhere leads to the form, and the form back to the view', async (t) => {
  const { page, close } = await at('/workers');
  await page.getByRole('article').first().waitFor();
  await page.context().clearCookies();
  // A page that comes into view again opens its stream anew; nothing else of this view asks the API for anything.
  await page.evaluate(`document.dispatchEvent(new Event('visibilitychange'))`);
  await page.getByRole('heading', { name: 'Operators only' }).waitFor();
  await signIn(page);
  await page.getByRole('heading', { name: 'Workers' }).waitFor();
  t.true(page.url().endsWith('/ops/workers'));
  await close();
});

inBrowser('a failure of a list stands above what was there', async (t) => {
  const { page, close } = await at('/jobs?status=failed');
  await page.getByText('1–50 of 60').waitFor();
  await page.route('**/ops/api/jobs?*', (route) =>
    route.fulfill({ status: 400, json: { code: 'bad', message: 'It was not to be.', details: null, hint: null } }),
  );
  await page.getByRole('button', { name: 'Refresh' }).press('Enter');
  await page.getByRole('alert').getByText('It was not to be.').waitFor();
  t.true(await page.getByRole('row').nth(1).isVisible());
  await page.unroute('**/ops/api/jobs?*');
  await page.getByRole('button', { name: 'Try again' }).press('Enter');
  await page.getByRole('alert').waitFor({ state: 'detached' });
  await close();
});

inBrowser('chosen dead letters are redriven, and the focus goes on to what is left', async (t) => {
  const { page, close } = await at('/dead?type=project.provision');
  const boxes = page.getByRole('checkbox');
  await boxes.first().press('Space');
  await page.getByRole('button', { name: 'Redrive chosen (1)' }).press('Enter');
  await page.getByRole('dialog').getByText('Redrive 1 dead letter?').waitFor();
  await page.getByRole('dialog').getByRole('button', { name: 'Redrive' }).press('Enter');
  await page.getByText('1–1 of 1').waitFor();
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  t.is(await page.evaluate<string>('document.activeElement.textContent'), 'Redrive all of this filter');
  await close();
});
