import test, { type ExecutionContext } from 'ava';
import type { Page } from 'playwright-core';
import { addMember } from '#test/support/members.ts';
import { longTestMs } from '#test/support/time-outs.ts';
import { createScene } from '../ai/chat-scene.ts';
import { inBrowser, useBrowser } from '../ops/browser.ts';
import { looksRight, replaceCode, seriousOf, signIn } from './browse.ts';
import { useDashboard } from './scene.ts';

const { platform } = useDashboard(test);
const open = useBrowser();

const scene = async (t: ExecutionContext) => {
  const made = await createScene(platform());
  t.teardown(() => made.upstream.close());
  const { client } = platform();
  const { user, project } = made;
  const call = (method: string, path: string, body?: unknown) =>
    client.call(method, `/projects/${project.id}${path}`, { token: user.token, ...(body !== undefined && { body }) });
  const sql = async (text: string): Promise<Record<string, unknown>[]> => {
    const answer = await call('POST', '/db/query', { sql: text });
    if (answer.status !== 200) throw new Error(answer.text);
    return answer.body.rows;
  };
  await sql('create table films (id int primary key, title text)');
  await sql(`insert into films values (1, 'Metropolis'), (2, 'M')`);
  return { ...made, call, sql, at: `${platform().base}/dashboard/projects/${project.id}/sql` };
};

const editor = (page: Page) => page.locator('.cm-content');
const dialog = (page: Page) => page.getByRole('dialog');

const askFor = async (page: Page, prompt: string): Promise<void> => {
  await page.getByRole('button', { name: 'Write with AI' }).click();
  await dialog(page).getByLabel('What do you want to know?').fill(prompt);
  await dialog(page).getByRole('button', { name: 'Write it' }).click();
};

const saying = (sql: string, explanation: string) => ({ text: JSON.stringify({ sql, explanation }) });

inBrowser('a query that a model wrote comes into a new tab, and runs when somebody runs it', async (t) => {
  t.timeout(longTestMs);
  const { user, upstream, at } = await scene(t);
  const { page, complaints, close } = await open(at);
  await signIn(page, user);
  await replaceCode(page, 'select 1 -- mine');
  const evil = `Titles.\n<img src=x onerror=alert(1)>\rdrop table films; \u2028delete from films;`;
  upstream.answerWith(({ kind }) =>
    kind === 'chat' ? saying('select title from films order by id', evil) : undefined,
  );
  await askFor(page, 'Which films are there?');
  await editor(page).getByText('select title from films order by id').waitFor();
  t.is(await page.getByRole('gridcell').count(), 0, 'nothing has run');
  // The prompt goes out with the names of the tables, and without rows.
  const request = upstream.requests.find(({ text }) => text.includes('Which films are there?'));
  t.regex(JSON.stringify(request?.body), /films/);
  t.notRegex(JSON.stringify(request?.body), /Metropolis/);
  // Whatever the model says about it is a comment, line for line.
  const lines = await page.locator('.cm-line').allTextContents();
  const statements = lines.filter((line) => !line.startsWith('-- '));
  t.deepEqual(statements, ['select title from films order by id']);
  await page.getByRole('button', { name: 'Run', exact: true }).click();
  await page.getByRole('gridcell', { name: 'Metropolis' }).waitFor();
  await page.getByRole('button', { name: 'Query 1', exact: true }).click();
  await editor(page).getByText('select 1 -- mine').waitFor();
  t.deepEqual(seriousOf(complaints), []);
  await close();
});

inBrowser('a statement that writes is shown with what it does, is marked, and never runs by itself', async (t) => {
  t.timeout(longTestMs);
  const { user, upstream, sql, at } = await scene(t);
  const { page, close } = await open(at);
  await signIn(page, user);
  const writes = [
    'delete from films',
    'with gone as (delete from films returning *) select * from gone',
    'select 1; drop table films',
    `select pg_terminate_backend(1)`,
  ];
  for (const statement of writes) {
    upstream.answerWith(({ kind }) => (kind === 'chat' ? saying(statement, 'It looks harmless.') : undefined));
    await askFor(page, 'Clean up');
    await dialog(page).getByRole('alert').getByText('does more than read').waitFor();
    await dialog(page).getByRole('region', { name: 'The statement' }).getByText(statement).waitFor();
    if (statement === writes[0]) await looksRight(t, page, 'sql-ai-write');
    await dialog(page).getByRole('button', { name: 'Forget it' }).click();
  }
  t.deepEqual(await sql('select count(*)::int as n from films'), [{ n: 2 }]);
  upstream.answerWith(({ kind }) => (kind === 'chat' ? saying('delete from films', 'It looks harmless.') : undefined));
  await askFor(page, 'Clean up');
  await dialog(page).getByRole('button', { name: 'Open it in a tab all the same' }).click();
  await editor(page).getByText('CAUTION: this does more than read.').waitFor();
  t.deepEqual(await sql('select count(*)::int as n from films'), [{ n: 2 }]);
  // Run asks, as for any statement of that kind.
  await page.getByRole('button', { name: 'Run', exact: true }).click();
  await page.getByRole('button', { name: 'Do not run it' }).click();
  t.deepEqual(await sql('select count(*)::int as n from films'), [{ n: 2 }]);
  await close();
});

inBrowser('a statement is explained in words; markup of a model is text', async (t) => {
  t.timeout(longTestMs);
  const { user, project, upstream, at } = await scene(t);
  const { page, complaints, close } = await open(at);
  await signIn(page, user);
  await replaceCode(page, 'select title from films where id > 1');
  upstream.answerWith(() => ({ text: 'It lists titles. <img src=x onerror=alert(1)>' }));
  await page.getByRole('button', { name: 'Explain with AI' }).click();
  await page.getByText('It lists titles. <img src=x onerror=alert(1)>').waitFor();
  t.true(upstream.requests.some(({ body }) => JSON.stringify(body).includes('select title from films where id > 1')));
  await looksRight(t, page, 'sql-ai-explained');
  t.deepEqual(seriousOf(complaints), []);
  const viewer = await addMember(platform(), project.orgId, 'viewer');
  const seen = await open(at);
  await signIn(seen.page, viewer);
  await seen.page.getByRole('button', { name: 'Run', exact: true }).waitFor();
  t.is(await seen.page.getByRole('button', { name: /with AI/ }).count(), 0);
  await seen.close();
  await close();
});

inBrowser('a provider that is down, and one that talks nonsense, are named; the prompt stays', async (t) => {
  t.timeout(longTestMs);
  const { user, upstream, at } = await scene(t);
  const { page, close } = await open(at);
  await signIn(page, user);
  await replaceCode(page, 'select 2');
  upstream.answerWith(({ kind }) =>
    kind === 'models' ? undefined : { status: 503, message: 'The engine is overloaded.' },
  );
  await askFor(page, 'What is there?');
  await dialog(page)
    .getByRole('alert')
    .getByText(/overloaded|unavailable|cannot be reached|answered/i)
    .first()
    .waitFor();
  t.is(await dialog(page).getByLabel('What do you want to know?').inputValue(), 'What is there?');
  upstream.answerWith(({ kind }) =>
    kind === 'models' ? undefined : { text: 'I would rather talk about the weather.' },
  );
  await dialog(page).getByRole('button', { name: 'Write it' }).click();
  await dialog(page)
    .getByRole('button', { name: /provider_bad_output/ })
    .waitFor();
  await dialog(page).getByRole('button', { name: 'Cancel' }).click();
  upstream.answerWith(({ kind }) => (kind === 'models' ? undefined : { reset: 'before_headers' }));
  await page.getByRole('button', { name: 'Explain with AI' }).click();
  await page.getByRole('button', { name: /provider_unavailable/ }).waitFor();
  await editor(page).getByText('select 2').waitFor();
  await close();
});

inBrowser('without a key, and with a budget that is used up, the buttons lead to where that is changed', async (t) => {
  t.timeout(longTestMs);
  const { user, upstream, call, at } = await scene(t);
  const { page, close } = await open(at);
  await signIn(page, user);
  await replaceCode(page, 'select 3');
  upstream.answerWith(() => saying('select 1', 'One.'));
  t.is((await call('PUT', '/ai/budget', { monthly_usd: 0.000_001, hard: true })).status, 200);
  await page.getByRole('button', { name: 'Explain with AI' }).click();
  await page.getByRole('button', { name: /budget_exceeded/ }).waitFor();
  await askFor(page, 'What is there?');
  await dialog(page).getByRole('link', { name: 'Look at the budget' }).click();
  await page.getByLabel('Budget used').waitFor();
  t.is(upstream.requests.filter(({ kind }) => kind !== 'models').length, 0, 'the provider was not asked');
  for (const provider of ['openai', 'anthropic', 'google'])
    t.true((await call('DELETE', `/ai/providers/${provider}`)).status < 300);
  await page.goto(at);
  await page.getByRole('button', { name: 'Explain with AI' }).click();
  await page.getByRole('link', { name: 'Add the key of a provider' }).waitFor();
  await looksRight(t, page, 'sql-ai-no-key');
  await askFor(page, 'What is there?');
  await dialog(page).getByRole('link', { name: 'Add the key of a provider' }).click();
  await page.getByRole('heading', { name: 'AI' }).waitFor();
  t.regex(page.url(), /\/ai\?tab=providers$/);
  await close();
});
