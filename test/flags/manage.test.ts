import test from 'ava';
import { uniqueName } from '#test/support/client.ts';
import { usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';

const platform = usePlatform(test, { shared: true });

/** A project with a caller for its flags. */
const scene = async (plan = 'free') => {
  const { client } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user, { plan });
  const call = (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) =>
    client.call(method, `/projects/${project.id}${path}`, {
      token: user.token,
      headers,
      ...(body !== undefined && { body }),
    });
  return { client, user, project, call };
};

test('a flag is created, read, listed, changed, toggled and deleted', async (t) => {
  const { call } = await scene();
  const made = await call('POST', '/flags', {
    key: 'New-Checkout',
    name: 'New checkout',
    targeting_rules: [{ attribute: 'userId', operator: 'in', values: ['u1'] }],
  });
  t.is(made.status, 201, made.text);
  t.like(made.body, { key: 'new-checkout', flag_type: 'boolean', value: true, version: 1, environment: 'production' });
  t.is(made.headers.get('etag'), '"1"');
  t.is((await call('POST', '/flags', { key: 'new-checkout' })).status, 409);
  const evaluate = async (userId: string) =>
    (await call('POST', '/flags/new-checkout/evaluate', { context: { userId } })).body;
  t.like(await evaluate('u1'), { key: 'new-checkout', value: true, matched_rule: 0 });
  t.like(await evaluate('u2'), { value: false, matched_rule: null, reason: 'DEFAULT' });
  const patched = await call('PATCH', '/flags/new-checkout', { name: 'Checkout 2' });
  t.like(patched.body, { name: 'Checkout 2', version: 2, value: true });
  t.like((await call('PATCH', '/flags/new-checkout', {})).body, { version: 2 });
  const off = await call('POST', '/flags/new-checkout/toggle');
  t.like(off.body, { is_enabled: false, version: 3 });
  t.like(await evaluate('u1'), { value: false, reason: 'DISABLED' });
  const list = await call('GET', '/flags?environment=production&q=check');
  t.is(list.body.total, 1);
  t.like(list.body.flags[0], { key: 'new-checkout', is_enabled: false, stale: false });
  t.is((await call('DELETE', '/flags/new-checkout')).status, 204);
  t.is((await call('GET', '/flags/new-checkout')).status, 404);
  t.is((await call('POST', '/flags/new-checkout/evaluate', { context: {} })).status, 404);
  const again = await call('POST', '/flags', { key: 'new-checkout' });
  t.is(again.body.version, 5, 'an old ETag must not fit');
});

test('what is wrong with a flag is named', async (t) => {
  const { call } = await scene();
  const pathsOf = async (body: object) => {
    const answer = await call('POST', '/flags', { key: uniqueName('f'), ...body });
    t.is(answer.status, 400, answer.text);
    return answer.body.details.map(({ path }: { path: string }) => path);
  };
  t.deepEqual(await pathsOf({ key: 'export' }), ['key']);
  t.deepEqual(await pathsOf({ key: '-a' }), ['key']);
  t.deepEqual(await pathsOf({ flag_type: 'string' }), ['value']);
  t.deepEqual(await pathsOf({ nothing: 1 }), ['']);
  t.deepEqual(await pathsOf({ targeting_rules: [{ attribute: 'a', operator: 'like', values: ['b'] }] }), [
    'targeting_rules.0.operator',
  ]);
  t.deepEqual(await pathsOf({ targeting_rules: [{ segment: 'none' }] }), ['targeting_rules.0.segment']);
  t.deepEqual(await pathsOf({ prerequisites: [{ key: 'none', value: true }] }), ['prerequisites']);
  t.deepEqual(await pathsOf({ environment: 'No Such' }), ['environment']);
  const json = { flag_type: 'json', value: { a: 'x' } };
  const schema = { type: 'object', properties: { a: { type: 'number' } } };
  t.deepEqual(await pathsOf({ ...json, json_schema: schema }), ['value']);
  t.deepEqual(await pathsOf({ ...json, json_schema: { properties: { a: { pattern: '(a+)+$' } } } }), [
    'json_schema.properties.a.pattern',
  ]);
  t.deepEqual(await pathsOf({ ...json, json_schema: { $ref: 'http://example.com/x' } }), ['json_schema.$ref']);
  const fits = await call('POST', '/flags', { key: 'fits', flag_type: 'json', value: { a: 1 }, json_schema: schema });
  t.is(fits.status, 201, fits.text);
  t.is((await call('PATCH', '/flags/fits', { value: { a: 'x' } })).status, 400);
});

test('two writers with one version: one of them gets 412', async (t) => {
  const { call } = await scene();
  await call('POST', '/flags', { key: 'a' });
  const write = (name: string) => call('PATCH', '/flags/a', { name }, { 'if-match': '"1"' });
  const statuses = (await Promise.all(['one', 'two', 'three'].map(write))).map(({ status }) => status);
  t.deepEqual(
    statuses.toSorted((a, b) => a - b),
    [200, 412, 412],
  );
  t.is((await call('POST', '/flags/a/toggle', undefined, { 'if-match': '"1"' })).body.code, 'precondition_failed');
  t.is((await call('DELETE', '/flags/a', undefined, { 'if-match': '"7"' })).status, 412);
  t.is((await call('PATCH', '/flags/a', { name: 'x' }, { 'if-match': 'two' })).status, 400);
  t.is((await call('PATCH', '/flags/a', { name: 'x' }, { 'if-match': '*' })).status, 200);
});

test('a flag keeps its versions with who made them, and goes back to one', async (t) => {
  const { call, user } = await scene();
  await call('POST', '/flags', { key: 'a', flag_type: 'string', value: 'one' });
  await call('PATCH', '/flags/a', { value: 'two' });
  const history = await call('GET', '/flags/a/history');
  t.is(history.body.total, 2);
  t.like(history.body.history[0], { version: 2, changed_by: { type: 'user', id: user.id } });
  t.is(history.body.history[0].before.value, 'one');
  t.is(history.body.history[0].after.value, 'two');
  t.is(history.body.history[1].before, null);
  t.like((await call('POST', '/flags/a/revert', { version: 1 })).body, { value: 'one', version: 3 });
  t.is((await call('POST', '/flags/a/revert', { version: 9 })).status, 404);
});

const largeValue = (mark: string) => mark.repeat(400_000);

test('a page of large flags, versions or segments ends at a megabyte, and the next begins behind it', async (t) => {
  const { call } = await scene();
  for (const key of ['a', 'b', 'c', 'd'])
    t.is((await call('POST', '/flags', { key, flag_type: 'string', value: largeValue(key) })).status, 201);
  const keysAt = async (offset: number) => {
    const { flags, total } = (await call('GET', `/flags?limit=200&offset=${offset}`)).body;
    t.is(total, 4);
    return flags.map(({ key }: { key: string }) => key).join('');
  };
  t.deepEqual([await keysAt(0), await keysAt(3), await keysAt(4)], ['abc', 'd', '']);
  t.is((await call('GET', '/flags?limit=2')).body.flags.length, 2);
  for (const mark of ['x', 'y', 'z']) await call('PATCH', '/flags/a', { value: largeValue(mark) });
  const versionsAt = async (offset: number) => {
    const { history, total } = (await call('GET', `/flags/a/history?offset=${offset}`)).body;
    t.is(total, 4);
    return history.map(({ before, after }: Record<string, { value: string } | null>) =>
      [before, after].map((one) => one?.value[0] ?? '-').join(''),
    );
  };
  t.deepEqual(
    [await versionsAt(0), await versionsAt(2)],
    [
      ['yz', 'xy'],
      ['ax', '-a'],
    ],
  );
  const conditions = [
    { attribute: 'a', operator: 'in', values: Array.from({ length: 600 }, (_, n) => `${n}${'v'.repeat(900)}`) },
  ];
  for (const key of ['r', 's', 't']) t.is((await call('POST', '/segments', { key, conditions })).status, 201);
  const segments = (await call('GET', '/segments')).body;
  t.deepEqual([segments.total, segments.segments.map(({ key }: { key: string }) => key)], [3, ['r', 's']]);
  t.deepEqual(segments.segments[0].conditions, conditions);
});

test('past versions are kept up to a number', async (t) => {
  const { call } = await scene();
  await call('POST', '/flags', { key: 'a' });
  for (let n = 0; n < 60; n += 1) await call('PATCH', '/flags/a', { name: `name ${n}` });
  const { total, history } = (await call('GET', '/flags/a/history?limit=200')).body;
  t.is(total, 50);
  t.is(history[0].version, 61);
});

test('a prerequisite stays as long as flags need it, and makes no circle', async (t) => {
  const { call } = await scene();
  await call('POST', '/flags', { key: 'base' });
  const needs = await call('POST', '/flags', { key: 'needs', prerequisites: [{ key: 'base', value: true }] });
  t.is(needs.status, 201, needs.text);
  const refused = await call('DELETE', '/flags/base');
  t.is(refused.status, 409);
  t.deepEqual(refused.body.details, { used_by: ['needs'] });
  const circle = await call('PATCH', '/flags/base', { prerequisites: [{ key: 'needs', value: true }] });
  t.is(circle.status, 400);
  t.regex(circle.body.details[0].message, /circle/);
  await call('POST', '/flags/base/toggle');
  t.like((await call('POST', '/flags/needs/evaluate', { context: {} })).body, { reason: 'PREREQUISITE_FAILED' });
});

test.serial('segments have conditions or many keys, and stay as long as rules name them', async (t) => {
  const { call } = await scene('pro');
  const keys = Array.from({ length: 100_000 }, (_, n) => `user-${n}`);
  const made = await call('POST', '/segments', { key: 'beta', name: 'Beta', keys });
  t.is(made.status, 201, made.text.slice(0, 300));
  t.like(made.body, { key: 'beta', key_count: 100_000, conditions: null });
  t.is(
    (
      await call('POST', '/segments', {
        key: 'swiss',
        conditions: [{ attribute: 'c', operator: 'eq', values: ['CH'] }],
      })
    ).status,
    201,
  );
  t.is((await call('GET', '/segments/beta')).body.keys.length, 100_000);
  const list = (await call('GET', '/segments')).body;
  t.is(list.total, 2);
  t.is(list.segments[0].keys, null);
  await call('POST', '/flags', { key: 'a', targeting_rules: [{ segment: 'beta' }, { segment: 'swiss' }] });
  const matched = async (context: object) => (await call('POST', '/flags/a/evaluate', { context })).body.matched_rule;
  t.is(await matched({ targetingKey: 'user-99999' }), 0);
  t.is(await matched({ targetingKey: 'user-100000' }), null);
  t.is(await matched({ targetingKey: 'x', c: 'CH' }), 1);
  t.is((await call('PATCH', '/segments/swiss', { keys: ['x'] })).body.key_count, 1);
  t.is(await matched({ targetingKey: 'x' }), 1);
  t.is((await call('DELETE', '/segments/beta')).status, 409);
  await call('DELETE', '/flags/a');
  t.is((await call('DELETE', '/segments/beta')).status, 204);
  for (const body of [
    { key: 'none' },
    { key: 'both', keys: [], conditions: [] },
    { key: 'line', keys: ['a\nb'] },
    { key: 'nested', conditions: [{ segment: 'swiss' }] },
    { key: 'many', keys: [...keys, 'one more'] },
  ])
    t.is((await call('POST', '/segments', body)).status, 400, body.key);
});

test('a flag is evaluated with changes that are not saved, and refused as they would be', async (t) => {
  const { call } = await scene();
  await call('POST', '/flags', { key: 'tried' });
  const tryIt = (patch: object, context: object = { plan: 'pro' }) =>
    call('POST', '/flags/tried/evaluate', { context, explain: true, patch });
  const rules = [{ attribute: 'plan', operator: 'in', values: ['pro'] }];
  t.like((await tryIt({ targeting_rules: rules })).body, { matched_rule: 0, value: true });
  t.like((await tryIt({ targeting_rules: rules }, {})).body, {
    matched_rule: null,
    explanation: [{ rule: 0, matched: false, failed: { attribute: 'plan', operator: 'in' } }],
  });
  const refused = await tryIt({ targeting_rules: [{ segment: 'nobody' }] });
  t.is(refused.status, 400);
  t.regex(refused.text, /there is no such segment/);
  t.is((await tryIt({ value: 'no boolean' })).status, 400);
  t.like((await call('GET', '/flags/tried')).body, { targeting_rules: [], version: 1 });
});

test('environments are listed, made, renamed, copied, compared and deleted', async (t) => {
  const { call } = await scene();
  t.deepEqual((await call('GET', '/environments')).body, {
    environments: [{ name: 'production', flags: 0 }],
    total: 1,
  });
  await call('POST', '/flags', { key: 'a', flag_type: 'string', value: 'prod' });
  await call('POST', '/flags', { key: 'b' });
  t.is((await call('POST', '/environments', { name: 'staging' })).status, 201);
  t.is((await call('POST', '/environments', { name: 'staging' })).status, 409);
  const copied = await call('POST', '/environments/production/copy', { to: 'staging' });
  t.deepEqual(copied.body, { created: ['a', 'b'], updated: [], deleted: [], unchanged: [] });
  await call('PATCH', '/flags/a?environment=staging', { value: 'stage' });
  await call('POST', '/flags?environment=staging', { key: 'c' });
  t.deepEqual((await call('GET', '/environments/compare?from=production&to=staging')).body, {
    only_from: [],
    only_to: ['c'],
    different: [{ key: 'a', fields: ['value'] }],
  });
  t.is((await call('PATCH', '/environments/staging', { name: 'qa' })).body.name, 'qa');
  t.is((await call('GET', '/flags/a?environment=qa')).body.value, 'stage');
  t.is((await call('GET', '/flags/a?environment=staging')).status, 404);
  t.is((await call('GET', '/flags/a')).body.value, 'prod');
  t.is((await call('PATCH', '/environments/production', { name: 'x' })).status, 409);
  t.is((await call('DELETE', '/environments/production')).status, 409);
  t.is((await call('DELETE', '/environments/qa')).status, 204);
  t.deepEqual((await call('GET', '/usage')).body.flags, { used: 2, limit: 10_000 });
});

test('an import makes an environment equal to a file, in one step', async (t) => {
  const { call } = await scene();
  await call('POST', '/segments', { key: 's', keys: ['u1'] });
  await call('POST', '/flags', { key: 'same', targeting_rules: [{ segment: 's' }] });
  await call('POST', '/flags', { key: 'changes' });
  await call('POST', '/flags', { key: 'goes' });
  const file = (await call('GET', '/flags/export?environment=production')).body;
  t.deepEqual(file.segments, [{ key: 's', name: 's', keys: ['u1'] }]);
  file.flags = file.flags.filter(({ key }: { key: string }) => key !== 'goes');
  file.flags.find(({ key }: { key: string }) => key === 'changes').description = 'changed';
  file.flags.push({ key: 'comes', prerequisites: [{ key: 'same', value: true }] });
  const expected = { created: ['comes'], updated: ['changes'], deleted: ['goes'], unchanged: ['same'] };
  t.deepEqual((await call('PUT', '/flags/import?dry_run=true', file)).body, expected);
  t.is((await call('GET', '/flags')).body.total, 3);
  t.is((await call('PUT', '/flags/import?dry_run=perhaps', file)).status, 400);
  const done = await call('PUT', '/flags/import', file);
  t.deepEqual(done.body, expected, done.text);
  t.is((await call('PUT', '/flags/import', file)).body.unchanged.length, 3);
  t.deepEqual(
    (await call('GET', '/flags')).body.flags.map(({ key }: { key: string }) => key),
    ['changes', 'comes', 'same'],
  );
  for (const bad of [
    {
      flags: [
        { key: 'x', prerequisites: [{ key: 'y', value: true }] },
        { key: 'y', prerequisites: [{ key: 'x', value: true }] },
      ],
    },
    { flags: [{ key: 'x' }, { key: 'x' }] },
    { flags: [{ key: 'x', targeting_rules: [{ segment: 'nowhere' }] }] },
    { flags: [{ key: 'x', value: 'text' }] },
    { flags: 'none' },
  ])
    t.is((await call('PUT', '/flags/import', bad)).status, 400, JSON.stringify(bad));
  t.is((await call('GET', '/flags')).body.total, 3);
});

test('changes emit events to webhooks, and leave audit entries', async (t) => {
  const { call, project, user, client } = await scene();
  const hook = await call('POST', '/integrations/webhooks', { url: 'http://127.0.0.1:9/x', events: ['flag.*'] });
  t.is(hook.status, 201, hook.text);
  await call('POST', '/flags', { key: 'a' });
  await call('POST', '/flags/a/toggle');
  await call('DELETE', '/flags/a');
  const { db } = platform();
  const events = await until(async () => {
    const rows = await db.query<{ event: string; data: { key: string; version: number; flag: unknown } }>(
      'select event, data from outbox_events where project_id = $1 order by created_at, id',
      [project.id],
    );
    return rows.length === 3 && rows;
  });
  t.deepEqual(
    events.map(({ event, data }) => [event, data.key, data.version]),
    [
      ['flag.created', 'a', 1],
      ['flag.updated', 'a', 2],
      ['flag.deleted', 'a', 3],
    ],
  );
  const audit = await client.call('GET', '/team/audit-log?limit=200', {
    token: user.token,
    headers: { 'x-org-id': project.orgId },
  });
  const actions = new Set((audit.body.entries ?? []).map(({ action }: { action: string }) => action));
  for (const action of ['flag.create', 'flag.toggle', 'flag.delete', 'flag_environment.create'])
    t.true(actions.has(action), `${action} in ${audit.text.slice(0, 300)}`);
});

test('a scheduled change is carried out once, and can be cancelled before', async (t) => {
  const { call } = await scene();
  await call('POST', '/flags', { key: 'a' });
  const past = new Date(Date.now() - 60_000).toISOString();
  const later = new Date(Date.now() + 3_600_000).toISOString();
  const made = await call('POST', '/flags/a/schedule', { at: past, patch: { description: 'by schedule' } });
  t.is(made.status, 201, made.text);
  const waiting = await call('POST', '/flags/a/schedule', { at: later, patch: { is_enabled: false } });
  await until(async () => (await call('GET', '/flags/a')).body.description === 'by schedule');
  t.is((await call('GET', '/flags/a')).body.version, 2);
  const list = (await call('GET', '/flags/a/schedule')).body;
  t.deepEqual(
    list.schedules.map(({ status }: { status: string }) => status),
    ['pending', 'done'],
  );
  t.is((await call('DELETE', `/flags/a/schedule/${waiting.body.id}`)).status, 204);
  t.is((await call('DELETE', `/flags/a/schedule/${made.body.id}`)).status, 404);
  t.is((await call('POST', '/flags/a/schedule', { at: later, patch: { value: 'no boolean' } })).status, 400);
  t.is((await call('POST', '/flags/a/schedule', { at: 'soon', patch: {} })).status, 400);
});

test('a project has no more flags and bytes than its plan allows', async (t) => {
  const { call, project } = await scene();
  await call('POST', '/flags', { key: 'first' });
  await platform().db.query('update flag_sets set flags = 10000 where project_id = $1', [project.id]);
  t.is((await call('POST', '/flags', { key: 'more' })).body.code, 'plan_limit_exceeded');
  t.is((await call('PATCH', '/flags/first', { name: 'still' })).status, 200);
  await platform().db.query('update flag_sets set flags = 1, bytes = 9999990 where project_id = $1', [project.id]);
  t.is((await call('POST', '/flags', { key: 'more' })).body.code, 'plan_limit_exceeded');
  t.is((await call('PUT', '/flags/import', { flags: [{ key: 'first' }, { key: 'b' }] })).status, 403);
  t.is((await call('DELETE', '/flags/first')).status, 204);
});

test('flags of another project are not found', async (t) => {
  const [mine, theirs] = [await scene(), await scene()];
  await theirs.call('POST', '/flags', { key: 'secret' });
  const path = `/projects/${theirs.project.id}`;
  for (const [method, rest, body] of [
    ['GET', '/flags', undefined],
    ['GET', '/flags/secret', undefined],
    ['PATCH', '/flags/secret', { name: 'x' }],
    ['GET', '/flags/export', undefined],
    ['PUT', '/flags/import', { flags: [] }],
    ['GET', '/environments', undefined],
    ['POST', '/segments', { key: 'a', keys: [] }],
    ['POST', '/flags/secret/evaluate', { context: {} }],
  ] as const) {
    const answer = await mine.client.call(method, `${path}${rest}`, { token: mine.user.token, ...(body && { body }) });
    t.is(answer.status, 404, `${method} ${rest}: ${answer.text}`);
  }
});

test.serial('ten thousand flags are imported with one audit entry, and answered at once', async (t) => {
  const { call, client, project, user } = await scene();
  const flags = Array.from({ length: 10_000 }, (_, n) => ({
    key: `flag-${n}`,
    targeting_rules: [{ attribute: 'plan', operator: 'in', values: ['pro'] }],
  }));
  const imported = await call('PUT', '/flags/import', { flags });
  t.is(imported.status, 200, imported.text.slice(0, 300));
  t.is(imported.body.created.length, 10_000);
  const all = await client.call('POST', `/p/${project.ref}/ofrep/v1/evaluate/flags`, {
    key: project.publishableKey,
    body: { context: { plan: 'pro' } },
  });
  t.is(all.body.flags.length, 10_000);
  t.true(all.body.flags.every(({ value }: { value: unknown }) => value === true));
  const audit = await client.call('GET', '/team/audit-log?limit=200', {
    token: user.token,
    headers: { 'x-org-id': project.orgId },
  });
  const entries = audit.body.entries.filter(({ target_type: type }: { target_type: string }) =>
    type.startsWith('flag'),
  );
  t.deepEqual(
    entries.map(({ action }: { action: string }) => action),
    ['flag_environment.import', 'flag_environment.create'],
  );
  t.like(entries[0].after, { created: 10_000, updated: 0, deleted: 0 });
  t.is((await call('POST', '/flags', { key: 'one-more' })).status, 403);
});

test('a hostile file is refused with few problems named', async (t) => {
  const { call } = await scene();
  for (const body of [
    { flags: Array.from({ length: 200_000 }, () => ({})) },
    { flags: Array.from({ length: 50_000 }, () => []) },
    { flags: [{ key: 'a', targeting_rules: Array.from({ length: 200_000 }, () => ({})) }] },
    { flags: [{ key: 'a', targeting_rules: Array.from({ length: 1001 }, () => ({})) }] },
    { flags: [], segments: [{ key: 'a', keys: Array.from({ length: 300_000 }, () => 1) }] },
  ]) {
    const answer = await call('PUT', '/flags/import', body);
    t.is(answer.status, 400, answer.text.slice(0, 200));
    t.true(answer.body.details.length <= 20);
  }
});
