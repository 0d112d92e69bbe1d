import test from 'ava';
import { usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';

const platform = usePlatform(test);

test('an error message with NUL or half a character is recorded, and holds up nobody', async (t) => {
  const { client } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  const fn = await client.deploy(user, project, 'exports.handler = (message) => { throw new Error(message) }');
  for (const message of ['a\0b', 'a\uD800b']) {
    const { body } = await client.invoke(user, project, fn, message);
    t.is(body.status, 'error');
  }
  const good = await client.deploy(user, project, 'exports.handler = () => "fine"');
  const { body } = await client.invoke(user, project, good, null);
  const path = `/projects/${project.id}/jobs/${body.invocation_id}`;
  const job = await client.call('GET', path, { token: user.token });
  t.like(job.body, { status: 'succeeded' });
});

test('a publishable key sees of a job neither stack nor log, and no job but runs of functions', async (t) => {
  const { client, db } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  const code = 'exports.handler = () => { console.log("inside"); throw new Error("inner detail") }';
  const fn = await client.deploy(user, project, code);
  const headers = { prefer: 'respond-async' };
  const { body } = await client.call('POST', `/api/functions/${fn.slug}`, { key: project.publishableKey, headers });
  const path = `/api/jobs/${body.job_id}`;
  await until(async () => (await client.call('GET', path, { key: project.key })).body.status === 'failed');
  const open = await client.call('GET', path, { key: project.key });
  t.is(open.body.result.error.message, 'inner detail');
  const seen = await client.call('GET', path, { key: project.publishableKey });
  t.is(seen.status, 200);
  t.like(seen.body, { status: 'failed', error: { code: 'error' } });
  t.notRegex(seen.text, /inner detail|inside|stack/);
  const [provision] = await db.query<{ id: string }>(
    `select id from jobs where project_id = $1 and type = 'project.provision'`,
    [project.id],
  );
  const other = await client.call('GET', `/api/jobs/${provision?.id}`, { key: project.publishableKey });
  t.is(other.status, 404);
});
