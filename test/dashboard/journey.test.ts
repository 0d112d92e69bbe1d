import test from 'ava';
import { longTestMs } from '#test/support/time-outs.ts';
import { addMember } from '#test/support/members.ts';
import { inBrowser, useBrowser } from '../ops/browser.ts';
import { axeFaults, looksRight, runSql, signIn } from './browse.ts';
import { useDashboard } from './scene.ts';

const { platform } = useDashboard(test);
const open = useBrowser();

inBrowser('a person signs up, makes a project and a table, changes a cell, and runs a function', async (t) => {
  t.timeout(longTestMs);
  const { page, complaints, hosts, close } = await open(`${platform().base}/dashboard`);
  await page.getByRole('button', { name: 'Create an account' }).click();
  await page.getByLabel('E-mail').fill(`ada-${process.pid}@example.org`);
  await page.getByLabel('Password').fill('correct horse battery');
  t.deepEqual(await axeFaults(page), []);
  await page.getByRole('button', { name: 'Create the account' }).click();
  await page.getByRole('button', { name: 'New project' }).click();
  await page.getByLabel('Name').fill('<img src=x onerror=alert(1)> "Ünï"');
  await page.getByRole('button', { name: 'Create the project' }).click();
  await page.getByText(/^plinth_sk_/).waitFor();
  t.deepEqual(await axeFaults(page), []);
  await page.getByRole('button', { name: 'I have saved them' }).click();
  await page.getByRole('link', { name: /onerror/ }).click();
  await page.getByText('First steps').waitFor();
  await looksRight(t, page, 'home');

  await page.getByRole('link', { name: 'SQL' }).click();
  await runSql(page, 'create table "a <b>" (id bigint primary key, "naïve ""name" text)');
  await page.getByText(/CREATE TABLE/).waitFor();
  await runSql(page, `insert into "a <b>" select 9007199254740992 + i, 'row ' || i from generate_series(1, 500) i`);
  await page.getByText(/INSERT: 500/).waitFor();
  await runSql(page, 'select nope from "a <b>"');
  await page
    .getByRole('alert')
    .getByText(/does not exist/)
    .waitFor();
  const afterCaret = 'getSelection().focusNode.textContent.slice(getSelection().focusOffset)';
  t.regex(await page.evaluate<string>(afterCaret), /^nope/);
  await page.reload();
  await page.getByText('select nope from').waitFor();
  t.deepEqual(await axeFaults(page), []);

  await page.getByRole('link', { name: 'Tables' }).click();
  await page.getByRole('link', { name: 'a <b>' }).click();
  await page.getByText('9007199254740993', { exact: true }).waitFor();
  await looksRight(t, page, 'table');
  await page.getByRole('grid').focus();
  for (const key of ['ArrowDown', 'ArrowRight']) await page.keyboard.press(key);
  await page.keyboard.type('changed by hand');
  t.deepEqual(await axeFaults(page), []);
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('1 change is saved.').waitFor();
  await page.getByRole('gridcell', { name: 'changed by hand' }).waitFor();
  await page.keyboard.press('Control+ArrowDown');
  await page.getByText('row 500', { exact: true }).waitFor();
  t.true((await page.locator('*').count()) <= 1200);

  await page.getByRole('link', { name: 'Functions' }).click();
  await page.getByRole('button', { name: 'New function' }).click();
  await page.getByLabel('Name').fill('greet');
  await page.getByRole('button', { name: 'Create the function' }).click();
  await page.getByRole('button', { name: 'Run version 1' }).click();
  await page.getByRole('heading', { name: 'Result' }).waitFor();
  t.true(
    await page
      .getByRole('log')
      .getByText(/called with/)
      .isVisible(),
  );
  await looksRight(t, page, 'function');
  for (const area of ['Jobs', 'Logs', 'API keys']) {
    await page.getByRole('link', { name: area, exact: true }).click();
    await page.getByRole('heading', { level: 1, name: area }).waitFor();
    await looksRight(t, page, area);
  }
  t.deepEqual([...hosts], [new URL(platform().base).host]);
  // The two refusals that a person saw: nobody was signed in, and the column is not there.
  t.deepEqual(
    complaints.filter((complaint) => !/status of 40[01]/.test(complaint)),
    [],
  );
  t.is(await page.evaluate('document.cookie + Object.keys(localStorage).filter((key) => /token/.test(key))'), '');
  await close();
});

inBrowser('a viewer sees everything and is offered no change', async (t) => {
  t.timeout(longTestMs);
  const { client } = platform();
  const owner = await client.signUp();
  const project = await client.createProject(owner);
  await client.deploy(owner, project, 'export const handler = () => 1;');
  const viewer = await addMember(platform(), project.orgId, 'viewer');
  const { page, close } = await open(`${platform().base}/dashboard/projects/${project.id}/functions`);
  await signIn(page, viewer);
  await page.getByRole('row').nth(1).waitFor();
  t.is(await page.getByRole('button', { name: 'New function' }).count(), 0);
  await page.getByRole('row').nth(1).getByRole('link').click();
  await page.getByText('Developers, admins and owners change and run code.').waitFor();
  t.is(await page.getByRole('button', { name: /Deploy|Run/ }).count(), 0);
  await page.getByRole('link', { name: 'API keys' }).click();
  await page.getByText('Keys are made, rolled and deleted by admins and owners.').waitFor();
  t.is(await page.getByRole('button', { name: /Delete|Create/ }).count(), 0);
  await close();
});

inBrowser('a session that was ended elsewhere leads to the sign-in, and back to the same page', async (t) => {
  t.timeout(longTestMs);
  const { client } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  const { page, close } = await open(`${platform().base}/dashboard/projects/${project.id}/jobs`);
  await signIn(page, user);
  await page.getByRole('heading', { level: 1, name: 'Jobs' }).waitFor();
  const { body } = await client.call('GET', '/auth/sessions', { token: user.token });
  const cookie = (body.sessions as { id: string; kind: string }[]).find(({ kind }) => kind === 'dashboard');
  t.is((await client.call('DELETE', `/auth/sessions/${cookie?.id}`, { token: user.token })).status, 204);
  await page.getByRole('link', { name: 'API keys' }).click();
  await signIn(page, user);
  await page.getByRole('heading', { level: 1, name: 'API keys' }).waitFor();
  t.true(page.url().endsWith('/keys'));
  await close();
});

inBrowser('long code scrolls by keyboard', async (t) => {
  t.timeout(longTestMs);
  const { client } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  const lines = Array.from({ length: 200 }, (_, line) => `// line ${line}`).join('\n');
  const { id } = await client.deploy(user, project, `export const handler = () => 1;\n${lines}`);
  const { page, close } = await open(`${platform().base}/dashboard/projects/${project.id}/functions/${id}`);
  await signIn(page, user);
  await page.getByText('// line 3', { exact: true }).waitFor();
  t.deepEqual(await axeFaults(page), []);
  await close();
});

inBrowser('Ctrl-K finds a table by a part of its name, the theme is kept, and ? lists the keys', async (t) => {
  t.timeout(longTestMs);
  const { client } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  await client.call('POST', `/projects/${project.id}/db/query`, {
    token: user.token,
    body: { sql: 'create table "orders <b>" (id int primary key)' },
  });
  const { page, close } = await open(`${platform().base}/dashboard/projects/${project.id}`);
  await signIn(page, user);
  await page.getByRole('heading', { level: 2, name: 'Usage' }).waitFor();
  await page.keyboard.press('Control+k');
  await page.getByRole('combobox', { name: 'Find' }).fill('rders');
  await page.getByRole('option', { name: 'orders <b>' }).waitFor();
  await looksRight(t, page, 'find');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'orders <b>' }).waitFor();
  await page.keyboard.press('Control+k');
  await page.getByRole('combobox', { name: 'Find' }).fill('dark');
  await page.keyboard.press('Enter');
  await page.reload();
  await page.getByRole('heading', { level: 1, name: 'orders <b>' }).waitFor();
  t.is(await page.evaluate('getComputedStyle(document.documentElement).colorScheme'), 'dark');
  await page.keyboard.press('?');
  await page.getByRole('dialog', { name: 'Keys' }).waitFor();
  await close();
});
