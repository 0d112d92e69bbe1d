import test from 'ava';
import { addMember } from '#test/support/members.ts';
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
  await page.getByRole('combobox', { name: 'Time' }).first().selectOption('24h');
  await page.getByRole('row', { name: /^REST 3 0/ }).waitFor();
  t.true(page.url().includes('range=24h'));
  t.deepEqual(seriousOf(complaints), []);
  await close();
});

inBrowser(
  'the size of the database is drawn over time, with the limit of the plan and the largest tables',
  async (t) => {
    t.timeout(longTestMs);
    const { client, db } = platform();
    const user = await client.signUp();
    const project = await client.createProject(user);
    const viewer = await addMember(platform(), project.orgId, 'viewer');
    const hostile = `<img src=x onerror=alert(1)> "'%`;
    const mib = 1024 * 1024;
    const day = 24 * 3_600_000;
    const tables = [{ schema: 'public', name: hostile, bytes: 300 * mib }];
    await db.query('delete from project_sizes where project_id = $1', [project.id]);
    for (const [ago, bytes] of [
      [20, 100],
      [10, 320],
      [1, 450],
    ] as const) {
      const at = new Date(Math.floor((Date.now() - ago * day) / 3_600_000) * 3_600_000);
      for (const seconds of [3600, 86_400])
        await db.query(
          `insert into project_sizes (project_id, seconds, at, bytes, tables) values ($1, $2, $3, $4, $5)`,
          [project.id, seconds, at, bytes * mib, seconds === 3600 ? null : JSON.stringify(tables)],
        );
    }
    const { page, complaints, close } = await open(`${platform().base}/dashboard/projects/${project.id}/traffic`);
    await signIn(page, viewer);
    await page.getByText('450 MB of 500 MB that the plan allows').waitFor();
    await page.getByRole('img', { name: /Size of the database in the last 30 days: at most 450 MB/ }).waitFor();
    await page.getByRole('row', { name: hostile }).getByText('as before').waitFor();
    await looksRight(t, page, 'traffic-sizes');
    await page.getByRole('combobox', { name: 'Time of the sizes' }).selectOption('24h');
    await page.getByRole('img', { name: /in the last 24 hours/ }).waitFor();
    t.true(page.url().includes('sizes=24h'));
    t.deepEqual(seriousOf(complaints), []);
    await close();
  },
);
