import test from 'ava';
import { useFaultyPlatform } from '#test/support/faulty-platform.ts';
import { opsToken } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';
import { useWebBuild } from '#test/support/web-build.ts';
import { inBrowser, picture, signIn, useBrowser } from './browser.ts';

const platform = useFaultyPlatform(test, useWebBuild(test));
const visit = useBrowser();

const ask = (path: string) => platform().client.call('GET', `/ops/api${path}`, { token: opsToken });

interface QueueRow {
  readonly open: boolean | null;
  readonly waiting: number | null;
  readonly dead: number;
}

test.serial('while Redis is away, what Postgres knows is answered and the rest is null', async (t) => {
  await until(async () => (await ask('/queues')).body.redis === true);
  await platform().redis.refuse();
  await until(async () => (await ask('/queues')).body.redis === false);
  const { status, body } = await ask('/queues');
  t.is(status, 200);
  const [queue] = body.queues as QueueRow[];
  t.like(queue, { open: null, waiting: null, dead: 0 });
  t.is((await ask('/jobs')).status, 200);
  const { status: unavailable, body: error } = await ask('/projects');
  t.is(unavailable, 503);
  t.is(error.code, 'dependency_unavailable');
  await platform().redis.restore();
  await until(async () => (await ask('/queues')).body.redis === true);
});

inBrowser('the page says in words which service is away, and that it is back', async (t) => {
  const { page, close } = await visit(`${platform().base}/ops`);
  await signIn(page);
  await page.getByRole('article').first().waitFor();
  await platform().redis.refuse();
  await page.getByText('Redis does not answer.').waitFor();
  await picture(page, 'no-redis');
  await platform().redis.restore();
  await page.getByText('Redis does not answer.').waitFor({ state: 'detached' });
  await platform().postgres.refuse();
  await page.getByText('Postgres does not answer.').waitFor();
  await platform().postgres.restore();
  await page.getByText('Postgres does not answer.').waitFor({ state: 'detached' });
  t.true(await page.getByRole('article').first().isVisible());
  await close();
});
