import test from 'ava';
import type { Page } from 'playwright-core';
import { asAdmin } from '#test/support/databases.ts';
import { addMember } from '#test/support/members.ts';
import { longTestMs } from '#test/support/time-outs.ts';
import { until } from '#test/support/until.ts';
import { inBrowser, useBrowser } from '../ops/browser.ts';
import { axeFaults, looksRight, runSql, signIn } from './browse.ts';
import { newProjectScene, useDashboard } from './scene.ts';

const { platform } = useDashboard(test);
const open = useBrowser();

const newScene = async () => {
  const scene = await newProjectScene(platform());
  return { ...scene, at: scene.at('/sql') };
};

const write = async (page: Page, text: string): Promise<void> => {
  await page.locator('.cm-content').click();
  await page.keyboard.press('Control+A');
  await page.keyboard.insertText(text);
};
const status = (page: Page, text: RegExp) => page.getByRole('status').getByText(text);
const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true });

inBrowser(
  'the statement at the caret runs, or the selection, or everything; an error takes the caret there',
  async (t) => {
    t.timeout(longTestMs);
    const { owner, sql, at } = await newScene();
    const { page, complaints, close } = await open(at);
    await signIn(page, owner);
    await write(page, `select 'a;b' as one; /* ; */ select 2.50 as two;\n-- 😀 comment\nselect 😀nope`);
    await page.keyboard.press('Control+Home');
    await page.keyboard.press('Control+Enter');
    await page.getByRole('gridcell', { name: 'a;b' }).waitFor();
    for (let times = 0; times < 3; times += 1) await page.keyboard.press('Control+ArrowRight');
    await page.keyboard.press('End');
    await page.keyboard.press('Control+Enter');
    await page.getByRole('gridcell', { name: '2.50' }).waitFor();
    await write(page, `select 1;\n\n  select '😀', nope`);
    await page.keyboard.press('Control+End');
    await page.keyboard.press('Control+Enter');
    await page
      .getByRole('alert')
      .getByText(/does not exist/)
      .waitFor();
    const afterCaret = 'getSelection().focusNode.textContent.slice(getSelection().focusOffset)';
    t.regex(await page.evaluate<string>(afterCaret), /^nope/);
    await write(
      page,
      `create table made (id int);\ninsert into made values (1), (2);\nselect id, id * 1.5 as n from made;`,
    );
    await button(page, 'Run all').click();
    await status(page, /SELECT: 2 rows/).waitFor();
    await page.getByLabel('Statement').selectOption('2: INSERT (2)');
    await status(page, /INSERT: 2 rows/).waitFor();
    await page.getByLabel('Statement').selectOption('3: SELECT (2)');
    await looksRight(t, page, 'sql-result');
    await page.getByLabel('Show as').selectOption('chart');
    await page.getByRole('img', { name: 'n by id' }).waitFor();
    t.deepEqual(await axeFaults(page), []);
    await page.getByLabel('Show as').selectOption('JSON');
    await page.getByText('"n": 1.5').waitFor();
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Save as CSV' }).click(),
    ]);
    const chunks: Buffer[] = [];
    for await (const chunk of await download.createReadStream()) chunks.push(chunk as Buffer);
    t.is(Buffer.concat(chunks).toString(), 'id,n\n1,1.5\n2,3.0\n');
    // An error in a script names its place in all of the text; nothing of the script is kept.
    await write(page, `insert into made values (3);\nselect nope`);
    await button(page, 'Run all').click();
    await page
      .getByRole('alert')
      .getByText(/does not exist/)
      .waitFor();
    t.regex(await page.evaluate<string>(afterCaret), /^nope/);
    t.deepEqual(await sql('select count(*) from made'), [{ count: 2 }]);
    t.deepEqual(
      complaints.filter((complaint) => !/status of 40[01]/.test(complaint)),
      [],
    );
    await close();
  },
);

inBrowser(
  'what would change every row is not run by mistake, and nothing is written when it is read only',
  async (t) => {
    t.timeout(longTestMs);
    const { owner, sql, at } = await newScene();
    await sql('create table kept (id int)');
    await sql('insert into kept values (1), (2)');
    const { page, close } = await open(at);
    await signIn(page, owner);
    for (const text of [
      'delete from kept',
      `update kept set id = 1 -- where`,
      `with x as (delete from kept returning id) select * from x where id = 1`,
      'truncate kept',
    ]) {
      await runSql(page, text);
      await button(page, 'Do not run it').click();
    }
    t.deepEqual(await sql('select count(*) from kept'), [{ count: 2 }]);
    await runSql(page, `update kept set id = 5 where id = 1`);
    await status(page, /UPDATE: 1 row /).waitFor();
    await page.getByLabel('Read only').check();
    await runSql(page, 'delete from kept');
    await page
      .getByRole('alert')
      .getByText(/read-only|permission denied/)
      .waitFor();
    await write(page, 'select 1; delete from kept where id > 0');
    await button(page, 'Run all').click();
    await page
      .getByRole('alert')
      .getByText(/read-only/)
      .waitFor();
    await page.getByLabel('Read only').uncheck();
    await runSql(page, 'delete from kept');
    await looksRight(t, page, 'sql-danger');
    await button(page, 'Run it all the same').click();
    await status(page, /DELETE: 2 rows/).waitFor();
    await close();
  },
);

const sleeping = `select count(*)::int as n from pg_stat_activity
  where query like '%pg_sleep(29)%' and state = 'active' and pid <> pg_backend_pid()`;

/** How many statements sleep in the server. */
const running = async (): Promise<number> => {
  const { rows } = await asAdmin('postgres', (client) => client.query<{ n: number }>(sleeping));
  return rows[0]?.n ?? 0;
};

inBrowser('a statement that is cancelled ends in the database', async (t) => {
  t.timeout(longTestMs);
  const { owner, at } = await newScene();
  const { page, close } = await open(at);
  await signIn(page, owner);
  await runSql(page, 'select pg_sleep(29)');
  await until(async () => (await running()) > 0);
  await button(page, 'Cancel').click();
  await page.getByText('It was cancelled').waitFor();
  await until(async () => (await running()) === 0);
  await runSql(page, 'select 7 as seven');
  await page.getByRole('gridcell', { name: '7' }).waitFor();
  t.pass();
  await close();
});

inBrowser('a plan is a tree, and what is analyzed changes nothing', async (t) => {
  t.timeout(longTestMs);
  const { owner, sql, at } = await newScene();
  await sql('create table big (id int primary key, n int)');
  await sql('insert into big select i, i % 10 from generate_series(1, 20000) i');
  const { page, close } = await open(at);
  await signIn(page, owner);
  await write(page, 'select * from big a join big b using (id) where a.n = 3');
  await button(page, 'Explain').click();
  await page.getByText('It did not run').waitFor();
  t.true((await page.getByRole('meter').count()) > 2);
  await write(page, 'delete from big where n = 3');
  await button(page, 'Analyze').click();
  await page.getByText('Nothing that it wrote was kept.').waitFor();
  await page.getByText('18,000 rows read in vain').waitFor();
  await looksRight(t, page, 'sql-plan');
  t.deepEqual(await sql('select count(*) from big'), [{ count: 20_000 }]);
  await close();
});

inBrowser('texts are kept with each key, in tabs, for every window; two windows overwrite nothing', async (t) => {
  t.timeout(longTestMs);
  const { owner, at } = await newScene();
  const { page, close } = await open(at);
  await signIn(page, owner);
  await write(page, 'select 1 -- first');
  await button(page, 'New tab').click();
  await page.locator('.cm-content').click();
  await page.keyboard.type('select 2 -- second');
  await page.reload();
  await page.getByText('select 2 -- second').waitFor();
  await button(page, 'Query 1').click();
  await page.getByText('select 1 -- first').waitFor();
  const other = await page.context().newPage();
  await other.goto(page.url());
  await other.getByText('select 1 -- first').waitFor();
  await other.locator('.cm-content').click();
  await other.keyboard.press('Control+End');
  await other.keyboard.type(' and more');
  await page.getByText('select 1 -- first and more').waitFor();
  // The window has not learned of what the other one wrote: what is typed here becomes a text of its own.
  await page.evaluate(`(() => {
    const key = Object.keys(localStorage).find((name) => localStorage[name].includes('and more'));
    const tab = JSON.parse(localStorage[key]);
    localStorage[key] = JSON.stringify({ ...tab, text: 'of the other window', revision: tab.revision + 1 });
  })()`);
  await page.locator('.cm-content').click();
  await page.keyboard.press('Control+End');
  await page.keyboard.type('!');
  await button(page, 'Query 1 (mine)').waitFor();
  await page.getByText('select 1 -- first and more!').waitFor();
  await button(page, 'Query 1').click();
  await page.getByText('of the other window').waitFor();
  await button(page, 'Close Query 1').click();
  await page.getByText('is kept nowhere else').waitFor();
  await page.keyboard.press('Escape');
  await page.getByText('of the other window').waitFor();
  t.pass();
  await close();
});

inBrowser(
  'a snippet is saved by itself, and never over what somebody else has saved; history is opened again',
  async (t) => {
    t.timeout(longTestMs);
    const { owner, call, at } = await newScene();
    const { page, close } = await open(at);
    await signIn(page, owner);
    await write(page, 'select 41');
    await button(page, 'Save as a snippet').click();
    await page.getByLabel('Name').fill('<b>answer</b>');
    await button(page, 'Save').click();
    await page.getByText(/^Saved\./).waitFor();
    await page.locator('.cm-content').click();
    await page.keyboard.press('Control+End');
    await page.keyboard.type(' + 1');
    const stored = async () => (await call('GET', '/snippets')).body.snippets[0];
    await until(async () => (await stored()).sql === 'select 41 + 1');
    await page.getByText(/^Saved\./).waitFor();
    const { id, version } = await stored();
    const theirs = { name: 'answer', sql: 'select 43', shared: false, version };
    t.is((await call('PUT', `/snippets/${id}`, theirs)).status, 200);
    await page.keyboard.type(' + 2');
    await page.getByText('Somebody else has saved another text of this snippet.').waitFor();
    await looksRight(t, page, 'sql-conflict');
    await button(page, 'Open theirs beside mine').click();
    await page.getByText('select 43').waitFor();
    await button(page, '<b>answer</b> (mine)').click();
    await page.getByText('select 41 + 1 + 2').waitFor();
    t.is((await stored()).sql, 'select 43');
    await page.locator('.cm-content').click();
    await page.keyboard.press('Control+Enter');
    await page.getByRole('gridcell', { name: '44' }).waitFor();
    await button(page, 'History').click();
    await looksRight(t, page, 'sql-history');
    await page.getByRole('dialog').getByRole('button', { name: 'select 41 + 1 + 2' }).click();
    await button(page, 'Query 3').waitFor();
    await button(page, 'Snippets').click();
    await page.getByRole('dialog').getByRole('button', { name: 'answer', exact: true }).click();
    await page.getByText('select 43').waitFor();
    await close();
  },
);

inBrowser('a viewer reads by SQL, and is offered nothing that writes', async (t) => {
  t.timeout(longTestMs);
  const { project, at } = await newScene();
  const viewer = await addMember(platform(), project.orgId, 'viewer');
  const { page, close } = await open(at);
  await signIn(page, viewer);
  await runSql(page, 'select 5 as five');
  await page.getByRole('gridcell', { name: '5' }).waitFor();
  await write(page, 'select count(*) from pg_class');
  await button(page, 'Analyze').click();
  await page.getByText('It ran for').waitFor();
  t.is(await page.getByRole('button', { name: /Run all|Save as a snippet|AI/ }).count(), 0);
  await runSql(page, 'create table x (id int)');
  await page
    .getByRole('alert')
    .getByText(/read-only|permission denied/)
    .waitFor();
  await close();
});

inBrowser('a result of a megabyte in a cell, and of 1,600 columns, holds nothing up', async (t) => {
  t.timeout(longTestMs);
  const { owner, at } = await newScene();
  const { page, close } = await open(at);
  await signIn(page, owner);
  await runSql(page, `select repeat('x', 1000000) as "<img src=x>" from generate_series(1, 10)`);
  await page
    .getByRole('gridcell', { name: /^x{300}…$/ })
    .first()
    .waitFor();
  await runSql(page, `select ${Array.from({ length: 1600 }, (_, index) => `${index} as c${index}`).join(', ')}`);
  await page.getByRole('columnheader', { name: 'c0 integer' }).waitFor();
  t.true((await page.locator('*').count()) <= 1200);
  await close();
});
