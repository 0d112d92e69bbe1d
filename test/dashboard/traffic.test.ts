import test from 'ava';
import { longTestMs } from '#test/support/time-outs.ts';
import { until } from '#test/support/until.ts';
import { inBrowser, useBrowser } from '../ops/browser.ts';
import { looksRight, seriousOf, signIn } from './browse.ts';
import { useDashboard } from './scene.ts';

const { platform } = useDashboard(test);
const open = useBrowser();

inBrowser('the traffic of a project is shown by surface, for the time that the address names', async (t) => {
  t.timeout(longTestMs);
  const { client } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  for (let count = 0; count < 3; count += 1) await client.call('GET', '/v1/rest/none', { key: project.key });
  const base = `/projects/${project.id}`;
  await until(async () => {
    const { body } = await client.call('GET', `${base}/stats?range=1h`, { token: user.token });
    return (body.points as { surface: string }[]).some(({ surface }) => surface === 'rest');
  });
  const { page, complaints, close } = await open(`${platform().base}/dashboard${base}/traffic?range=1h`);
  await signIn(page, user);
  await page.getByRole('cell', { name: 'REST' }).waitFor();
  await page.getByRole('row', { name: /^REST 3 0/ }).waitFor();
  await looksRight(t, page, 'traffic');
  await page.getByRole('combobox', { name: 'Time' }).selectOption('24h');
  await page.getByRole('row', { name: /^REST 3 0/ }).waitFor();
  t.true(page.url().includes('range=24h'));
  t.deepEqual(seriousOf(complaints), []);
  await close();
});
