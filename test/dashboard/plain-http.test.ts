import test from 'ava';
import { longTestMs } from '#test/support/time-outs.ts';
import { inBrowser, plainHost, useBrowser } from '../ops/browser.ts';
import { replaceCode, runSql, seriousOf, signIn } from './browse.ts';
import { newProjectScene, useDashboard } from './scene.ts';

/* Browsers withhold locks, the clipboard and random UUIDs from pages of a plain HTTP address that is not loopback. */

const { platform } = useDashboard(test);
const open = useBrowser();

inBrowser('over plain HTTP tables are changed, SQL is run and texts are copied all the same', async (t) => {
  t.timeout(longTestMs);
  const { owner, sql, at } = await newProjectScene(platform());
  await sql('create table people (id int primary key, name text)');
  await sql(`insert into people values (1, 'Ada')`);
  const address = (rest: string): string => at(rest).replace('127.0.0.1', plainHost);
  const { page, complaints, close } = await open(address('/tables/people'));
  await signIn(page, owner);
  t.false(await page.evaluate<boolean>('globalThis.isSecureContext'));
  await page.getByRole('gridcell', { name: 'Ada', exact: true }).click();
  await page.keyboard.type('Grace');
  await page.keyboard.press('Enter');
  await page.reload();
  await page.getByText('1 change is not saved').waitFor();
  await page.getByRole('gridcell', { name: 'Grace', exact: true }).click();
  await page.keyboard.press('Control+s');
  await page.getByText('1 change is saved.').waitFor();
  t.deepEqual(await sql('select name from people'), [{ name: 'Grace' }]);

  await page.goto(address('/sql'));
  await page.locator('.cm-content').waitFor();
  await runSql(page, 'select name from people');
  await page.getByRole('gridcell', { name: 'Grace' }).waitFor();

  await page.goto(address('/keys'));
  await page.getByRole('button', { name: /^Copy the JavaScript code/ }).click();
  await page.getByRole('button', { name: 'Copied' }).waitFor();
  const code = await page.locator('.snippets pre').textContent();
  await page.goto(address('/sql'));
  await replaceCode(page, '');
  await page.keyboard.press('Control+v');
  const firstLine = code?.split('\n').find((line) => line.trim() !== '') ?? '';
  await page.locator('.cm-content').getByText(firstLine.trim()).first().waitFor();
  // This header takes effect in secure contexts only.
  t.deepEqual(
    seriousOf(complaints).filter((complaint) => !complaint.includes('Cross-Origin-Opener-Policy')),
    [],
  );
  await close();
});
