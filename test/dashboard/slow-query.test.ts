import test from 'ava';
import { longTestMs } from '#test/support/time-outs.ts';
import { inBrowser, useBrowser } from '../ops/browser.ts';
import { looksRight, runSql, signIn } from './browse.ts';
import { useDashboard } from './scene.ts';

const { platform } = useDashboard(test);
const open = useBrowser();

inBrowser('a slow query is found, its plan shows a scan of the table, and an index ends it', async (t) => {
  t.timeout(longTestMs);
  const { client } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  const sql = (text: string) =>
    client.call('POST', `/projects/${project.id}/db/query`, { token: user.token, body: { sql: text } });
  await sql(`create table visits (id int primary key, "who <b>" text)`);
  await sql(`insert into visits select i, md5(i::text) from generate_series(1, 9000) i`);
  await sql('analyze visits');
  for (let times = 0; times < 3; times += 1) await sql(`select id from visits where "who <b>" = 'nobody'`);
  const { page, complaints, close } = await open(`${platform().base}/dashboard/projects/${project.id}/slow-queries`);
  await signIn(page, user);
  const row = page.getByRole('row').filter({ hasText: 'select id from visits' });
  await row.getByRole('cell', { name: '3', exact: true }).first().waitFor();
  await looksRight(t, page, 'slow-queries');

  await row.getByRole('button', { name: 'Open in SQL' }).click();
  await page.getByRole('heading', { level: 1, name: 'SQL' }).waitFor();
  await page.locator('.cm-content').getByText('$1').waitFor();
  const plan = async (): Promise<void> => {
    await page.locator('.cm-content').click();
    await page.keyboard.press('Control+A');
    await page.keyboard.insertText(`select id from visits where "who <b>" = 'nobody'`);
    await page.getByRole('button', { name: 'Explain', exact: true }).click();
  };
  await plan();
  await page.getByText(/Seq Scan/).waitFor();
  await runSql(page, 'create index on visits ("who <b>")');
  await page.getByText(/CREATE INDEX/).waitFor();
  await plan();
  await page
    .getByText(/Index Scan|Bitmap/)
    .first()
    .waitFor();
  t.deepEqual(
    complaints.filter((complaint) => !complaint.includes('401')),
    [],
  );
  await close();
});
