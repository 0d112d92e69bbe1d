import test from 'ava';
import { addMember } from '#test/support/members.ts';
import { longTestMs } from '#test/support/time-outs.ts';
import { type DrawnTable, drawingOf } from '../../web/dashboard/pages/schema/layout.ts';
import { inBrowser, useBrowser } from '../ops/browser.ts';
import { axeFaults, looksRight, signIn } from './browse.ts';
import { type ProjectScene, newProjectScene, useDashboard } from './scene.ts';

const { platform } = useDashboard(test);
const open = useBrowser();

const newScene = (): Promise<ProjectScene> => newProjectScene(platform());

const library = async ({ sql }: ProjectScene): Promise<void> => {
  await sql('create table authors (id int primary key, name text)');
  await sql('create table books (id int primary key, title text not null, author int references authors, pages int)');
  await sql('create index books_title on books (title)');
  await sql(`insert into authors values (1, 'Ada'), (2, 'Grace')`);
  await sql(`insert into books select i, 'book ' || i, 1 + i % 2, i from generate_series(1, 20) i`);
};

inBrowser('the schema is drawn, and every change of a table shows its SQL before it runs', async (t) => {
  t.timeout(longTestMs);
  const scene = await newScene();
  const { owner, call, sql, at } = scene;
  await library(scene);
  const { page, complaints, close } = await open(at('/schema'));
  await signIn(page, owner);
  await page.getByRole('img', { name: '2 tables and 1 references between them' }).waitFor();
  await looksRight(t, page, 'schema');
  await page.getByRole('link', { name: 'books' }).click();
  await page.getByText('never used').waitFor();
  await looksRight(t, page, 'schema-table');
  await page.getByRole('button', { name: 'Change the column pages' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name', { exact: true }).fill('page "count"');
  await dialog.getByLabel('Type', { exact: true }).fill('bigint');
  await dialog.getByText('alter column "pages" type bigint').waitFor();
  await dialog.getByText('rename column "pages" to "page ""count"""').waitFor();
  await dialog.getByLabel('Save as a migration').check();
  await looksRight(t, page, 'schema-column');
  await dialog.getByRole('button', { name: 'Change the column' }).click();
  await page.getByRole('cell', { name: 'page "count"', exact: true }).waitFor();
  t.regex((await call('GET', '/db/migrations')).body.migrations[0].name, /change_books_pages$/);
  await page.getByRole('button', { name: 'New constraint' }).click();
  await dialog.getByLabel('Kind').selectOption('Check');
  await dialog.getByLabel('Condition (SQL)').fill('id > 100');
  await dialog.getByText('add check (id > 100)').waitFor();
  await dialog.getByRole('button', { name: 'Add the constraint' }).click();
  await dialog
    .getByRole('alert')
    .getByText(/violated by some row/)
    .waitFor();
  await dialog.getByLabel('Condition (SQL)').fill('id > 0');
  await dialog.getByRole('button', { name: 'Add the constraint' }).click();
  await page.getByText('check (id > 0)').waitFor();
  await page.getByRole('button', { name: 'Drop the index books_title' }).click();
  await dialog.getByText('drop index public."books_title";').waitFor();
  await dialog.getByRole('button', { name: 'Drop', exact: true }).click();
  await page.getByText('never used').waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'New index' }).click();
  await dialog.getByLabel('title').check();
  await dialog.getByText('create index on public."books" using btree ("title");').waitFor();
  await dialog.getByRole('button', { name: 'Create the index' }).click();
  await page.getByText('books_title_idx').first().waitFor();
  t.deepEqual(await sql(`select count(*) from pg_indexes where indexname = 'books_title_idx'`), [{ count: 1 }]);
  t.deepEqual(
    complaints.filter((complaint) => !/status of (?:401|403|400)/.test(complaint)),
    [],
  );
  await close();
});

inBrowser('policies are made, and the tester shows what a user sees of the table', async (t) => {
  t.timeout(longTestMs);
  const scene = await newScene();
  const { owner, call, at } = scene;
  await library(scene);
  const made = await call('POST', '/users', { email: 'reader@example.org' });
  t.is(made.status, 201);
  const { page, close } = await open(at('/schema/books'));
  await signIn(page, owner);
  const dialog = page.getByRole('dialog');
  await page.getByText('Nothing: the table is refused.').waitFor();
  await page.getByRole('button', { name: 'Switch it on' }).click();
  await dialog.getByText('alter table public."books" enable row level security;').waitFor();
  await dialog.getByRole('button', { name: 'Switch it on' }).click();
  await page.getByRole('button', { name: 'Switch it off' }).waitFor();
  await page.getByRole('button', { name: 'New policy' }).click();
  await dialog.getByLabel('Name', { exact: true }).fill('short ones');
  await dialog.getByLabel(/Rows that are seen/).fill('pages <= 5');
  await dialog.getByText('for select to authenticated using (pages <= 5)').waitFor();
  await dialog.getByRole('button', { name: 'Create the policy' }).click();
  await page.getByRole('cell', { name: 'short ones', exact: true }).waitFor();
  await page.getByLabel('Look as').selectOption('a user…');
  await page.getByRole('button', { name: 'reader@example.org' }).click();
  await page.getByText('5 of 20 rows are seen.').waitFor();
  t.deepEqual(await axeFaults(page), []);
  await page.getByLabel('Look as').selectOption('anon');
  await page.getByText('0 of 20 rows are seen.').waitFor();
  await page.getByRole('button', { name: 'Change the policy short ones' }).click();
  await dialog.getByLabel(/Rows that are seen/).fill('pages <= 7');
  await dialog.getByRole('button', { name: 'Change the policy' }).click();
  await page.getByRole('cell', { name: '(pages <= 7)' }).waitFor();
  await close();
});

inBrowser('a viewer reads the schema, and is offered no change; hostile names are only names', async (t) => {
  t.timeout(longTestMs);
  const scene = await newScene();
  const evil = `<img src=x onerror=alert(1)> 100%2F% "'\u202Eabc😀`;
  const quoted = `"${evil.replaceAll('"', '""')}"`;
  await scene.sql(`create table ${quoted} (${quoted} int primary key)`);
  await scene.sql(`create type ${quoted} as enum ('<b>')`).catch(() => undefined);
  const viewer = await addMember(platform(), scene.project.orgId, 'viewer');
  const { page, complaints, close } = await open(scene.at('/schema'));
  await signIn(page, viewer);
  await page.getByRole('link', { name: evil }).click();
  await page.getByRole('heading', { name: evil }).waitFor();
  await page.getByText('The schema is changed by developers, admins and owners.').waitFor();
  const names = await page.locator('main button').allTextContents();
  t.deepEqual(
    names.filter((name) => /new|drop|change|switch|rename|add/i.test(name)),
    [],
  );
  t.deepEqual(
    complaints.filter((complaint) => !/status of (?:401|403)/.test(complaint)),
    [],
  );
  await close();
});

inBrowser('a schema that is too large to be described says so in words', async (t) => {
  t.timeout(longTestMs);
  const { owner, sql, at } = await newScene();
  await sql(
    `do $$ begin for i in 1..40 loop execute format('create table t%s (id int)', i); execute format('comment on table t%s is %L', i, repeat('x', 500000)); end loop; end $$`,
  );
  const { page, close } = await open(at('/schema'));
  await signIn(page, owner);
  await page.getByRole('alert').getByText('The description of this schema is more than 16 MB.').waitFor();
  await page.goto(at('/tables'));
  await page.getByRole('alert').getByText('The description of this schema is more than 16 MB.').waitFor();
  t.pass();
  await close();
});

/** A table that refers to others. */
const table = (name: string, to: readonly string[]): DrawnTable => ({
  schema: 'public',
  name,
  columns: [{ name: 'id', type: 'int' }],
  primary_key: ['id'],
  foreign_keys: to.map((other) => ({
    columns: ['id'],
    references: { schema: 'public', table: other },
  })),
});

test('of thousands of tables those with references are drawn first, and circles end', (t) => {
  const alone = Array.from({ length: 10_000 }, (_, index) => table(`t${index}`, []));
  const drawing = drawingOf([...alone, table('a', ['b']), table('b', ['c', 'b']), table('c', ['a'])]);
  t.is(drawing.boxes.length, 120);
  t.is(drawing.left, 9883);
  t.is(drawing.lines.length, 3);
  t.true(drawing.boxes.slice(0).some((box) => box.table.name === 'a'));
  t.deepEqual(drawingOf([]), { boxes: [], lines: [], width: 0, height: 0, left: 0 });
});
