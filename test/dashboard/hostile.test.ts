import test, { type ExecutionContext } from 'ava';
import type { Page } from 'playwright-core';
import { type Ask, fillProject } from '#faults/soak/dashboard-scene.ts';
import { asAdmin } from '#test/support/databases.ts';
import { receiverFor } from '#test/support/receiver.ts';
import { tenantLogin } from '#test/support/tenant.ts';
import { faultTestMs } from '#test/support/time-outs.ts';
import { fits, inBrowser, useBrowser } from '../ops/browser.ts';
import { seriousOf, signIn } from './browse.ts';
import { useDashboard } from './scene.ts';

const { platform } = useDashboard(test);
const open = useBrowser();

/** Quotes, markup, a mark that turns the direction of writing, an emoji, and no place to break the line. */
const hostile = `<img src=x onerror="globalThis.ran=1"> "'\`\\ {{x}} \u202Egnp 🦄 ${'Ü'.repeat(40)}`;

const setUp = async () => {
  const { client, base } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user, { plan: 'enterprise' });
  const callApi: Ask = async (method, path, body) => {
    const answer = await client.call(method, path, { token: user.token, ...(body !== undefined && { body }) });
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.text}`);
    return answer.body as Record<string, unknown>;
  };
  const ask: Ask = (method, path, body) => callApi(method, `/projects/${project.id}${path}`, body);
  return { user, project, callApi, ask, at: (path: string) => `${base}/dashboard${path}` };
};

const quoted = (name: string): string => `"${name.replaceAll('"', '""').slice(0, 40)}"`;

/** One thing of each kind with that name. */
const nameAll = async (ask: Ask): Promise<void> => {
  await ask('PATCH', '', { name: hostile });
  const name = quoted(hostile);
  await ask('POST', '/db/query', { sql: `create table ${name} (${name} text primary key)` });
  await ask('POST', '/db/query', { sql: `insert into ${name} values ($q$${hostile}$q$)` });
  await ask('POST', '/db/query', { sql: `create type ${quoted(`t${hostile}`)} as enum ($q$<b>$q$)` });
  const code = `exports.handler = () => { console.log(${JSON.stringify(hostile)}); throw new Error(${JSON.stringify(hostile)}); }`;
  const fn = await ask('POST', '/functions', { name: hostile, language: 'javascript', code });
  await ask('POST', `/functions/${String(fn['id'])}/invoke`, { payload: hostile });
  const target = { type: 'function', function_id: fn['id'] };
  await ask('POST', '/cron', { name: hostile.slice(0, 90), schedule: '0 3 * * *', target });
  await ask('POST', '/flags', { key: 'hostile', name: hostile, flag_type: 'string', value: hostile });
  await ask('POST', '/users', { email: 'eve@example.com', user_metadata: { name: hostile } });
  await ask('POST', '/snippets', { name: hostile, sql: hostile, shared: true });
  await ask('POST', '/api-keys', { name: hostile.slice(0, 90), kind: 'secret' });
};

/** Nothing of a text has become a part of the page, and the page has not failed. */
const isHarmless = async (t: ExecutionContext, page: Page, at: string): Promise<void> => {
  t.is(await page.evaluate('globalThis.ran'), undefined, at);
  t.is(await page.locator('img[src="x"]').count(), 0, at);
  t.is(await page.getByText('This page has failed').count(), 0, at);
};

const fields = 'main :is(input:is([type=text], [type=search], [type=email], [type=url], :not([type])), textarea)';

/** Types the text into each field of the page, and presses Enter. */
const fillEach = async (page: Page): Promise<void> => {
  const all = page.locator(fields);
  for (let place = 0; place < (await all.count()); place += 1) {
    const field = all.nth(place);
    if (!(await field.isVisible()) || !(await field.isEditable())) continue;
    // Each is another text: some forms delete what they are given the name of.
    await field.fill(`${place} ${hostile}`);
    await field.press('Enter');
  }
};

inBrowser('no name and no text does more on any page than to be shown', async (t) => {
  t.timeout(faultTestMs);
  const { user, project, callApi, ask, at } = await setUp();
  const scene = await fillProject(callApi, project, (await receiverFor(t)).url);
  await nameAll(ask);
  const { page, complaints, close } = await open(at(''));
  await signIn(page, user);
  for (const path of scene.pages) {
    await page.setViewportSize({ width: 1360, height: 900 });
    await page.goto(at(path));
    await page.locator('main').waitFor();
    await page.locator('.loading, .loading-bar').first().waitFor({ state: 'detached' });
    await isHarmless(t, page, path);
    await page.setViewportSize({ width: 320, height: 256 });
    t.true(await fits(page), path);
    await fillEach(page);
    await isHarmless(t, page, `${path}, filled in`);
  }
  t.deepEqual(seriousOf(complaints), []);
  await close();
});

/**
 * Makes tables as their owner, past the event triggers, which attach the platform's own to each: that takes 10 µs for
 * each table that is there, minutes for 10,000.
 */
const makeTables = async (projectId: string, count: number): Promise<void> => {
  const { database, user } = await tenantLogin(platform(), projectId, 'owner');
  await asAdmin(database, async (client) => {
    await client.query(`set session_replication_role = replica; set role ${user}`);
    // One transaction may lock some 6,000 tables.
    for (let first = 1; first <= count; first += 1000) {
      const loop = `for i in ${first}..${first + 999} loop execute format('create table public.t%s (id int)', i); end loop`;
      await client.query(`do $$ begin ${loop}; end $$`);
    }
  });
};

inBrowser('of 10,000 tables a page shows some, and finds each; REST and GraphQL serve each', async (t) => {
  t.timeout(faultTestMs);
  const { user, project, ask, at } = await setUp();
  const base = `/projects/${project.id}`;
  await makeTables(project.id, 10_000);
  await ask('POST', '/db/query', { sql: 'insert into t9999 values (7)' });
  const { page, complaints, close } = await open(at(`${base}/tables`));
  await signIn(page, user);
  await page.getByText('9,700 more: search for them.').waitFor();
  await page.getByPlaceholder('Search').fill('t9999');
  await page.getByRole('link', { name: 't9999', exact: true }).click();
  await page.getByRole('heading', { level: 1, name: 't9999' }).waitFor();
  await page.getByText('1 row', { exact: true }).waitFor();
  await page.goto(at(`${base}/schema`));
  await page.getByText('9,880 more tables are not drawn.').waitFor();
  t.true((await page.locator('*').count()) <= 2500);
  await page.goto(at(`${base}/sql`));
  await page.locator('.cm-content').waitFor();
  await page.keyboard.press('Control+k');
  await page.getByRole('combobox', { name: 'Find' }).fill('t9998');
  await page.getByRole('option', { name: 't9998' }).click();
  await page.getByRole('heading', { level: 1, name: 't9998' }).waitFor();
  const { call } = platform().client;
  t.deepEqual((await call('GET', '/rest/v1/t9999', { key: project.key })).body, [{ id: 7 }]);
  const answer = await call('POST', '/api/graphql', { key: project.key, body: { query: '{ t9999 { id } }' } });
  t.deepEqual(answer.body, { data: { t9999: [{ id: 7 }] } });
  t.deepEqual(seriousOf(complaints), []);
  await close();
});
