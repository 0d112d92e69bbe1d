import test from 'ava';
import { useJobsApi } from '#test/jobs/scene.ts';
import { addMember } from '#test/support/members.ts';

const { scene, platform } = useJobsApi(test);

const code = 'exports.handler = (_, sdk) => ["first", sdk.env.NAME ?? null]';
const second = 'exports.main = (_, sdk) => ["second", sdk.env.NAME ?? null]';

test('a rollback brings back code, entry point, limits and variables under a new number, and can be rolled back', async (t) => {
  const { fn, ask } = await scene(code);
  const path = `/functions/${fn.id}`;
  await ask('PATCH', path, { body: { env_vars: { NAME: 'one' }, timeout_ms: 2000, memory_mb: 128 } });
  const changed = { code: second, entry_point: 'main', timeout_ms: 3000, memory_mb: 256, env_vars: { NAME: 'two' } };
  await ask('PATCH', path, { body: changed });
  t.deepEqual((await ask('POST', `${path}/invoke`, { body: { payload: 1 } })).body.result, ['second', 'two']);

  const back = await ask('POST', `${path}/versions/2/rollback`);
  t.is(back.status, 200);
  t.like(back.body, { version: 4, rolled_back_to: 2, saved_as: 3, code, entry_point: 'handler' });
  t.like(back.body, { timeout_ms: 2000, memory_mb: 128, env_vars: { NAME: '********' } });
  t.deepEqual((await ask('POST', `${path}/invoke`, { body: { payload: 1 } })).body.result, ['first', 'one']);

  const again = await ask('POST', `${path}/versions/3/rollback`);
  t.like(again.body, { version: 5, rolled_back_to: 3, saved_as: 4, code: second, timeout_ms: 3000 });
  t.deepEqual((await ask('POST', `${path}/invoke`, { body: { payload: 1 } })).body.result, ['second', 'two']);
  const { body } = await ask('GET', `${path}/versions`);
  t.deepEqual(
    body.versions.map(({ version }: { version: number }) => version),
    [4, 3, 2, 1],
  );
});

test('an unknown version is 404, the present one 409, and what is no number 404', async (t) => {
  const { fn, ask } = await scene(code);
  const answers = { 2: 404, 1: 409, 0: 404, x: 404, '1.5': 404, 99999999999: 404 };
  for (const [version, status] of Object.entries(answers)) {
    t.is((await ask('POST', `/functions/${fn.id}/versions/${version}/rollback`)).status, status, version);
  }
  t.is((await ask('GET', `/functions/${fn.id}`)).body.version, 1);
});

test('of many rollbacks and changes at once each makes a number of its own', async (t) => {
  const { fn, ask } = await scene(code);
  const path = `/functions/${fn.id}`;
  await ask('PATCH', path, { body: { code: second, entry_point: 'main' } });
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, i) =>
      i % 2 === 0 ? ask('POST', `${path}/versions/1/rollback`) : ask('PATCH', path, { body: { timeout_ms: 1000 + i } }),
    ),
  );
  t.deepEqual(
    answers.map(({ body }) => Number(body.version)).toSorted((a, b) => a - b),
    Array.from({ length: 20 }, (_, i) => i + 3),
  );
  const { body } = await ask('GET', `${path}/versions`);
  t.is(body.total, 21);
});

test('developers roll back, viewers do not; the audit log tells of it', async (t) => {
  const { fn, ask, project } = await scene(code);
  await ask('PATCH', `/functions/${fn.id}`, { body: { timeout_ms: 1500 } });
  const path = `/projects/${project.id}/functions/${fn.id}/versions/1/rollback`;
  const viewer = await addMember(platform(), project.orgId, 'viewer');
  t.is((await platform().client.call('POST', path, { token: viewer.token })).status, 403);
  const developer = await addMember(platform(), project.orgId, 'developer');
  t.is((await platform().client.call('POST', path, { token: developer.token })).status, 200);
  const entries = await platform().db.query<{ action: string }>(
    `select action from audit_entries where target_id = $1 order by id`,
    [fn.id],
  );
  t.is(entries.at(-1)?.action, 'function.rollback');
});
