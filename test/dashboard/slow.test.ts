import test from 'ava';
import type { Page } from 'playwright-core';
import { longTestMs } from '#test/support/time-outs.ts';
import { inBrowser, useBrowser } from '../ops/browser.ts';
import { runSql, seriousOf, signIn } from './browse.ts';
import { useDashboard } from './scene.ts';

/* No test here says how long something takes: what is shown meanwhile is asserted, and what is requested. */

const { platform } = useDashboard(test);
const open = useBrowser();

const bytesPerSecond = 400_000 / 8;
const slow3g = { offline: false, latency: 400, downloadThroughput: bytesPerSecond, uploadThroughput: bytesPerSecond };

/** Adds up how far elements that were drawn have moved by themselves: 0.1 is felt as a jump. */
const countShifts = `globalThis.shifted = 0;
new PerformanceObserver((list) => {
  for (const shift of list.getEntries()) if (!shift.hadRecentInput) globalThis.shifted += shift.value;
}).observe({ type: 'layout-shift', buffered: true });`;

const requestsOf = (page: Page) => {
  const requests: string[] = [];
  page.on('request', (request) => {
    const { pathname, search } = new URL(request.url());
    requests.push(`${request.method()} ${pathname}${search}`);
  });
  return {
    /** The addresses that were requested more than once since the last call. */
    twice: (): string[] => requests.splice(0).filter((request, place, all) => all.indexOf(request) !== place),
  };
};

const setUp = async () => {
  const { client, base } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  const sql = (text: string) =>
    client.call('POST', `/projects/${project.id}/db/query`, { token: user.token, body: { sql: text } });
  await sql('create table notes (id int primary key, text text)');
  await sql(`insert into notes select i, 'note ' || i from generate_series(1, 300) i`);
  const fn = await client.deploy(user, project, 'export const handler = () => 1;');
  const { page, complaints, close } = await open('about:blank');
  await page.addInitScript(countShifts);
  const network = await page.context().newCDPSession(page);
  await network.send('Network.enable');
  await network.send('Network.emulateNetworkConditions', slow3g);
  return { user, fn, page, complaints, close, at: `${base}/dashboard/projects/${project.id}` };
};

inBrowser(
  'over a slow network each page says that it loads, asks for each thing once, and does not jump',
  async (t) => {
    t.timeout(longTestMs);
    const { user, fn, page, complaints, close, at } = await setUp();
    const { twice } = requestsOf(page);
    const still = async (name: string): Promise<void> => {
      t.deepEqual(twice(), [], name);
      const shifted = await page.evaluate<number>('globalThis.shifted');
      t.true(shifted < 0.1, `${name}: ${shifted}`);
      t.is(await page.getByRole('alert').count(), 0, name);
      await page.evaluate('globalThis.shifted = 0');
    };
    await page.goto(`${at}/tables/notes`, { waitUntil: 'commit' });
    await page.getByText('Loading…').first().waitFor();
    await page.getByLabel('E-mail').waitFor();
    await still('sign-in');
    await signIn(page, user);
    await page.getByText('Loading…').first().waitFor();
    await page.getByRole('gridcell', { name: 'note 1', exact: true }).waitFor();
    await page.getByText('300 rows').waitFor();
    await still('a table');

    await page.getByRole('link', { name: 'SQL', exact: true }).click();
    await page.getByText('Loading…').first().waitFor();
    await page.locator('.cm-content').waitFor();
    await still('SQL');
    await runSql(page, 'select 42 as answer');
    await page.getByText('Running…').waitFor();
    await page.getByRole('gridcell', { name: '42' }).waitFor();
    await still('a result');

    await page.getByRole('link', { name: 'Functions' }).click();
    await page.getByText('Loading…').first().waitFor();
    await page.getByRole('table').getByRole('link').click();
    await page.getByText('Loading…').first().waitFor();
    await page.getByRole('button', { name: 'Run version 1' }).click();
    await page.getByRole('heading', { name: 'Result' }).waitFor();
    await still('a run');
    t.true(page.url().endsWith(fn.id));
    t.deepEqual(seriousOf(complaints), []);
    await close();
  },
);

inBrowser('before its code has come, the page says that it loads', async (t) => {
  t.timeout(longTestMs);
  const { page, close } = await open('about:blank');
  const held = Promise.withResolvers<void>();
  await page.route('**/assets/main-*.js', async (route) => {
    await held.promise;
    await route.continue();
  });
  await page.goto(`${platform().base}/dashboard`, { waitUntil: 'commit' });
  await page.getByText('Loading…').first().waitFor();
  held.resolve();
  await page.getByLabel('E-mail').waitFor();
  t.is(await page.getByText('Loading…').count(), 0);
  await close();
});
