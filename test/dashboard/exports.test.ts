import test from 'ava';
import type { Page } from 'playwright-core';
import { addMember } from '#test/support/members.ts';
import { longTestMs } from '#test/support/time-outs.ts';
import { inBrowser, useBrowser } from '../ops/browser.ts';
import { looksRight, signIn } from './browse.ts';
import { newProjectScene, useDashboard } from './scene.ts';

const { platform } = useDashboard(test);
const open = useBrowser();

const cell = (page: Page, name: string) => page.getByRole('gridcell', { name, exact: true });

/** The text of a file that the browser saves while the work is done. */
const savedText = async (page: Page, work: () => Promise<void>): Promise<string> => {
  const [download] = await Promise.all([page.waitForEvent('download'), work()]);
  const chunks: Buffer[] = [];
  for await (const chunk of await download.createReadStream()) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
};

inBrowser('a large table is exported with each row once while others write; an export can be stopped', async (t) => {
  t.timeout(longTestMs);
  const { project, sql, at } = await newProjectScene(platform());
  await sql(`create table big (id int primary key, filling text not null default repeat('x', 100))`);
  await sql('insert into big select generate_series(1, 200000)');
  const viewer = await addMember(platform(), project.orgId, 'viewer');
  const { page, close } = await open(at('/tables/big?filter=id%3Dgt.1000'));
  await signIn(page, viewer);
  await cell(page, '1001').waitFor();
  // The platform answers, and the browser reads no further than to what it has been given.
  let hold: (() => void) | undefined;
  await page.route('**/db/tables/big/export?*', async (route) => {
    await new Promise<void>((resolve) => (hold = resolve));
    await route.abort();
  });
  await page.getByRole('button', { name: 'Export' }).click();
  await page.getByRole('button', { name: 'JSON' }).click();
  await page.getByRole('progressbar').waitFor();
  await looksRight(t, page, 'tables-export');
  await page.getByRole('button', { name: 'Stop' }).click();
  await page.getByRole('progressbar').waitFor({ state: 'detached' });
  hold?.();
  await page.unrouteAll({ behavior: 'wait' });
  const writing = sql('update big set id = id + 1000000 where id % 2 = 0');
  const text = await savedText(page, () => page.getByRole('button', { name: 'JSON' }).click());
  await writing;
  const ids = (JSON.parse(text) as { id: number }[]).map(({ id }) => id % 1_000_000);
  t.is(new Set(ids).size, ids.length);
  t.is(ids.length >= 199_000, true);
  t.deepEqual(await sql('select count(*)::int as n from big'), [{ n: 200_000 }]);
  await close();
});

inBrowser('an export that breaks off saves nothing, and says so', async (t) => {
  t.timeout(longTestMs);
  const { owner, sql, at } = await newProjectScene(platform());
  await sql(`create table big (id int primary key, filling text not null default repeat('x', 300))`);
  await sql('insert into big select generate_series(1, 100000)');
  await sql('create view breaking as select id, filling, 1 / (90000 - id) as n from big order by id');
  const { page, close } = await open(at('/tables/breaking?filter=id%3Dgt.0'));
  await signIn(page, owner);
  await page.getByRole('button', { name: 'Export' }).click();
  await page.getByRole('button', { name: 'CSV' }).click();
  const alert = page.getByRole('dialog').getByRole('alert');
  await alert.getByText('ended before all rows had come').waitFor();
  t.is(await page.getByRole('progressbar').count(), 0);
  await close();
});
