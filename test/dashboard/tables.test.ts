import test from 'ava';
import type { Page } from 'playwright-core';
import { addMember } from '#test/support/members.ts';
import { longTestMs } from '#test/support/time-outs.ts';
import { inBrowser, useBrowser } from '../ops/browser.ts';
import { axeFaults, looksRight, signIn } from './browse.ts';
import { type ProjectScene, newProjectScene, useDashboard } from './scene.ts';

const { platform } = useDashboard(test);
const open = useBrowser();

const newScene = (): Promise<ProjectScene> => newProjectScene(platform());

/** An editor within the grid. */
const inCell = (page: Page) => page.locator('.cell-input');
const cell = (page: Page, name: string) => page.getByRole('gridcell', { name, exact: true });
const press = async (page: Page, ...keys: readonly string[]): Promise<void> => {
  for (const key of keys) await page.keyboard.press(key);
};
const save = async (page: Page): Promise<void> => {
  await page.keyboard.press('Control+s');
  await page.getByText(/changes? (?:is|are) saved\./).waitFor();
};

inBrowser('cells are changed by keyboard, shown as SQL, and saved together', async (t) => {
  t.timeout(longTestMs);
  const { owner, sql, at } = await newScene();
  await sql(`create type mood as enum ('sad', 'happy')`);
  await sql(
    `create table people (id int primary key, name text, mood mood, is_kind boolean, doc jsonb, born date, at timestamptz not null default now())`,
  );
  await sql(`insert into people select i, 'person ' || i, 'sad', false, '{"n": 1}' from generate_series(1, 40) i`);
  const { page, complaints, close } = await open(at('/tables/people'));
  await signIn(page, owner);
  await cell(page, 'person 1').click();
  // A key with Ctrl is a command, and types nothing.
  await press(page, 'Control+4', 'Control+b');
  t.is(await inCell(page).count(), 0);
  await page.keyboard.type('Ada');
  await press(page, 'Enter');
  await cell(page, 'Ada').waitFor();
  await press(page, 'F2');
  await page.keyboard.type('!');
  await press(page, 'Tab');
  await cell(page, 'person 2!').waitFor();
  await press(page, 'Enter');
  await inCell(page).selectOption('happy');
  await press(page, 'ArrowRight', 'Enter', 't', 'Enter');
  await cell(page, 'true').waitFor();
  await press(page, 'ArrowRight', 'Enter');
  await page.getByRole('dialog').getByRole('textbox').fill('{"n": ');
  await page.getByRole('button', { name: 'Keep' }).click();
  await page.getByRole('dialog').getByRole('alert').waitFor();
  await page.getByRole('dialog').getByRole('textbox').fill('{"n": 9007199254740993}');
  await page.getByRole('button', { name: 'Keep' }).click();
  await page.getByText('2 changes are not saved').waitFor();
  t.deepEqual(await sql('select count(*) from people where name = $$Ada$$'), [{ count: 0 }]);
  await page.getByRole('button', { name: 'Show the SQL' }).click();
  await page.getByText(`update public."people" set "name" = 'Ada' where "id" = '1' and "name" = 'person 1';`).waitFor();
  await looksRight(t, page, 'tables-sql');
  await press(page, 'Escape');
  await looksRight(t, page, 'tables-staged');
  await page.getByRole('grid').focus();
  await save(page);
  const saved = await sql('select name, mood, is_kind, doc::text from people where id in (1, 2) order by id');
  t.deepEqual(saved, [
    { name: 'Ada', mood: 'sad', is_kind: false, doc: '{"n": 1}' },
    { name: 'person 2!', mood: 'happy', is_kind: true, doc: '{"n": 9007199254740993}' },
  ]);
  t.deepEqual(
    complaints.filter((complaint) => !/status of 401/.test(complaint)),
    [],
  );
  await close();
});

inBrowser('NULL, an empty text and a default are three things; changes are undone and survive a reload', async (t) => {
  t.timeout(longTestMs);
  const { owner, sql, at } = await newScene();
  await sql(`create table things (id int generated always as identity primary key, a text default 'x', b text, n int)`);
  await sql(`insert into things (a, b, n) values ('one', '', null), ('two', null, 2)`);
  const { page, close } = await open(at('/tables/things'));
  await signIn(page, owner);
  await cell(page, 'one').click();
  t.is(await page.locator('.grid-row .blank').count(), 1);
  t.is(await page.locator('.grid-row .null').count(), 2);
  await press(page, 'Control+Backspace');
  t.is(await page.locator('.grid-row .null').count(), 3);
  await press(page, 'Control+z');
  await cell(page, 'one').waitFor();
  await press(page, 'Control+Shift+z');
  await page.getByText('1 change is not saved').waitFor();
  // Escape gives up, and an untouched NULL stays NULL.
  await press(page, 'Enter');
  await page.keyboard.type('lost');
  await press(page, 'Escape', 'ArrowDown', 'ArrowRight', 'Enter', 'Enter');
  await page.getByText('1 change is not saved').waitFor();
  await page.getByRole('button', { name: 'Insert a row' }).click();
  t.is(await page.locator('.grid-row.inserted .default').count(), 2);
  await press(page, 'ArrowRight', 'ArrowRight');
  await page.keyboard.type('fresh');
  await press(page, 'Enter');
  await page.reload();
  await page.getByText('2 changes are not saved').waitFor();
  await cell(page, 'two').click();
  await page.getByRole('button', { name: 'Duplicate' }).click();
  await page.getByText('3 changes are not saved').waitFor();
  await cell(page, 'two').last().click();
  await page.getByRole('button', { name: 'Delete', exact: true }).click();
  await page.locator('.grid-row.removed').waitFor();
  await save(page);
  t.deepEqual(await sql('select a, b, n from things order by id'), [
    { a: null, b: '', n: null },
    { a: 'x', b: 'fresh', n: null },
    { a: 'two', b: null, n: 2 },
  ]);
  await close();
});

inBrowser('a range comes from a spreadsheet and goes to one', async (t) => {
  t.timeout(longTestMs);
  const { owner, sql, at } = await newScene();
  await sql('create table sheet (id int primary key, a text, b int)');
  await sql(`insert into sheet select i, 'a' || i, i from generate_series(1, 3) i`);
  const { page, close } = await open(at('/tables/sheet'));
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await signIn(page, owner);
  await cell(page, 'a2').click();
  await page.evaluate(`navigator.clipboard.writeText('x\\ty\\n"two\\nlines"\\t7\\n')`);
  await press(page, 'Control+v');
  // The first row has a text for a number: the database says so, and nothing is written.
  await page.getByText('2 changes are not saved').waitFor();
  await press(page, 'Control+s');
  await page
    .getByRole('alert')
    .getByText(/invalid input syntax/)
    .waitFor();
  await press(page, 'Control+z');
  await page.evaluate(`navigator.clipboard.writeText('p\\t5\\r\\nq\\t6\\r\\n4\\t9')`);
  await press(page, 'Control+v');
  await page.getByText('3 changes are not saved').waitFor();
  await press(page, 'Control+z');
  await page.evaluate(`navigator.clipboard.writeText('p\\t5\\r\\nq\\t6\\r\\n')`);
  await press(page, 'Control+v');
  await save(page);
  t.deepEqual(await sql('select a, b from sheet where id > 1 order by id'), [
    { a: 'p', b: 5 },
    { a: 'q', b: 6 },
  ]);
  await cell(page, 'a1').click();
  await press(page, 'Shift+ArrowDown', 'Shift+ArrowRight', 'Control+c');
  t.is(await page.evaluate<string>('navigator.clipboard.readText()'), 'a1\t1\np\t5');
  await close();
});

inBrowser('rows that a colleague has changed are conflicts, each of them, and are settled one by one', async (t) => {
  t.timeout(longTestMs);
  const { owner, sql, at } = await newScene();
  await sql('create table notes (id int primary key, text text)');
  await sql(`insert into notes values (1, 'first'), (2, 'second'), (3, 'third')`);
  const { page, close } = await open(at('/tables/notes'));
  await signIn(page, owner);
  for (const [name, mine] of [
    ['first', 'mine 1'],
    ['second', 'mine 2'],
    ['third', 'mine 3'],
  ] as const) {
    await cell(page, name).click();
    await page.keyboard.type(mine);
    await press(page, 'Enter');
  }
  await sql(`update notes set text = 'theirs ' || id where id < 3`);
  await press(page, 'Control+s');
  await page.getByText('text: theirs theirs 1, yours mine 1').waitFor();
  await page.getByText('text: theirs theirs 2, yours mine 2').waitFor();
  t.deepEqual(await axeFaults(page), []);
  t.deepEqual(await sql('select text from notes order by id'), [
    { text: 'theirs 1' },
    { text: 'theirs 2' },
    { text: 'third' },
  ]);
  const line = page.getByRole('listitem');
  await line.filter({ hasText: 'theirs 1' }).getByRole('button', { name: 'Keep theirs' }).click();
  await line.filter({ hasText: 'theirs 2' }).getByRole('button', { name: 'Keep mine' }).click();
  await page.getByRole('grid').focus();
  await save(page);
  t.deepEqual(await sql('select text from notes order by id'), [
    { text: 'theirs 1' },
    { text: 'mine 2' },
    { text: 'mine 3' },
  ]);
  await close();
});

inBrowser('filters, orders and whose eyes it is are in the address; foreign keys lead on', async (t) => {
  t.timeout(longTestMs);
  const { owner, project, sql, at } = await newScene();
  await sql(`create table authors (id int primary key, "na""me" text)`);
  await sql(`insert into authors values (1, 'Ada'), (2, 'Grace')`);
  await sql('create table books (id int primary key, title text, author int references authors)');
  await sql(`insert into books select i, 'book ' || i, 1 + i % 2 from generate_series(1, 250) i`);
  await sql('alter table books enable row level security');
  await sql(`create policy own on books for select to authenticated using (author = 2)`);
  const made = await platform().client.call('POST', `/projects/${project.id}/users`, {
    token: owner.token,
    body: { email: 'reader@example.org' },
  });
  t.is(made.status, 201);
  const { page, close } = await open(at('/tables/books'));
  await signIn(page, owner);
  await page.getByText('250 rows').waitFor();
  await page.getByRole('button', { name: 'Add a condition' }).click();
  await page.getByLabel('Column').selectOption('author');
  await page.getByLabel('Value').fill('2');
  await page.getByRole('button', { name: 'Filter', exact: true }).click();
  await page.getByText('125 rows').waitFor();
  await page.getByRole('columnheader', { name: /title/ }).getByRole('button').click();
  await page.getByRole('columnheader', { name: /title/ }).getByRole('button').click();
  await page.getByText('book 99', { exact: true }).waitFor();
  await page.reload();
  await page.getByText('125 rows').waitFor();
  t.is(await page.locator('[aria-sort=descending]').count(), 1);
  await looksRight(t, page, 'tables-filter');
  await page.getByText('book 99', { exact: true }).click();
  await press(page, 'ArrowRight');
  await page.getByRole('button', { name: 'Peek at authors' }).click();
  await page.getByRole('dialog').getByText('Grace').waitFor();
  await page.getByRole('dialog').getByRole('link', { name: 'Open in authors' }).click();
  await page.getByText('1 row', { exact: true }).waitFor();
  await cell(page, 'Grace').waitFor();
  await page.goto(at('/tables/books'));
  await page.getByLabel('Look as').selectOption('anon');
  await page.getByText('0 rows').waitFor();
  await page.getByLabel('Look as').selectOption('a user…');
  await page.getByRole('button', { name: 'reader@example.org' }).click();
  await page.getByText('125 rows').waitFor();
  t.true(page.url().includes('as=authenticated'));
  await page.getByText('Rows are changed as the project only.').waitFor();
  await close();
});

inBrowser('a table of 120,000 rows: pages are read on from the last row, few elements, an estimate', async (t) => {
  t.timeout(longTestMs);
  const { owner, sql, at } = await newScene();
  await sql('create table large (id int primary key, text text)');
  await sql(`insert into large select i, 'row ' || i from generate_series(1, 120000) i`);
  await sql('analyze large');
  const { page, close } = await open(at('/tables/large'));
  const requests: string[] = [];
  page.on('request', (request) => requests.push(decodeURIComponent(request.url())));
  await signIn(page, owner);
  await page.getByText('about 120,000 rows').waitFor();
  await page.getByRole('grid').focus();
  for (let times = 0; times < 10; times += 1) await press(page, 'PageDown');
  await cell(page, 'row 201').waitFor();
  t.true(requests.some((url) => /or=\(and\("id"\.gt\."\d+"\)\)/.test(url)));
  await press(page, 'Control+End', 'Control+ArrowDown');
  await cell(page, 'row 120000').waitFor();
  t.true((await page.locator('*').count()) <= 1200);
  await page.getByRole('button', { name: 'Count exactly' }).click();
  await page.getByText('120,000 rows', { exact: true }).waitFor();
  t.true(page.url().includes('count=exact'));
  await close();
});

inBrowser(
  'a table is made in a dialog that shows its SQL, as a migration too; a file is imported and exported',
  async (t) => {
    t.timeout(longTestMs);
    const { owner, sql, project, at } = await newScene();
    const { page, close } = await open(at('/tables'));
    await signIn(page, owner);
    await page.getByRole('button', { name: 'New table' }).click();
    await page.getByLabel('Name of the table').fill('guests "of" <b>');
    await page.getByText('create table public."guests ""of"" <b>"').waitFor();
    await page.getByRole('button', { name: 'Add a column' }).click();
    await page.getByRole('group', { name: 'Column 3' }).getByLabel('Name').fill('n');
    await page.getByRole('group', { name: 'Column 3' }).getByLabel('Type').fill('nothing');
    await page.getByRole('dialog').getByRole('alert').getByText('is no type of this database').waitFor();
    await page.getByRole('group', { name: 'Column 3' }).getByLabel('Type').fill('numeric(10,2)');
    await page.getByText('"n" numeric(10,2)').waitFor();
    await page.getByLabel('Save as a migration').check();
    await looksRight(t, page, 'tables-new');
    await page.getByRole('button', { name: 'Create the table' }).click();
    await page.getByRole('heading', { name: 'guests "of" <b>' }).waitFor();
    t.deepEqual(await sql(`select relname from pg_class where relname like 'guests%' and relkind = 'r'`), [
      { relname: 'guests "of" <b>' },
    ]);
    const applied = await platform().client.call('GET', `/projects/${project.id}/db/migrations`, {
      token: owner.token,
    });
    t.regex(applied.body.migrations[0].name, /^\d{14}_create_guests_of_b_$/);
    await page.getByRole('button', { name: 'Import' }).click();
    const csv = 'ID,N\n1,"1.10"\n2,\n3,"x"\n';
    await page
      .getByLabel('CSV or JSON')
      .setInputFiles({ name: 'g.csv', mimeType: 'text/csv', buffer: Buffer.from(csv) });
    await page.getByText('The first of 3 rows').waitFor();
    await page.getByRole('button', { name: 'Check' }).click();
    await page
      .getByRole('alert')
      .getByText(/invalid input syntax/)
      .waitFor();
    const good = csv.replace('"x"', '"2.50"');
    await page
      .getByLabel('CSV or JSON')
      .setInputFiles({ name: 'g.csv', mimeType: 'text/csv', buffer: Buffer.from(good) });
    await page.getByRole('button', { name: 'Check' }).click();
    await page.getByText('The database takes all rows.').waitFor();
    t.deepEqual(await sql('select count(*) from "guests ""of"" <b>"'), [{ count: 0 }]);
    await looksRight(t, page, 'tables-import');
    await page.getByRole('dialog').getByRole('button', { name: 'Import' }).click();
    await cell(page, '1.10').waitFor();
    await page.getByRole('button', { name: 'Export' }).click();
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'CSV' }).click(),
    ]);
    const chunks: Buffer[] = [];
    for await (const chunk of await download.createReadStream()) chunks.push(chunk as Buffer);
    t.regex(Buffer.concat(chunks).toString(), /^id,created_at,n\n1,[^,]+,1\.10\n2,[^,]+,\n3,[^,]+,2\.50\n$/);
    await page.getByRole('button', { name: 'From a file' }).click();
    const json = '[{"a": 1, "when": "2026-01-01"}, {"a": null, "when": "2026-01-02", "code": "007"}]';
    await page
      .getByLabel('CSV or JSON')
      .setInputFiles({ name: 'made.json', mimeType: 'text/plain', buffer: Buffer.from(json) });
    await page.getByRole('dialog').getByRole('button', { name: 'Import' }).click();
    await page.getByRole('heading', { name: 'made' }).waitFor();
    t.deepEqual(await sql('select a, "when", code, pg_typeof(a)::text as t from made order by 2'), [
      { a: 1, when: '2026-01-01', code: null, t: 'bigint' },
      { a: null, when: '2026-01-02', code: '007', t: 'bigint' },
    ]);
    await close();
  },
);

inBrowser('1,600 columns, cells of a megabyte and hostile names are shown, and changed', async (t) => {
  t.timeout(longTestMs);
  const { owner, sql, at } = await newScene();
  await sql(
    `do $$ begin execute 'create table wide (id int primary key, ' || (select string_agg('c' || i || ' bool', ',') from generate_series(1, 1599) i) || ')'; end $$`,
  );
  await sql('insert into wide (id) select generate_series(1, 150)');
  const evil = `<img src=x onerror=alert(1)> 100%2F% "'\u202Eabc😀`;
  await sql(`create table "${evil.replaceAll('"', '""')}" (id int primary key, "${evil.replaceAll('"', '""')}" text)`);
  await sql(
    `insert into "${evil.replaceAll('"', '""')}" select i, repeat('x', 1000000) || i from generate_series(1, 40) i`,
  );
  const { page, complaints, close } = await open(at('/tables/wide'));
  await signIn(page, owner);
  await cell(page, '1').waitFor();
  await page.getByRole('grid').focus();
  await press(page, 'End');
  await page.getByRole('columnheader', { name: /c1599/ }).waitFor();
  t.true((await page.locator('*').count()) <= 1200);
  await page.getByRole('link', { name: evil }).click();
  await page.getByRole('heading', { name: evil }).waitFor();
  await page
    .getByText(/^x{300}…$/)
    .first()
    .click();
  await press(page, 'Enter');
  const box = page.getByRole('dialog').getByRole('textbox');
  t.is((await box.inputValue()).length, 1_000_001);
  await box.fill('short');
  await page.getByRole('button', { name: 'Keep' }).click();
  await save(page);
  t.deepEqual(
    await sql(
      `select length("${evil.replaceAll('"', '""')}") as l from "${evil.replaceAll('"', '""')}" order by id limit 2`,
    ),
    [{ l: 5 }, { l: 1_000_001 }],
  );
  t.deepEqual(
    complaints.filter((complaint) => !/status of (?:401|400|413)/.test(complaint)),
    [],
  );
  await close();
});

inBrowser('two tabs of one table do not overwrite each other', async (t) => {
  t.timeout(longTestMs);
  const { owner, sql, at } = await newScene();
  await sql('create table notes (id int primary key, text text)');
  await sql(`insert into notes values (1, 'first')`);
  const { page, close } = await open(at('/tables/notes'));
  await signIn(page, owner);
  await cell(page, 'first').waitFor();
  const other = await page.context().newPage();
  await other.goto(at('/tables/notes'));
  for (const [tab, text] of [
    [page, 'of the one'],
    [other, 'of the other'],
  ] as const) {
    await tab.bringToFront();
    await cell(tab, 'first').click();
    await tab.keyboard.type(text);
    await press(tab, 'Enter');
  }
  await page.bringToFront();
  await save(page);
  await other.bringToFront();
  await press(other, 'Control+s');
  await other.getByText('text: theirs of the one, yours of the other').waitFor();
  t.deepEqual(await sql('select text from notes'), [{ text: 'of the one' }]);
  await close();
});

inBrowser('a viewer reads, and is offered no change', async (t) => {
  t.timeout(longTestMs);
  const { project, sql, at } = await newScene();
  await sql('create table notes (id int primary key, text text)');
  await sql(`insert into notes values (1, 'first')`);
  const viewer = await addMember(platform(), project.orgId, 'viewer');
  const { page, close } = await open(at('/tables/notes'));
  await signIn(page, viewer);
  await cell(page, 'first').dblclick();
  await page.getByText('Rows are changed by developers, admins and owners.').waitFor();
  await press(page, 'Enter', 'x');
  t.is(await inCell(page).count(), 0);
  const names = await page.locator('main button').allTextContents();
  t.true(names.length > 0);
  t.deepEqual(
    names.filter((name) => /new|insert|delete|duplicate|import|save|file/i.test(name)),
    [],
  );
  t.deepEqual(await axeFaults(page), []);
  await close();
});
