import test from 'ava';
import { useJobsApi } from '#test/jobs/scene.ts';
import { addMember, ownOrganization } from '#test/support/members.ts';

const { scene, platform } = useJobsApi(test, { shared: true });

const tells = 'exports.handler = (_, { env }) => ({ ...env, inProcess: process.env.SHARED ?? null })';

const masked = '********';

test('every function of a project sees its variables, and its own ones come first', async (t) => {
  const { ask, fn } = await scene(tells);
  const invoke = async (id: string) =>
    (await ask('POST', `/functions/${id}/invoke`, { body: { payload: null } })).body.result;
  const python = { language: 'python', code: 'def handler(payload, sdk):\n  return dict(sdk.env)', name: 'snake' };
  const other = await ask('POST', '/functions', { body: { ...python, env_vars: { OWN: 'own' } } });
  const set = await ask('PATCH', '/env', { body: { env_vars: { SHARED: 'a', OWN: 'shared', LEFT: 'x' } } });
  t.is(set.status, 200, set.text);
  t.deepEqual(set.body, { env_vars: { LEFT: masked, OWN: masked, SHARED: masked } });
  t.deepEqual(await invoke(fn.id), { SHARED: 'a', OWN: 'shared', LEFT: 'x', inProcess: 'a' });
  t.deepEqual(await invoke(String(other.body.id)), { SHARED: 'a', OWN: 'own', LEFT: 'x' });
});

test('a change of variables is seen by the next call of a function that has just run, each time', async (t) => {
  const { ask, fn, project } = await scene(tells);
  for (let turn = 0; turn < 15; turn += 1) {
    const value = turn % 5 === 4 ? null : `value ${turn}`;
    t.is((await ask('PATCH', '/env', { body: { env_vars: { SHARED: value } } })).status, 200);
    const [answer, called] = await Promise.all([
      ask('POST', `/functions/${fn.id}/invoke`, { body: { payload: null } }),
      platform().client.call('POST', `/api/functions/${fn.slug}`, { key: project.key, body: {} }),
    ]);
    t.is(answer.body.result.inProcess, value);
    t.is(called.body.inProcess, value);
  }
});

test('variables are bounded, keep what is masked, and change as a whole or not at all', async (t) => {
  const { ask } = await scene(tells);
  const patch = (env_vars: object) => ask('PATCH', '/env', { body: { env_vars } });
  const many = Object.fromEntries(Array.from({ length: 200 }, (_, i) => [`NAME_${i}`, `${i}`]));
  t.is((await patch(many)).status, 200);
  t.is((await patch({ NAME_0: masked, NAME_1: null, ONE: 'more' })).status, 200);
  for (const refused of [
    { TWO: 'more' },
    { NAME_2: null, NEW: masked },
    { NAME_2: 'x'.repeat(32_769) },
    Object.fromEntries(Array.from({ length: 5 }, (_, i) => [`NAME_${i + 2}`, 'x'.repeat(32_768)])),
    { 'a name': 'x' },
    { NAME_2: 7 },
  ]) {
    const answer = await patch(refused);
    t.is(answer.status, 400, answer.text);
    t.is(answer.body.code, 'validation_failed');
  }
  const { env_vars: now } = (await ask('GET', '/env')).body;
  t.is(Object.keys(now as object).length, 200);
  t.false(Object.hasOwn(now as object, 'NAME_1'));
});

test('developers change variables, viewers see their names, and strangers nothing', async (t) => {
  const one = await scene(tells);
  const { client } = platform();
  const path = `/projects/${one.project.id}/env`;
  await one.ask('PATCH', '/env', { body: { env_vars: { SHARED: 'the secret itself' } } });
  const org = await ownOrganization(platform(), one.user);
  const viewer = await addMember(platform(), org, 'viewer');
  const developer = await addMember(platform(), org, 'developer');
  const seen = await client.call('GET', path, { token: viewer.token });
  t.deepEqual(seen.body, { env_vars: { SHARED: masked } });
  const body = { env_vars: { B: 'b' } };
  t.is((await client.call('PATCH', path, { token: viewer.token, body })).status, 403);
  t.is((await client.call('PATCH', path, { token: developer.token, body })).status, 200);
  const stranger = await client.signUp();
  t.is((await client.call('GET', path, { token: stranger.token })).status, 404);
  t.is((await client.call('PATCH', path, { token: stranger.token, body })).status, 404);
});

test('the audit log names the variables that changed, and their values are stored sealed only', async (t) => {
  const { ask, project } = await scene(tells);
  await ask('PATCH', '/env', { body: { env_vars: { ONE: 'plain-value-1', TWO: 'plain-value-2' } } });
  await ask('PATCH', '/env', { body: { env_vars: { ONE: 'plain-value-3', TWO: null } } });
  const entries = await platform().db.query<{ action: string; before: object | null; after: object }>(
    `select action, before, after from audit_entries where project_id = $1 and target_type = 'project_env' order by id`,
    [project.id],
  );
  t.like(entries, [
    { action: 'project_env.create', after: { names: ['ONE', 'TWO'], version: 1 } },
    {
      action: 'project_env.update',
      before: { names: ['ONE', 'TWO'], version: 1 },
      after: { names: ['ONE'], version: 2 },
    },
  ]);
  const [row] = await platform().db.query<{ vars_sealed: Buffer }>(
    'select vars_sealed from project_env where project_id = $1',
    [project.id],
  );
  t.notRegex(JSON.stringify(entries) + row?.vars_sealed.toString('latin1'), /plain-value/);
});
