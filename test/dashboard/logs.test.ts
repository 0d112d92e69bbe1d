import test from 'ava';
import { longTestMs } from '#test/support/time-outs.ts';
import { until } from '#test/support/until.ts';
import { inBrowser, useBrowser } from '../ops/browser.ts';
import { looksRight, seriousOf, signIn } from './browse.ts';
import { useDashboard } from './scene.ts';

const { platform } = useDashboard(test);
const open = useBrowser();

const code = `export const handler = (x, sdk) => {
  sdk.log('warn', '<img src=x onerror=alert(1)> ' + x, { by: '\\u202E' });
  if (x === 'bad') throw new Error('no <b>luck</b>');
  return x;
};`;

const setUp = async () => {
  const { client } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  const fn = await client.deploy(user, project, code);
  const base = `/projects/${project.id}`;
  const run = async (payload: string) => {
    const at = `${base}/functions/${fn.id}/invoke`;
    const answer = await client.call('POST', at, { token: user.token, body: { payload } });
    const { body } = await until(async () => {
      const found = await client.call('GET', `${base}/logs?q=${payload}`, { token: user.token });
      return (found.body.logs as unknown[]).length > 0 && found;
    });
    return { request: answer.headers.get('x-request-id') ?? '', body };
  };
  return { user, project, base, run };
};

inBrowser('all sources are one stream, filtered by level, source, text and request; a line has a link', async (t) => {
  t.timeout(longTestMs);
  const { user, base, run } = await setUp();
  const bad = await run('bad');
  await run('good');
  const { page, complaints, close } = await open(`${platform().base}/dashboard${base}/logs`);
  await signIn(page, user);
  const log = page.getByRole('log');
  await log.getByText('<img src=x onerror=alert(1)> bad').waitFor();
  await log.getByText('function.invoke failed: no <b>luck</b>').waitFor();
  await looksRight(t, page, 'logs');
  await page.getByLabel('Level').selectOption('error');
  await until(async () => (await log.locator('p').count()) === 1);
  await page.getByLabel('Level').selectOption('');
  await page.getByLabel('Source').selectOption('job');
  await log.getByText('project.provision succeeded').waitFor();
  t.true(page.url().includes('source=job'));
  await page.getByLabel('Source').selectOption('');
  await page.getByLabel('Request').fill(bad.request);
  await page.getByRole('button', { name: 'Search' }).click();
  await until(async () => (await log.locator('p').count()) === 2);
  await log.getByTitle('A link to this line').first().click();
  await log.locator('.chosen').waitFor();
  await page.reload();
  await log.locator('.chosen').waitFor();
  await log.getByRole('link', { name: 'function', exact: true }).click();
  await page.getByText('Error: no <b>luck</b>').first().waitFor();
  t.deepEqual(seriousOf(complaints), []);
  await close();
});

inBrowser('new lines come by themselves until the page is paused', async (t) => {
  t.timeout(longTestMs);
  const { user, base, run } = await setUp();
  const { page, close } = await open(`${platform().base}/dashboard${base}/logs`);
  await signIn(page, user);
  const log = page.getByRole('log');
  await log.getByText('project.provision').waitFor();
  await run('first');
  await log.getByText('onerror=alert(1)> first').waitFor();
  await page.getByRole('button', { name: 'Pause' }).click();
  await run('second');
  t.is(await log.getByText('onerror=alert(1)> second').count(), 0);
  await page.getByRole('button', { name: 'Go on' }).click();
  await log.getByText('onerror=alert(1)> second').waitFor();
  await close();
});

inBrowser(
  'mails, sign-ins, models and failed requests are in the same stream, each with the way to its page',
  async (t) => {
    t.timeout(longTestMs);
    const { user, project, base } = await setUp();
    const { client } = platform();
    const bad = await client.call('GET', '/v1/rest/%3Cimg%20src=x%20onerror=alert(1)%3E', { key: project.key });
    const requestId = bad.headers.get('x-request-id') ?? '';
    await client.call('POST', `${base}/email/templates/signup/send-test`, {
      token: user.token,
      body: { email: 'ada@example.com' },
    });
    await client.call('POST', `/p/${project.ref}/auth/v1/token?grant_type=password`, {
      key: project.publishableKey,
      body: { email: 'nobody@example.com', password: 'a wrong password' },
    });
    await until(async () => {
      const at = `${base}/logs?source=mail,auth,data`;
      return (await client.call('GET', at, { token: user.token })).body.logs.length === 3;
    });
    const { page, complaints, close } = await open(`${platform().base}/dashboard${base}/logs`);
    await signIn(page, user);
    const log = page.getByRole('log');
    await log.getByText('signup to ada@example.com kept').waitFor();
    await log.getByText(/auth\/v1\/token 400: /).waitFor();
    await looksRight(t, page, 'logs-sources');
    await page.getByLabel('Source').selectOption('data');
    await until(async () => (await log.locator('p').count()) === 1);
    t.true(page.url().includes('source=data'));
    await page.getByLabel('Source').selectOption('');
    await page.getByLabel('Request').fill(requestId);
    await page.getByRole('button', { name: 'Search' }).click();
    await until(async () => (await log.locator('p').count()) === 1);
    await log.getByTitle('A link to this line').click();
    await page.reload();
    await log.locator('.chosen').waitFor();
    await page.goto(`${platform().base}/dashboard${base}/logs?source=mail`);
    await log.getByRole('link', { name: 'mail', exact: true }).click();
    await page.getByRole('heading', { name: 'signup to ada@example.com' }).waitFor();
    t.deepEqual(seriousOf(complaints), []);
    await close();
  },
);
