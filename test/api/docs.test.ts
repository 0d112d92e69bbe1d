import test from 'ava';
import type { Page } from 'playwright-core';
import { endpoints } from '#api/endpoints.ts';
import { areaName, exampleOf, writtenExamples } from '#api/docs/examples.ts';
import { openapiOf } from '#api/docs/openapi.ts';
import { usePlatform } from '#test/support/platform.ts';
import { type Visit, fits, inBrowser, picture, useBrowser } from '../ops/browser.ts';

const platform = usePlatform(test, { worker: false });

const openPage = useBrowser();

const visit = async (width: number, height: number): Promise<Visit> => {
  const visited = await openPage(`${platform().base}/docs`, { viewport: { width, height } });
  await visited.page.locator('.opblock-tag').first().waitFor();
  return visited;
};

/** Opens an area, or closes it again. */
const turn = (page: Page, area: string): Promise<void> =>
  page.locator(`#operations-tag-${areaName(area).replaceAll(' ', '_')}`).click();

/** How many operations there are, looked at area by area: all at once the page does not show so many. */
const countOperations = async (page: Page): Promise<number> => {
  let count = 0;
  for (const area of new Set(endpoints.map((one) => one.area))) {
    await turn(page, area);
    await page.locator('.opblock').first().waitFor();
    count += await page.locator('.opblock').count();
    await turn(page, area);
    await page.locator('.opblock').first().waitFor({ state: 'detached' });
  }
  return count;
};

test('/openapi.json is the document of the code', async (t) => {
  const answer = await platform().client.call('GET', '/openapi.json');
  t.is(answer.status, 200);
  t.is(answer.headers.get('content-type'), 'application/json; charset=utf-8');
  t.deepEqual(answer.body, JSON.parse(JSON.stringify(openapiOf(endpoints))));
});

test('the page asks browsers to load nothing from elsewhere', async (t) => {
  for (const path of ['/docs', '/docs/']) {
    const { status, headers } = await platform().client.call('GET', path);
    t.is(status, 200);
    t.is(headers.get('content-type'), 'text/html; charset=utf-8');
    t.regex(headers.get('content-security-policy') ?? '', /default-src 'none'.*frame-ancestors 'none'/);
  }
});

for (const [name, width, height] of [
  ['wide', 1440, 900],
  ['narrow', 360, 740],
] as const) {
  inBrowser(
    `the ${name} page shows and opens every operation, asks nobody else and complains of nothing`,
    async (t) => {
      const { page, hosts, complaints, close } = await visit(width, height);
      t.is(await countOperations(page), endpoints.length);
      t.true(await fits(page), 'nothing sticks out at the side');
      await picture(page, `docs-${name}`);
      await turn(page, 'projects');
      const operation = page.locator('#operations-Projects-post_projects');
      await operation.locator('.opblock-summary-control').click();
      await operation.locator('.responses-table').first().waitFor();
      t.regex(
        await operation.innerText(),
        /Idempotency-Key[\s\S]*publishable_key|publishable_key[\s\S]*Idempotency-Key/,
      );
      await operation.scrollIntoViewIfNeeded();
      await picture(page, `docs-${name}-operation`);
      t.true(await fits(page), 'nothing sticks out at the side');
      t.deepEqual([...hosts], [new URL(platform().base).host]);
      t.deepEqual(complaints, []);
      await close();
    },
  );
}

inBrowser('a call can be tried out from the page, and the example of a sign-up works at the first click', async (t) => {
  const { page, complaints, close } = await visit(1440, 900);
  const answerTo = async (area: string, id: string, status: string): Promise<string> => {
    await turn(page, area);
    const operation = page.locator(`#operations-${id}`);
    await operation.locator('.opblock-summary-control').click();
    await operation.getByRole('button', { name: 'Try it out' }).click();
    await operation.getByRole('button', { name: 'Execute' }).click();
    const answer = operation.locator('.live-responses-table');
    await answer.locator('.response-col_status').getByText(status).waitFor();
    return answer.innerText();
  };
  t.regex(await answerTo('system', 'System-get_healthz', '200'), /"status": "ok"/);
  t.regex(await answerTo('accounts', 'Accounts-post_auth_signup', '201'), /"access_token"/);
  await picture(page, 'docs-example');
  t.deepEqual(complaints, []);
  await close();
});

inBrowser('an access token can be entered and is sent along', async (t) => {
  const { page, close } = await visit(1440, 900);
  const { token, email } = await platform().client.signUp();
  await page.locator('.auth-wrapper .authorize').first().click();
  await picture(page, 'docs-authorize');
  const dialog = page.locator('.dialog-ux');
  await dialog.locator('.auth-container', { hasText: 'accessToken' }).locator('input').fill(token);
  await dialog
    .locator('.auth-container', { hasText: 'accessToken' })
    .getByRole('button', { name: 'Apply credentials' })
    .click();
  await dialog.locator('.btn-done').first().click();
  await turn(page, 'accounts');
  const operation = page.locator('#operations-Accounts-get_auth_me');
  await operation.locator('.opblock-summary-control').click();
  await operation.getByRole('button', { name: 'Try it out' }).click();
  await operation.getByRole('button', { name: 'Execute' }).click();
  await operation.locator('.live-responses-table').getByText(email).first().waitFor();
  t.pass();
  await close();
});

inBrowser(
  'an operation says where its ids come from, fills in what the examples made, and says what it needs',
  async (t) => {
    const { page, complaints, close } = await visit(1440, 900);
    await turn(page, 'database');
    const columns = page.locator('[id$="post_projects_project_id_db_tables_table_columns"]');
    await columns.locator('.opblock-summary-control').click();
    await columns.getByText('POST /projects answers it, GET /projects lists it.').waitFor();
    await columns.getByRole('button', { name: 'Try it out' }).click();
    t.is(await columns.getByPlaceholder('table', { exact: true }).inputValue(), 'guests');
    await picture(page, 'docs-ids');
    await turn(page, 'database');
    await turn(page, 'ai');
    const chat = page.locator('[id$="post_projects_project_id_ai_chat"]');
    await chat.locator('.opblock-summary-control').click();
    await chat.getByText(/Needs a provider of models with a key/).waitFor();
    await picture(page, 'docs-needs');
    t.deepEqual(complaints, []);
    await close();
  },
);

test('the examples that are written by hand are of endpoints and taken by them; areas are named as people write them', (t) => {
  const known = new Map(endpoints.map((one) => [`${one.method} ${one.path}`, one]));
  for (const name of writtenExamples) {
    const found = known.get(name);
    t.truthy(found && exampleOf(found, {}), name);
  }
  t.deepEqual(['ai', 'api-keys', 'data', 'projects'].map(areaName), ['AI', 'API keys', 'Data API', 'Projects']);
});
