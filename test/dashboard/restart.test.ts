import test, { type ExecutionContext } from 'ava';
import type { Page } from 'playwright-core';
import { environmentOf, startProcess } from '#test/support/processes.ts';
import { longTestMs } from '#test/support/time-outs.ts';
import { until } from '#test/support/until.ts';
import { inBrowser, useBrowser } from '../ops/browser.ts';
import { replaceCode, runSql, signIn } from './browse.ts';
import { useDashboard } from './scene.ts';

const { platform } = useDashboard(test);
const open = useBrowser();

/** An API process of the platform that is killed, and started again at the same address. */
const startOwnApi = async (t: ExecutionContext) => {
  let port = '0';
  const start = async () => {
    const started = startProcess('api/server.ts', { ...environmentOf(platform().config), PORT: port });
    port = String((await started.ready).port);
    return started;
  };
  let running = await start();
  const kill = async (): Promise<void> => {
    running.child.kill('SIGKILL');
    await running.end;
  };
  t.teardown(kill);
  return {
    base: `http://127.0.0.1:${port}`,
    kill,
    start: async (): Promise<void> => {
      running = await start();
    },
  };
};

const newScene = async () => {
  const { client } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  const sql = async (text: string): Promise<Record<string, unknown>[]> => {
    const options = { token: user.token, body: { sql: text } };
    const answer = await client.call('POST', `/projects/${project.id}/db/query`, options);
    if (answer.status !== 200) throw new Error(answer.text);
    return answer.body.rows;
  };
  return { client, user, project, sql };
};

const away = (page: Page) => page.getByText('this page tries again by itself');
const refused = (page: Page) => page.getByRole('alert').getByText('The platform cannot be reached.').first();
const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true });

/** Logs a line, and a second one once the table `gate` has a row. */
const waiting = `export const handler = async (_payload, sdk) => {
  sdk.log('info', 'it has begun');
  while ((await sdk.db.query('select 1 from gate')).length === 0) await new Promise((resolve) => setTimeout(resolve, 50));
  sdk.log('info', 'the gate is open');
};
`;

inBrowser('an API that is restarted takes nothing from open pages, which go on by themselves', async (t) => {
  t.timeout(longTestMs);
  const api = await startOwnApi(t);
  const { client, user, project, sql } = await newScene();
  await sql('create table gate (id int primary key)');
  await sql('create table notes (id int primary key, text text)');
  await sql(`insert into notes values (1, 'first')`);
  const fn = await client.deploy(user, project, 'export const handler = () => 1;', { timeout_ms: 60_000 });
  const at = `${api.base}/dashboard/projects/${project.id}`;

  const { page: table, close } = await open(`${at}/tables/notes`);
  const streams: string[] = [];
  table.context().on('request', (request) => request.url().endsWith('/live') && streams.push(request.url()));
  await signIn(table, user);
  await table.getByRole('gridcell', { name: 'first' }).click();
  await table.keyboard.type('staged');
  await table.keyboard.press('Enter');
  await table.getByText('1 change is not saved').waitFor();
  await button(table, 'New column').click();
  await table.getByLabel('Name', { exact: true }).fill('added');
  await table.getByText('"added" text').waitFor();

  const statements = await table.context().newPage();
  await statements.goto(`${at}/sql`);
  await runSql(statements, 'select 41 as answer');
  await statements.getByRole('gridcell', { name: '41' }).waitFor();
  await button(statements, 'Save as a snippet').click();
  await statements.getByLabel('Name').fill('my snippet');

  const code = await table.context().newPage();
  await code.goto(`${at}/functions/${fn.id}`);
  await replaceCode(code, waiting);
  await button(code, 'Run the draft').click();
  await code.getByRole('log').getByText('it has begun').waitFor();
  await replaceCode(code, 'export const handler = () => "half wri');

  const other = await table.context().newPage();
  await other.goto(at);
  await other.getByRole('heading', { level: 2, name: 'Usage' }).waitFor();
  const pages = [table, statements, code, other];
  for (const page of pages) await page.evaluate('globalThis.isTheSamePage = true');

  await api.kill();
  for (const page of pages) await away(page).waitFor();
  await button(table, 'Add the column').click();
  await refused(table).waitFor();
  await button(statements, 'Save').click();
  await refused(statements).waitFor();
  await button(code, 'Deploy').click();
  await refused(code).waitFor();
  // The code of this page is not loaded yet.
  await other.getByRole('link', { name: 'Jobs', exact: true }).first().click();
  await other.getByText('Loading…').first().waitFor();

  const streamsBefore = streams.length;
  await api.start();
  for (const page of pages) await away(page).waitFor({ state: 'hidden' });
  await until(() => streams.length > streamsBefore);
  await sql('insert into gate values (1)');
  await code.getByRole('log').getByText('the gate is open').waitFor();
  t.is(await code.getByText('it has begun').count(), 1);
  await button(table, 'Add the column').click();
  await table.getByRole('dialog').waitFor({ state: 'detached' });
  await table.getByRole('grid').focus();
  await table.keyboard.press('Control+s');
  await table.getByText('1 change is saved.').waitFor();
  t.deepEqual(await sql('select * from notes'), [{ id: 1, text: 'staged', added: null }]);
  await button(statements, 'Save').click();
  await statements.getByText(/^Saved\./).waitFor();
  await button(statements, 'my snippet').waitFor();
  await runSql(statements, 'select 42 as answer');
  await statements.getByRole('gridcell', { name: '42' }).waitFor();
  t.true((await code.locator('.cm-content').innerText()).includes('half wri'));
  await replaceCode(code, 'export const handler = () => "whole";');
  await button(code, 'Deploy').click();
  await code.getByText('Version 2', { exact: true }).waitFor();
  // Events of now come to a page that was opened meanwhile.
  await other.getByRole('heading', { level: 1, name: 'Jobs' }).waitFor();
  const rows = await other.getByRole('row').count();
  await client.invoke(user, project, fn, null);
  await until(async () => (await other.getByRole('row').count()) > rows);
  for (const page of pages) t.true(await page.evaluate<boolean>('globalThis.isTheSamePage'));
  await close();
});

inBrowser('changes whose answer was lost are not made a second time', async (t) => {
  t.timeout(longTestMs);
  const { user, project, sql } = await newScene();
  await sql('create table notes (id bigint generated always as identity primary key, text text)');
  const { page, close } = await open(`${platform().base}/dashboard/projects/${project.id}/tables/notes`);
  await signIn(page, user);
  await button(page, 'Insert a row').click();
  await page.keyboard.press('ArrowRight');
  await page.keyboard.type('once');
  await page.keyboard.press('Enter');
  let attempts = 0;
  await page.route('**/changes', async (route) => {
    attempts += 1;
    if (attempts > 1) return route.continue();
    await route.fetch({ headers: { ...route.request().headers(), origin: platform().base } });
    return route.abort('connectionreset');
  });
  await page.keyboard.press('Control+s');
  await refused(page).waitFor();
  await page.getByText('1 change is not saved').waitFor();
  t.is((await sql('select from notes')).length, 1);
  await page.getByRole('grid').focus();
  await page.keyboard.press('Control+s');
  await page.getByText('1 change is saved.').waitFor();
  t.is(attempts, 2);
  t.deepEqual(await sql('select id, text from notes'), [{ id: 1, text: 'once' }]);
  await close();
});

inBrowser('a gateway that answers in place of the platform is waited out, and says nothing of its own', async (t) => {
  t.timeout(longTestMs);
  const { user, project } = await newScene();
  const { page, close } = await open(`${platform().base}/dashboard/projects/${project.id}/jobs`);
  await signIn(page, user);
  await page.getByRole('heading', { level: 1, name: 'Jobs' }).waitFor();
  const pattern = /\/(?:healthz|projects\/.*)$/;
  const answer = { status: 502, contentType: 'text/html', body: '<h1>Bad gateway</h1>' };
  await page.route(pattern, (route) => route.fulfill(answer));
  await page.getByRole('link', { name: 'Webhooks' }).click();
  await away(page).waitFor();
  t.is(await page.getByText(/not JSON|Bad gateway/).count(), 0);
  await page.unroute(pattern);
  await page.getByText(/No webhook yet/).waitFor();
  await away(page).waitFor({ state: 'hidden' });
  t.is(await page.getByRole('alert').count(), 0);
  await close();
});
