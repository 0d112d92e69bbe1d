import test from 'ava';
import { usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';

const platform = usePlatform(test, { shared: true });

const scene = async () => {
  const { client } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  const call = (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) =>
    client.call(method, `/projects/${project.id}${path}`, {
      token: user.token,
      headers,
      ...(body !== undefined && { body }),
    });
  const keysOf = async (query: string): Promise<string[]> =>
    (await call('GET', `/flags?${query}`)).body.flags.map(({ key }: { key: string }) => key);
  const answerOf = (key: string) =>
    client.call('POST', `/p/${project.ref}/ofrep/v1/evaluate/flags/${key}`, {
      key: project.publishableKey,
      body: { context: { targetingKey: 'ada' } },
    });
  return { client, user, project, call, keysOf, answerOf };
};

test('an archived flag is kept, answered to nobody, and comes back as it was', async (t) => {
  const { call, keysOf, answerOf } = await scene();
  const made = await call('POST', '/flags', { key: 'old', description: 'kept', value: true });
  t.is(made.body.is_archived, false);
  await call('POST', '/flags', { key: 'new' });
  t.is((await answerOf('old')).body.value, true);
  const archived = await call('POST', '/flags/old/archive');
  t.is(archived.status, 200, archived.text);
  t.like(archived.body, { is_archived: true, is_enabled: true, description: 'kept', version: 2 });
  t.is((await answerOf('old')).status, 404);
  t.deepEqual(
    [await keysOf(''), await keysOf('archived=true'), await keysOf('archived=all')],
    [['new'], ['old'], ['new', 'old']],
  );
  const evaluated = await call('POST', '/flags/old/evaluate', { context: {} });
  t.is(evaluated.status, 409, evaluated.text);
  for (const [method, path, body] of [
    ['PATCH', '/flags/old', { name: 'x' }],
    ['POST', '/flags/old/toggle', {}],
    ['POST', '/flags/old/revert', { version: 1 }],
    ['POST', '/flags/old/schedule', { at: new Date(Date.now() + 3600_000).toISOString(), patch: {} }],
  ] as const)
    t.is((await call(method, path, body)).body.code, 'conflict', `${method} ${path}`);
  t.is((await call('POST', '/flags/old/archive')).body.version, 2, 'nothing is left to change');
  const back = await call('POST', '/flags/old/unarchive');
  t.like(back.body, { is_archived: false, is_enabled: true, description: 'kept', version: 3 });
  t.is((await answerOf('old')).body.value, true);
  const { history } = (await call('GET', '/flags/old/history')).body;
  t.is(history[1].after.is_archived, true);
  t.like((await call('POST', '/flags/old/revert', { version: 2 })).body, { is_archived: false });
  t.is((await call('GET', '/flags?archived=perhaps')).status, 400);
});

test('what refers to a flag is named, and a flag that others need stays', async (t) => {
  const { call } = await scene();
  await call('POST', '/flags', { key: 'base' });
  await call('POST', '/flags', { key: 'top', prerequisites: [{ key: 'base', value: true }] });
  const at = new Date(Date.now() + 3600_000).toISOString();
  await call('POST', '/flags/base/schedule', { at, patch: { is_enabled: false } });
  t.deepEqual((await call('GET', '/flags/base/references')).body, { needed_by: ['top'], pending_schedules: 1 });
  t.is((await call('GET', '/flags/none/references')).status, 404);
  const refused = await call('POST', '/flags/base/archive');
  t.is(refused.status, 409);
  t.deepEqual(refused.body.details, { used_by: ['top'] });

  t.is((await call('POST', '/flags/top/archive')).status, 200);
  t.deepEqual((await call('GET', '/flags/base/references')).body.needed_by, [], 'an archived flag needs nothing');
  t.is((await call('POST', '/flags/base/archive')).status, 200);
  const needed = await call('POST', '/flags', { key: 'third', prerequisites: [{ key: 'base', value: true }] });
  t.regex(needed.text, /there is no flag base/);
  const back = await call('POST', '/flags/top/unarchive');
  t.is(back.status, 400, back.text);
  t.regex(back.text, /there is no flag base/);
  await call('POST', '/flags/base/unarchive');
  t.is((await call('POST', '/flags/top/unarchive')).status, 200);
});

test('a change that comes due in the archive is set aside in words', async (t) => {
  const { call } = await scene();
  await call('POST', '/flags', { key: 'a' });
  const soon = new Date(Date.now() + 1000).toISOString();
  await call('POST', '/flags/a/schedule', { at: soon, patch: { description: 'late' } });
  await call('POST', '/flags/a/archive');
  await until(async () => (await call('GET', '/flags/a/schedule')).body.schedules[0].status === 'failed');
  t.is((await call('GET', '/flags/a/schedule')).body.schedules[0].error, 'The flag is archived.');
  t.is((await call('GET', '/flags/a')).body.description, '');
});

test('two writers with one version: one of them archives', async (t) => {
  const { call } = await scene();
  await call('POST', '/flags', { key: 'a' });
  await call('PATCH', '/flags/a', { name: 'changed meanwhile' });
  t.is((await call('POST', '/flags/a/archive', undefined, { 'if-match': '"1"' })).status, 412);
  t.is((await call('POST', '/flags/a/archive', undefined, { 'if-match': '"2"' })).status, 200);
  t.is((await call('POST', '/flags/a/unarchive', undefined, { 'if-match': '"2"' })).status, 412);
});

test('the archive goes with exports, imports and copies, and comparisons name it', async (t) => {
  const { call, keysOf, answerOf } = await scene();
  await call('POST', '/flags', { key: 'old' });
  await call('POST', '/flags', { key: 'plain' });
  await call('POST', '/environments/production/copy', { to: 'staging' });
  await call('POST', '/flags/old/archive');
  t.deepEqual((await call('GET', '/environments/compare?from=production&to=staging')).body.different, [
    { key: 'old', fields: ['is_archived'] },
  ]);
  const file = (await call('GET', '/flags/export')).body;
  t.deepEqual(
    file.flags.map((flag: { is_archived?: boolean }) => flag.is_archived),
    [true, undefined],
    'flags that are not archived are written as before',
  );
  t.deepEqual((await call('PUT', '/flags/import?dry_run=true', file)).body.unchanged, ['old', 'plain']);
  t.deepEqual((await call('PUT', '/flags/import?environment=staging', file)).body.updated, ['old']);
  t.deepEqual(await keysOf('environment=staging&archived=true'), ['old']);
  await call('POST', '/environments/production/copy', { to: 'third' });
  t.deepEqual(await keysOf('environment=third&archived=true'), ['old']);
  const circle = {
    flags: [
      { key: 'old', is_archived: true },
      { key: 'x', prerequisites: [{ key: 'old', value: true }] },
    ],
  };
  t.regex((await call('PUT', '/flags/import', circle)).text, /there is no flag old/);
  delete file.flags[0].is_archived;
  t.deepEqual((await call('PUT', '/flags/import', file)).body.updated, ['old']);
  t.is((await answerOf('old')).status, 200);
});

test('an archive is in the audit log by its name, and another project’s flag is not found', async (t) => {
  const { call, project } = await scene();
  const other = await scene();
  await call('POST', '/flags', { key: 'a' });
  await call('POST', '/flags/a/archive');
  const rows = await platform().db.query<{ action: string }>(
    `select action from audit_entries where project_id = $1 and target_type = 'flag' order by id`,
    [project.id],
  );
  t.true(rows.some(({ action }) => action === 'flag.archive'));
  const foreign = await other.client.call('POST', `/projects/${project.id}/flags/a/unarchive`, {
    token: other.user.token,
  });
  t.is(foreign.status, 404);
  t.is((await other.call('POST', '/flags/a/archive')).status, 404);
});
