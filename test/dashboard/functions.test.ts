import test from 'ava';
import type { Page } from 'playwright-core';
import { addMember } from '#test/support/members.ts';
import { longTestMs } from '#test/support/time-outs.ts';
import { inBrowser, useBrowser } from '../ops/browser.ts';
import { looksRight, replaceCode, signIn } from './browse.ts';
import { useDashboard } from './scene.ts';

const { platform } = useDashboard(test);
const open = useBrowser();

const hostile = `<img src=x onerror=alert(1)> "q" \u202Egnp.js 🦄`;

const tabOf = (page: Page, name: string) =>
  page.getByRole('navigation', { name: 'Parts of the function' }).getByRole('link', { name, exact: true });

const setUp = async (code = 'export const handler = (x) => ({ deployed: x });\n') => {
  const { client } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  const body = { name: hostile, language: 'javascript', code };
  const made = await client.call('POST', `/projects/${project.id}/functions`, { token: user.token, body });
  const at = `/projects/${project.id}/functions/${String(made.body.id)}`;
  const visit = await open(`${platform().base}/dashboard${at}`);
  await signIn(visit.page, user);
  await visit.page.getByRole('link', { name: 'All functions' }).waitFor();
  const fn = async () => (await client.call('GET', at, { token: user.token })).body;
  return { ...visit, client, user, project, at, fn };
};

inBrowser('a draft is run without being deployed, deployed, compared and rolled back', async (t) => {
  t.timeout(longTestMs);
  const { page, complaints, fn, close } = await setUp();
  await page.getByLabel('Payload (JSON)').fill('{"n":12345678901234567890}');
  await replaceCode(
    page,
    `export const handler = (x, sdk) => {\n  sdk.log('warn', 'tried', { by: 'hand' });\n  return { draft: 1 };\n};\n`,
  );
  await page.keyboard.press('Control+Enter');
  await page.getByRole('log').getByText('tried').waitFor();
  await page.getByText('"draft": 1').waitFor();
  t.is((await fn()).version, 1);
  await looksRight(t, page, 'function-draft');
  await page.reload();
  await page.getByText('Not deployed yet; kept in this browser.').waitFor();
  t.is(await page.getByLabel('Payload (JSON)').inputValue(), '{"n":12345678901234567890}');
  await page.getByRole('button', { name: 'Deploy', exact: true }).click();
  await page.getByText('Version 2', { exact: true }).waitFor();
  t.regex(String((await fn()).code), /draft: 1/);

  await tabOf(page, 'Versions').click();
  await page.getByRole('button', { name: 'Compare version 1' }).click();
  await page.getByRole('region', { name: 'From version 1 to version 2' }).first().getByText('deployed').waitFor();
  await looksRight(t, page, 'function-versions');
  await page.getByRole('button', { name: 'Roll back to 1' }).click();
  await page.getByRole('button', { name: 'Roll back to version 1' }).click();
  await page.getByText('Version 3 is deployed.').waitFor();
  t.regex(String((await fn()).code), /deployed: x/);
  t.deepEqual(
    complaints.filter((complaint) => !/status of 401/.test(complaint)),
    [],
  );
  await close();
});

inBrowser('a large module that each run evaluates says why, until a draft replaces it', async (t) => {
  t.timeout(longTestMs);
  const { page, client, user, at, close } = await setUp();
  const files = {
    'index.js':
      "import text from './long.txt';\nconst money = new Intl.NumberFormat('de');\nexport const handler = () => money.format(text.length);\n",
    'long.txt': 'x'.repeat(70_000),
  };
  await client.call('PATCH', at, { token: user.token, body: { files } });
  await page.reload();
  await page.getByText('Each run evaluates the module of this version anew: Intl cannot be stored.').waitFor();
  await looksRight(t, page, 'function-cold');
  await replaceCode(page, 'export const handler = () => 1;\n');
  await page.getByRole('button', { name: 'Deploy', exact: true }).click();
  await page.getByText('Version 3', { exact: true }).waitFor();
  t.is(await page.getByText('Each run evaluates').count(), 0);
  await close();
});

inBrowser('runs are filtered, explained and run again; a failure shows its stack', async (t) => {
  t.timeout(longTestMs);
  const { page, client, user, at, close } = await setUp(
    `export const handler = (x) => { console.log('saw', x); if (x === 'bad') throw new Error('<b>no</b>'); return x; };`,
  );
  for (const payload of ['good', 'bad'])
    await client.call('POST', `${at}/invoke`, { token: user.token, body: { payload } });
  await tabOf(page, 'Runs').click();
  await page.getByRole('cell', { name: 'success' }).waitFor();
  await page.getByLabel('Status').selectOption('error');
  await page.getByText('1 run', { exact: true }).waitFor();
  t.true(page.url().includes('status=error'));
  await looksRight(t, page, 'function-runs');
  await page.getByRole('row').nth(1).getByRole('link').click();
  await page.getByRole('heading', { name: 'Why it took so long' }).waitFor();
  await page.getByText('Error: <b>no</b>').first().waitFor();
  await looksRight(t, page, 'function-run');
  const first = page.url();
  await page.getByRole('button', { name: /^Run its payload again/ }).click();
  await page.waitForURL((url) => url.href !== first);
  await page.getByText('Error: <b>no</b>').first().waitFor();
  await page.goBack();
  t.is(page.url(), first);
  await close();
});

inBrowser('a second file makes a function of several files', async (t) => {
  t.timeout(longTestMs);
  const { page, fn, close } = await setUp('export const handler = () => 1;\n');
  await page.getByRole('button', { name: 'Add a file' }).click();
  await page.getByLabel('Path').fill('lib/two.ts');
  await page.getByRole('button', { name: 'Add the file' }).click();
  await page.getByRole('button', { name: 'lib/two.ts', exact: true }).waitFor();
  await replaceCode(page, 'export const two = 2;\n');
  await page.getByRole('button', { name: 'index.ts', exact: true }).click();
  await replaceCode(page, `import { two } from './lib/two.ts';\nexport const handler = () => ({ two });\n`);
  await page.getByRole('button', { name: 'Run the draft' }).click();
  await page.getByText('"two": 2').waitFor();
  await page.getByRole('button', { name: 'Deploy', exact: true }).click();
  await page.getByText('Version 2', { exact: true }).waitFor();
  t.deepEqual(Object.keys((await fn()).files as object).toSorted(), ['index.ts', 'lib/two.ts']);
  await looksRight(t, page, 'function-files');
  await page.getByRole('button', { name: 'lib/two.ts', exact: true }).click();
  await page.getByRole('button', { name: 'Remove lib/two.ts' }).click();
  await page.getByRole('button', { name: 'Remove the file' }).click();
  await page.getByRole('button', { name: 'Deploy', exact: true }).click();
  await page
    .getByRole('alert')
    .getByText(/two\.ts/)
    .first()
    .waitFor();
  t.is((await fn()).version, 2);
  await close();
});

inBrowser('what a colleague deploys does not replace what was typed', async (t) => {
  t.timeout(longTestMs);
  const { page, client, user, at, fn, close } = await setUp();
  await replaceCode(page, 'export const handler = () => "mine";\n');
  const code = 'export const handler = () => "of the colleague";\n';
  await client.call('PATCH', at, { token: user.token, body: { code } });
  await page.reload();
  await page.getByText(/Version 2 was deployed while you changed version 1/).waitFor();
  await page.locator('.cm-content').getByText('mine').waitFor();
  await tabOf(page, 'Versions').click();
  await page.getByRole('button', { name: 'Compare your draft with it' }).click();
  await page.getByText('of the colleague').waitFor();
  await tabOf(page, 'Code').click();
  await page.getByRole('button', { name: 'Discard the draft' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Discard the draft' }).click();
  await page.locator('.cm-content').getByText('of the colleague').waitFor();
  t.is((await fn()).version, 2);
  await close();
});

inBrowser('access, variables and triggers are set and taken away', async (t) => {
  t.timeout(longTestMs);
  const { page, fn, client, user, project, close } = await setUp();
  await tabOf(page, 'Settings').click();
  await page.getByLabel('Who may call it').selectOption('public');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Saved.').waitFor();
  t.like(await fn(), { access: 'public', version: 1 });
  await page.getByLabel('Name of the variable').fill('TOKEN');
  await page.getByLabel('Value').fill('s3cret');
  await page.getByRole('button', { name: 'Set the variable' }).click();
  await page.getByText('kept sealed').waitFor();
  t.false((await page.content()).includes('s3cret'));
  await looksRight(t, page, 'function-settings');
  await page.getByRole('button', { name: 'Delete the variable TOKEN' }).click();
  await page.getByRole('button', { name: 'Delete the variable', exact: true }).click();
  await page.getByText('There is none.').waitFor();
  t.deepEqual((await fn()).env_vars, {});

  await tabOf(page, 'Triggers').click();
  await page.getByRole('combobox', { name: 'Event' }).fill('db.inserted');
  await page.getByRole('button', { name: 'Add the trigger' }).click();
  await page
    .getByRole('alert')
    .getByText(/did you mean/)
    .waitFor();
  t.is(await page.getByRole('combobox', { name: 'Event' }).inputValue(), 'db.inserted');
  await page.getByRole('combobox', { name: 'Event' }).fill('db.insert');
  await page.getByLabel('Only if').fill(`data.status = 'paid'`);
  await page.getByRole('button', { name: 'Add the trigger' }).click();
  await page.getByRole('cell', { name: 'db.insert', exact: true }).waitFor();
  await looksRight(t, page, 'function-triggers');
  await page.getByRole('button', { name: 'Delete the trigger for db.insert' }).click();
  await page.getByRole('button', { name: 'Delete the trigger', exact: true }).click();
  await page.getByText('No event runs this function.').waitFor();

  await tabOf(page, 'Call it').click();
  await page
    .getByText(/curl -X POST/)
    .first()
    .waitFor();
  await looksRight(t, page, 'function-call');
  await tabOf(page, 'Settings').click();
  await page.getByRole('button', { name: 'Delete the function' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete the function' }).click();
  await page.getByText(/No function yet/).waitFor();
  const { body } = await client.call('GET', `/projects/${project.id}/functions`, { token: user.token });
  t.is(body.total, 0);
  await close();
});

inBrowser('a viewer reads code, runs, versions and settings, and is offered no change', async (t) => {
  t.timeout(longTestMs);
  const { client } = platform();
  const owner = await client.signUp();
  const project = await client.createProject(owner);
  const fn = await client.deploy(owner, project, 'export const handler = () => 1;');
  const viewer = await addMember(platform(), project.orgId, 'viewer');
  const { page, complaints, close } = await open(
    `${platform().base}/dashboard/projects/${project.id}/functions/${fn.id}`,
  );
  await signIn(page, viewer);
  await page.getByText('Developers, admins and owners change and run code.').waitFor();
  await page.locator('.cm-content').click();
  await page.keyboard.insertText('changed');
  t.false((await page.locator('.cm-content').innerText()).includes('changed'));
  const write = /Deploy|Run|Delete|Save|Set|Add |Roll/;
  for (const tab of ['Code', 'Runs', 'Versions', 'Triggers', 'Settings', 'Call it']) {
    await tabOf(page, tab).click();
    t.is(await page.getByRole('button', { name: write }).count(), 0, tab);
  }
  t.deepEqual(
    complaints.filter((complaint) => !/status of 401/.test(complaint)),
    [],
  );
  await close();
});

inBrowser(
  'the editor offers columns with their types and values of enums, and marks names that are not there',
  async (t) => {
    t.timeout(longTestMs);
    const { page, complaints, client, project, user, close } = await setUp();
    const sql = async (text: string): Promise<void> => {
      const answer = await client.call('POST', `/projects/${project.id}/db/query`, {
        token: user.token,
        body: { sql: text },
      });
      t.is(answer.status, 200, answer.text);
    };
    await sql(`create type mood as enum ('sad', 'happy <b>')`);
    await sql(`create table people (id bigint primary key, mood mood, "it's <i>" text)`);
    await page.reload();
    const option = (name: string | RegExp) => page.getByRole('option', { name });
    const editor = page.locator('.cm-content');
    await replaceCode(page, `export const handler = async (x, { db }) => { await db.insert('`);
    await page.keyboard.type('peo');
    await option(/^people/).click();
    await page.keyboard.type(`', { mo`);
    await option(/^mood.*mood$/).click();
    await page.keyboard.type(`: h`);
    await option(/^happy <b>/).waitFor();
    await looksRight(t, page, 'function-completion');
    await option(/^happy <b>/).click();
    await page.keyboard.insertText(`, id: 1 }); };\n`);
    await editor.getByText(`await db.insert('people', { mood: 'happy <b>', id: 1 })`).waitFor();
    await page.keyboard.press('Control+Space');
    await page.keyboard.press('Escape');
    const marks = page.locator('.cm-lintRange-warning');
    await replaceCode(page, `export const handler = async (x, { db }) => db.insert('poeple', { id: 1 });\n`);
    await marks.getByText('poeple').waitFor();
    t.is(await marks.count(), 1);
    await page.keyboard.press('F8');
    await page.getByText('There is no table poeple. Did you mean people?').waitFor();
    await looksRight(t, page, 'function-lint');
    await replaceCode(
      page,
      `export const handler = async (x, { db }) => db.insert('people', { id: 1, mood: 'hapy', nope: 2 });\n`,
    );
    await marks.getByText('hapy').waitFor();
    await marks.getByText('nope').waitFor();
    // A table that is made now is known at once.
    await replaceCode(page, `export const handler = async (x, { db }) => db.select('newer');\n`);
    await marks.getByText('newer').waitFor();
    await sql('create table newer (id int)');
    await marks.waitFor({ state: 'detached' });
    t.deepEqual(
      complaints.filter((complaint) => !/status of 40/.test(complaint)),
      [],
    );
    await close();
  },
);
