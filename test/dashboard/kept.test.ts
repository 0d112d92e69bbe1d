import test from 'ava';
import type { Page } from 'playwright-core';
import { longTestMs } from '#test/support/time-outs.ts';
import type { TestUser } from '#test/support/client.ts';
import { addMember } from '#test/support/members.ts';
import { until } from '#test/support/until.ts';
import { inBrowser, useBrowser } from '../ops/browser.ts';
import { looksRight, runSql, signIn } from './browse.ts';
import { newProjectScene, useDashboard } from './scene.ts';

const { platform } = useDashboard(test);
const open = useBrowser();

const hostile = `<b>:"'%2F:staged`;

const newScene = async () => {
  const scene = await newProjectScene(platform());
  const quoted = `"${hostile.replaceAll('"', '""')}"`;
  for (const table of ['people', quoted]) {
    await scene.sql(`create table ${table} (id int primary key, name text, at text not null default 'now')`);
    await scene.sql(`insert into ${table} select i, 'person ' || i from generate_series(1, 9) i`);
  }
  return scene;
};

const cell = (page: Page, name: string) => page.getByRole('gridcell', { name, exact: true });

const change = async (page: Page, from: string, to: string): Promise<void> => {
  await cell(page, from).click();
  await page.keyboard.type(to);
  await page.keyboard.press('Enter');
  await cell(page, to).waitFor();
};

/** A further window of the same browser. */
const another = async (page: Page, address: string): Promise<Page> => {
  const window = await page.context().newPage();
  await window.goto(address);
  return window;
};

inBrowser('changes of rows come back after their window was closed, and each window keeps its own', async (t) => {
  t.timeout(longTestMs);
  const { owner, sql, at } = await newScene();
  const { page, close } = await open(at('/tables/people'));
  await signIn(page, owner);
  await change(page, 'person 1', 'Ada');
  const second = await another(page, at('/tables/people'));
  await cell(second, 'person 1').waitFor();
  await change(second, 'person 2', 'Grace');
  await second.reload();
  await second.getByText('1 change is not saved').waitFor();
  await cell(second, 'Grace').waitFor();
  // A window that lives keeps its changes; those of the closed one come to the next that shows the table, or to one
  // that has just begun to.
  await page.close();
  const third = await another(second, at('/tables/people'));
  await until(async () => (await cell(second, 'Ada').count()) + (await cell(third, 'Ada').count()) === 1);
  await cell(second, 'Grace').waitFor();
  await cell(third, 'person 2').waitFor();
  await third.getByRole('button', { name: 'Insert a row' }).click();
  await third.getByText(/changes? (?:is|are) not saved/).waitFor();
  const waiting = await another(third, 'about:blank');
  await Promise.all([second.close(), third.close()]);
  await waiting.goto(at('/tables/people'));
  await waiting.getByText('3 changes are not saved').waitFor();
  for (const name of ['Ada', 'Grace']) await cell(waiting, name).waitFor();
  t.deepEqual(await sql(`select count(*)::int as n from people where name in ('Ada', 'Grace')`), [{ n: 0 }]);
  await waiting.getByRole('button', { name: 'Discard all' }).click();
  await waiting.getByRole('button', { name: 'Discard', exact: true }).click();
  await cell(waiting, 'person 1').waitFor();
  await waiting.reload();
  await cell(waiting, 'person 1').waitFor();
  t.is(await waiting.getByText('not saved').count(), 0);
  await close();
});

inBrowser(
  'two closed windows that changed one row leave both changes; hostile names of tables are their own',
  async (t) => {
    t.timeout(longTestMs);
    const { owner, at } = await newScene();
    const address = at(`/tables/${encodeURIComponent(hostile)}`);
    const { page, close } = await open(address);
    await signIn(page, owner);
    await change(page, 'person 1', 'Ada');
    const second = await another(page, address);
    await cell(second, 'person 1').waitFor();
    await cell(second, 'now').first().click();
    await second.keyboard.type('then');
    await second.keyboard.press('Enter');
    await second.getByText('1 change is not saved').waitFor();
    const third = await another(page, 'about:blank');
    await Promise.all([page.close(), second.close()]);
    await third.goto(at('/tables/people'));
    await cell(third, 'person 1').waitFor();
    t.is(await third.getByText('not saved').count(), 0);
    await third.goto(address);
    await third.getByText('1 change is not saved').waitFor();
    for (const text of ['Ada', 'then']) await cell(third, text).waitFor();
    await cell(third, 'Ada').click();
    await third.keyboard.press('Control+s');
    await third.getByText('1 change is saved.').waitFor();
    await close();
  },
);

/** Leaves a text of SQL and changes of rows behind. */
const leaveTexts = async (page: Page, at: (rest: string) => string): Promise<void> => {
  await change(page, 'person 1', 'my secret change');
  await page.goto(at('/sql'));
  await page.locator('.cm-content').waitFor();
  await runSql(page, `select 'my secret SQL'`);
  await page.getByRole('gridcell', { name: 'my secret SQL' }).waitFor();
};

const keptTexts = (page: Page): Promise<string> =>
  page.evaluate<string>('JSON.stringify([{ ...localStorage }, { ...sessionStorage }])');

const signInAs = async (page: Page, user: TestUser, address: string): Promise<void> => {
  await page.goto(address);
  await signIn(page, user);
};

inBrowser('signing out deletes what a person has typed, after a question, and ends the other windows', async (t) => {
  t.timeout(longTestMs);
  const { owner, project, at } = await newScene();
  const viewer = await addMember(platform(), project.orgId, 'viewer');
  const { page, close } = await open(at('/tables/people'));
  await signIn(page, owner);
  await leaveTexts(page, at);
  const second = await another(page, at('/tables/people'));
  await cell(second, 'person 2').waitFor();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('dialog').getByText('texts of SQL').waitFor();
  await looksRight(t, page, 'sign-out');
  await page.getByRole('button', { name: 'Cancel' }).click();
  t.regex(await keptTexts(page), /my secret SQL/);
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByRole('button', { name: 'Delete them and sign out' }).click();
  await page.getByRole('button', { name: 'Sign in' }).waitFor();
  await second.getByRole('button', { name: 'Sign in' }).waitFor();
  t.notRegex(await keptTexts(page), /secret|staged|sql:/);
  await signInAs(page, viewer, at('/tables/people'));
  await cell(page, 'person 1').waitFor();
  t.is(await page.getByText('not saved').count(), 0);
  await close();
});

inBrowser('a session that ended elsewhere leaves texts to the same person, and to nobody else', async (t) => {
  t.timeout(longTestMs);
  const { owner, project, at } = await newScene();
  const colleague = await addMember(platform(), project.orgId, 'developer');
  const { page, close } = await open(at('/tables/people'));
  await signIn(page, owner);
  await leaveTexts(page, at);
  const endSessions = () => page.context().clearCookies();
  await endSessions();
  await signInAs(page, owner, at('/tables/people'));
  await cell(page, 'my secret change').waitFor();
  await endSessions();
  await signInAs(page, colleague, at('/tables/people'));
  await cell(page, 'person 1').waitFor();
  t.notRegex(await keptTexts(page), /my secret/);
  await close();
});
