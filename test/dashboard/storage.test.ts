import { readFileSync } from 'node:fs';
import test from 'ava';
import { Client } from 'pg';
import type { Page } from 'playwright-core';
import type { TestProject, TestUser } from '#test/support/client.ts';
import { testEnv } from '#test/support/env.ts';
import { addMember } from '#test/support/members.ts';
import { longTestMs } from '#test/support/time-outs.ts';
import { until } from '#test/support/until.ts';
import { inBrowser, useBrowser } from '../ops/browser.ts';
import { looksRight, seriousOf, signIn } from './browse.ts';
import { useDashboard } from './scene.ts';

const { platform } = useDashboard(test);
const open = useBrowser();

const mb = 1024 * 1024;

const scene = async () => {
  const user = await platform().client.signUp();
  const project = await platform().client.createProject(user);
  return { user, project };
};

const files = (project: TestProject, user: TestUser) => ({
  put: async (name: string, content: string, type = 'text/plain') => {
    const at = `/projects/${project.id}/storage/v1/object/${project.slug}/${name.split('/').map(encodeURIComponent).join('/')}`;
    const answer = await platform().client.call('POST', at, {
      token: user.token,
      raw: content,
      headers: { 'content-type': type },
    });
    if (answer.status !== 200) throw new Error(answer.text);
  },
  names: async (prefix = '') => {
    const at = `/projects/${project.id}/storage/v1/object/list/${project.slug}`;
    const { body } = await platform().client.call('POST', at, { token: user.token, body: { prefix } });
    return (body as { name: string }[]).map(({ name }) => name);
  },
});

const openBucket = async (project: TestProject, user: TestUser, query = '') => {
  const visit = await open(`${platform().base}/dashboard/projects/${project.id}/storage/${project.slug}${query}`);
  await signIn(visit.page, user);
  await visit.page.getByRole('grid').waitFor();
  return visit;
};

const choose = (page: Page, chosen: readonly { name: string; mimeType: string; buffer: Buffer }[]) =>
  page.getByLabel('Files to upload').setInputFiles([...chosen]);

const file = (name: string, content: string | Buffer, mimeType = 'text/plain') => ({
  name,
  mimeType,
  buffer: Buffer.from(content),
});

/** The grid's own rows, without its head. */
const row = (page: Page, name: string) => page.getByRole('row').filter({ has: page.getByText(name, { exact: true }) });

inBrowser('files are uploaded, looked at, moved and deleted, whatever their names are', async (t) => {
  t.timeout(longTestMs);
  const { user, project } = await scene();
  const { page, complaints, close } = await openBucket(project, user);
  await page.getByText('Nothing is here.', { exact: false }).waitFor();
  const hostile = [
    `<img src=x onerror=alert(1)>.txt`,
    `quote"'\`; drop.txt`,
    `\u202Etxt.exe`,
    '🎉 ünï %2F.txt',
    '.hidden',
  ];
  await choose(
    page,
    hostile.map((name) => file(name, `I am ${name}`)),
  );
  const shown = hostile.map((name) => name.replace('\u202E', '‹U+202E›'));
  for (const name of shown) await row(page, name).waitFor();
  t.deepEqual((await files(project, user).names()).toSorted(), hostile.toSorted());
  await looksRight(t, page, 'storage');

  await row(page, '🎉 ünï %2F.txt').click();
  await page.getByRole('button', { name: 'Show a preview' }).click();
  await page.frameLocator('iframe.preview').getByText('I am 🎉').waitFor();
  const download = page.waitForEvent('download');
  await page.getByRole('link', { name: 'Download' }).click();
  const saved = await download;
  t.is(readFileSync(await saved.path(), 'utf8'), 'I am 🎉 ünï %2F.txt');
  await page.getByRole('button', { name: 'Sign a link' }).click();
  const link = await page.locator('.copyable code').filter({ hasText: 'token=' }).textContent();
  t.is(await (await fetch(link ?? '')).text(), 'I am 🎉 ünï %2F.txt');
  await looksRight(t, page, 'storage-file');

  await page.getByRole('button', { name: 'Move or rename' }).click();
  await page.getByLabel('Name, with its folders').fill('a folder/"new".txt');
  await page.getByRole('button', { name: 'Move the file' }).click();
  await row(page, 'a folder').waitFor();
  await row(page, 'a folder').click();
  await row(page, '"new".txt').waitFor();
  t.regex(page.url(), /folder=a\+folder/);
  await page.getByRole('navigation', { name: 'Folder' }).getByRole('link', { name: project.slug }).click();
  await row(page, '.hidden').waitFor();

  await page.getByRole('grid').focus();
  for (const key of ['Home', ' ', 'ArrowDown', ' ', 'Delete']) await page.keyboard.press(key);
  const dialog = page.getByRole('dialog');
  await dialog.getByText('a folder and all that is in it').waitFor();
  await dialog.getByText(/^2 files, /).waitFor();
  await dialog.getByRole('button', { name: 'Delete 2 files' }).click();
  await dialog.waitFor({ state: 'detached' });
  await until(async () => (await files(project, user).names()).length === hostile.length - 2);
  t.deepEqual(
    complaints.filter((complaint) => !/status of 40[01]/.test(complaint)),
    [],
  );
  await close();
});

inBrowser(
  'a stored page is shown as text, in a frame in which nothing runs, and saved when it is opened',
  async (t) => {
    t.timeout(longTestMs);
    const { user, project } = await scene();
    const script = '<!doctype html><script>top.hacked = parent.hacked = 1; fetch("/auth/me")</script><h1>stored</h1>';
    await files(project, user).put('page.html', script, 'text/html');
    await files(project, user).put(
      'picture.svg',
      '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><script>top.hacked = 1</script><rect width="9" height="9"/></svg>',
      'image/svg+xml',
    );
    const { page, close } = await openBucket(project, user, '?file=page.html');
    await page.getByRole('button', { name: 'Show a preview' }).click();
    await page.frameLocator('iframe.preview').getByText('top.hacked = parent.hacked').waitFor();
    t.is(await page.frameLocator('iframe.preview').locator('h1').count(), 0);
    await row(page, 'picture.svg').click();
    await page.getByRole('button', { name: 'Show a preview' }).click();
    await until(() => page.evaluate<boolean>(`document.querySelector('img.preview')?.naturalWidth > 0`));
    t.is(await page.evaluate('globalThis.hacked'), undefined);
    // The address itself, as a person would open it.
    const download = page.waitForEvent('download');
    const at = `${platform().base}/projects/${project.id}/storage/v1/object/authenticated/${project.slug}/page.html`;
    await page.evaluate(`location.assign(${JSON.stringify(at)})`);
    t.is(readFileSync(await (await download).path(), 'utf8'), script);
    await close();
  },
);

/** A file that the browser itself makes: Playwright hands over large ones from a disk only. */
const chooseLarge = (page: Page, name: string, bytes: number) =>
  page.evaluate(`(() => {
    const data = new DataTransfer();
    data.items.add(new File(['plinth '.repeat(${bytes / 7})], ${JSON.stringify(name)}, { lastModified: 1 }));
    const input = document.querySelector('input[type=file]');
    input.files = data.files;
    input.dispatchEvent(new Event('change', { bubbles: true }));
  })()`);

const largeBytes = 21 * mb;

/** Sees the pieces of uploads; `answer` decides what becomes of each. */
const watchPieces = async (page: Page, answer: (nth: number) => 'sent' | 'broken' | 'held') => {
  const offsets: number[] = [];
  await page.route('**/upload/resumable/*', async (route) => {
    const request = route.request();
    if (request.method() !== 'PATCH') return route.continue();
    offsets.push(Number(request.headers()['upload-offset']));
    const fate = answer(offsets.length);
    if (fate === 'broken') return route.abort('connectionreset');
    // One that is held waits until the page gives it up.
    return fate === 'sent' ? route.continue() : undefined;
  });
  return offsets;
};

inBrowser('an upload that breaks off goes on by itself where it was', async (t) => {
  t.timeout(longTestMs);
  const { user, project } = await scene();
  const { page, close } = await openBucket(project, user);
  const offsets = await watchPieces(page, (nth) => (nth === 2 ? 'broken' : 'sent'));
  await chooseLarge(page, 'large.bin', largeBytes);
  await row(page, 'large.bin').waitFor();
  t.deepEqual(offsets, [0, 8 * mb, 8 * mb, 16 * mb]);
  const at = `/projects/${project.id}/storage/v1/object/info/${project.slug}/large.bin`;
  t.is((await platform().client.call('GET', at, { token: user.token })).body.size, largeBytes);
  await close();
});

inBrowser('an upload is paused and goes on, also after a reload, once its file is chosen again', async (t) => {
  t.timeout(longTestMs);
  const { user, project } = await scene();
  const { page, close } = await openBucket(project, user);
  let held = 2;
  const offsets = await watchPieces(page, (nth) => (nth === held ? 'held' : 'sent'));
  await chooseLarge(page, 'large.bin', largeBytes);
  await until(() => offsets.length === 2);
  await page.getByRole('button', { name: 'Pause large.bin' }).click();
  await page.getByText('paused at 8 MB').waitFor();
  await looksRight(t, page, 'storage-upload');
  held = 3;
  await page.getByRole('button', { name: 'Go on with large.bin' }).click();
  await until(() => offsets.length === 3);
  page.on('dialog', (dialog) => void dialog.accept());
  await page.reload();
  await page.getByRole('grid').waitFor();
  await chooseLarge(page, 'large.bin', largeBytes);
  await row(page, 'large.bin').waitFor();
  t.deepEqual(offsets, [0, 8 * mb, 8 * mb, 8 * mb, 16 * mb]);

  await chooseLarge(page, 'large.bin', 7 * mb);
  await page.getByText('There is a file of this name.').waitFor();
  await page.getByRole('button', { name: 'Replace large.bin' }).click();
  await page.getByRole('button', { name: 'Replace large.bin' }).waitFor({ state: 'detached' });
  await row(page, 'large.bin').getByText('7 MB').waitFor();
  await close();
});

/** Rows without bytes, as the server's administrator: the triggers would ask for a ticket for each. */
const fill = async ({ dbName, slug }: TestProject, count: number): Promise<void> => {
  const url = new URL(testEnv('DATABASE_URL'));
  url.pathname = `/${dbName}`;
  const db = new Client({ connectionString: url.toString() });
  await db.connect();
  try {
    await db.query('set session_replication_role = replica');
    await db.query(
      `insert into storage.objects (id, bucket_id, name, size, mime_type, etag, cache_control, metadata, version)
       select gen_random_uuid(), $1, 'many/file-' || lpad(n::text, 6, '0'), 1, 'text/plain', repeat('0', 64), 'no-cache',
         '{"size": 1, "mimetype": "text/plain"}', gen_random_uuid() from generate_series(1, $2::int) n`,
      [slug, count],
    );
    await db.query('analyze storage.objects');
  } finally {
    await db.end();
  }
};

inBrowser('a folder of 100,000 files is scrolled to its end with few elements, and searched', async (t) => {
  t.timeout(longTestMs);
  const { user, project } = await scene();
  await fill(project, 100_000);
  const { page, complaints, close } = await openBucket(project, user, '?folder=many');
  await page.getByText('100,000 files', { exact: false }).waitFor();
  await row(page, 'file-000001').waitFor();
  await page.getByRole('grid').focus();
  await page.keyboard.press('End');
  await row(page, 'file-100000').waitFor();
  t.true((await page.locator('*').count()) <= 1200);
  await page.evaluate(`document.querySelector('.files').scrollTop = 50000 * 34`);
  await row(page, 'file-050001').waitFor();
  await page.getByLabel('Name begins with').fill('file-07777');
  await page.keyboard.press('Enter');
  await row(page, 'file-077779').waitFor();
  t.is(await page.getByRole('grid').getAttribute('aria-rowcount'), '11');
  await looksRight(t, page, 'storage-many');
  t.deepEqual(
    complaints.filter((complaint) => !/status of 401/.test(complaint)),
    [],
  );
  await close();
});

inBrowser('a viewer downloads and is offered no change; an admin makes, changes and deletes a bucket', async (t) => {
  t.timeout(longTestMs);
  const { user, project } = await scene();
  await files(project, user).put('a.txt', 'a');
  const [viewer, admin] = [
    await addMember(platform(), project.orgId, 'viewer'),
    await addMember(platform(), project.orgId, 'admin'),
  ];
  const seen = await openBucket(project, viewer, '?file=a.txt');
  await seen.page.getByText('Files are uploaded, moved and deleted by developers.').waitFor();
  await seen.page.getByRole('link', { name: 'Download' }).waitFor();
  t.is(await seen.page.getByRole('button', { name: /Upload|Delete|Move|Sign a|ucket/ }).count(), 0);
  t.is(await seen.page.getByRole('checkbox').count(), 0);
  await seen.close();

  const { page, close } = await openBucket(project, admin);
  await page.getByRole('button', { name: 'New bucket' }).click();
  await page.getByLabel('Name', { exact: true }).fill('open');
  await page.getByLabel('Everybody may read').check();
  await page.getByLabel('Largest file').fill('10 bytes');
  await page.getByRole('button', { name: 'Create the bucket' }).click();
  // The browser itself refuses what is no size.
  await page.getByLabel('Largest file').fill('1MB');
  await page.getByRole('button', { name: 'Create the bucket' }).click();
  await page.getByText('public', { exact: true }).waitFor();
  await choose(page, [file('note.txt', 'public')]);
  await row(page, 'note.txt').click();
  const address = await page.locator('.copyable code').textContent();
  t.is(await (await fetch(address ?? '')).text(), 'public');
  await page.getByRole('button', { name: 'Bucket settings' }).click();
  await looksRight(t, page, 'storage-settings');
  t.is(await page.getByLabel('Largest file').inputValue(), '1000000');
  const remove = page.getByRole('button', { name: 'Delete the bucket' });
  await page.getByText('The bucket has 1 file').waitFor();
  t.true(await remove.isDisabled());
  await page.getByLabel('to confirm').fill('open');
  await remove.click();
  await page.getByText('There is no bucket of that name.').waitFor();
  t.is((await fetch(address ?? '')).status, 404);
  await close();
});

inBrowser('a folder is copied and moved as a whole; names that are taken are asked about first', async (t) => {
  t.timeout(longTestMs);
  const { user, project } = await scene();
  const { put, names } = files(project, user);
  const odd = `<b>"'%2F`;
  for (const name of [`${odd}/1.txt`, `${odd}/x/2.txt`, 'there/1.txt']) await put(name, name);
  const { page, complaints, close } = await openBucket(project, user);
  await page.getByRole('checkbox', { name: `Choose ${odd}` }).check();
  await page.getByRole('button', { name: 'Copy the folder' }).click();
  const dialog = page.getByRole('dialog');
  await looksRight(t, page, 'storage-transfer');
  await dialog.getByLabel('Name of the folder').fill(`${odd}/inside`);
  await dialog.getByRole('button', { name: 'Copy the folder' }).click();
  await dialog.getByRole('alert').getByText('into itself').waitFor();
  await dialog.getByLabel('Name of the folder').fill('there');
  await dialog.getByRole('button', { name: 'Copy the folder' }).click();
  await dialog.getByText('1 of 2 files has a name that is taken there').waitFor();
  await dialog.getByText('there/1.txt').waitFor();
  await looksRight(t, page, 'storage-collisions');
  t.deepEqual(await names('there'), ['1.txt']);
  await dialog.getByRole('button', { name: 'Copy all others' }).click();
  await dialog.waitFor({ state: 'detached' });
  t.deepEqual((await names('there')).toSorted(), ['1.txt', 'x']);
  await page.getByRole('checkbox', { name: `Choose ${odd}` }).check();
  await page.getByRole('button', { name: 'Move the folder' }).click();
  await dialog.getByLabel('Name of the folder').fill('there');
  await dialog.getByRole('button', { name: 'Move the folder' }).click();
  await dialog.getByText('2 of 2 files have names that are taken there').waitFor();
  await dialog.getByRole('button', { name: 'Replace what is there' }).click();
  await dialog.waitFor({ state: 'detached' });
  await row(page, odd).waitFor({ state: 'detached' });
  t.deepEqual(await names(), ['there']);
  const read = `/projects/${project.id}/storage/v1/object/authenticated/${project.slug}/there/1.txt`;
  t.is((await platform().client.call('GET', read, { token: user.token })).text, `${odd}/1.txt`);
  t.deepEqual(seriousOf(complaints), []);
  await close();
});
