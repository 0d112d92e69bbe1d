import test from 'ava';
import type { TestProject, TestUser } from '#test/support/client.ts';
import { isError } from '#test/support/is-error.ts';
import { usePlatform } from '#test/support/platform.ts';
import { readyProject } from './ready-project.ts';

// No worker: what is accepted waits.
const platform = usePlatform(test, { worker: false, settings: { PLINTH_WAITING_JOBS: '2' } });

let owner: TestUser;
let project: TestProject;

test.before('there is a project', async () => {
  owner = await platform().client.signUp();
  project = await readyProject(platform(), owner, 'pro');
});

const call = (method: string, path: string, options: object = {}) =>
  platform().client.call(method, `/projects/${project.id}/cron${path}`, { token: owner.token, ...options });

test('a schedule is not run now while too many jobs of its type wait, and a refusal leaves nothing', async (t) => {
  const body = { name: 'x', schedule: '@daily', target: { type: 'sql', sql: 'select 1' } };
  const { id } = (await call('POST', '', { body })).body;
  for (const _ of [1, 2]) t.is((await call('POST', `/${id}/run`)).status, 202);
  const headers = { 'idempotency-key': 'third' };
  const refused = await call('POST', `/${id}/run`, { headers });
  isError(t, refused, 429, 'queue_full');
  t.is(refused.headers.get('retry-after'), '5');
  t.is((await call('GET', `/${id}/runs`)).body.total, 2);
  const jobs = await platform().client.call('GET', `/projects/${project.id}/jobs?type=cron.fire`, {
    token: owner.token,
  });
  t.is(jobs.body.jobs.length, 2);
  const [job] = jobs.body.jobs;
  await platform().client.call('POST', `/projects/${project.id}/jobs/${job.id}/cancel`, {
    token: owner.token,
    body: {},
  });
  t.is((await call('POST', `/${id}/run`, { headers })).status, 202);
  isError(t, await call('POST', `/${id}/run`), 429, 'queue_full');
});
