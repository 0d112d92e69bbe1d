import test from 'ava';
import { usePlatform } from '#test/support/platform.ts';

const platform = usePlatform(test, { shared: true });

const swiss = [{ attribute: 'country', operator: 'eq', values: ['CH'] }];

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
  await call('POST', '/segments', { key: 'swiss', conditions: swiss });
  await call('POST', '/segments', { key: 'listed', keys: ['ada', 'bob'] });
  return { call };
};

test('a segment says which flags name it, in every environment, archived ones too', async (t) => {
  const { call } = await scene();
  const targeting = { targeting_rules: [{ segment: 'swiss' }, { segment: 'swiss', rollout: { percent: 5 } }] };
  await call('POST', '/flags', { key: 'a', ...targeting });
  await call('POST', '/flags', { key: 'b', environment: 'staging', ...targeting });
  await call('POST', '/flags/a/archive');
  const one = await call('GET', '/segments/swiss');
  t.deepEqual(one.body.used_by, [
    { key: 'a', environment: 'production' },
    { key: 'b', environment: 'staging' },
  ]);
  t.deepEqual((await call('GET', '/segments/listed')).body.used_by, []);
  const { segments } = (await call('GET', '/segments')).body;
  t.deepEqual(
    segments.map(({ key, flags }: { key: string; flags: number }) => [key, flags]),
    [
      ['listed', 0],
      ['swiss', 2],
    ],
  );
  t.is((await call('DELETE', '/segments/swiss')).status, 409);
});

test('a context belongs to a segment or not, and the check that failed is named', async (t) => {
  const { call } = await scene();
  const tried = async (key: string, context: object, conditions?: unknown) =>
    (await call('POST', `/segments/${key}/evaluate`, { context, ...(conditions !== undefined && { conditions }) }))
      .body;
  t.deepEqual(await tried('swiss', { country: 'CH' }), { belongs: true, failed: null });
  t.deepEqual(await tried('swiss', {}), { belongs: false, failed: { attribute: 'country', operator: 'eq' } });
  t.deepEqual(await tried('listed', { targetingKey: 'bob' }), { belongs: true, failed: null });
  t.deepEqual(await tried('listed', { targetingKey: 'eve' }), {
    belongs: false,
    failed: { attribute: 'targetingKey', operator: 'in' },
  });
  const adults = [{ attribute: 'age', operator: 'gte', values: [18] }];
  t.deepEqual(await tried('swiss', { age: 20 }, adults), { belongs: true, failed: null });
  t.deepEqual(await tried('listed', { age: 2 }, adults), {
    belongs: false,
    failed: { attribute: 'age', operator: 'gte' },
  });
  t.deepEqual((await call('GET', '/segments/swiss')).body.conditions, swiss, 'nothing was saved');
  const wrong = [{ attribute: 'a', operator: 'matches', values: ['('] }];
  const refused = await call('POST', '/segments/swiss/evaluate', { context: {}, conditions: wrong });
  t.is(refused.status, 400);
  t.is(refused.body.details[0].path, 'conditions.0.values');
  t.is((await call('POST', '/segments/none/evaluate', { context: {}, conditions: adults })).status, 404);
});

test('a change of a segment is in the next evaluation', async (t) => {
  const { call } = await scene();
  const belongs = async () =>
    (await call('POST', '/segments/swiss/evaluate', { context: { country: 'DE' } })).body.belongs;
  t.false(await belongs());
  await call('PATCH', '/segments/swiss', {
    conditions: [{ attribute: 'country', operator: 'in', values: ['CH', 'DE'] }],
  });
  t.true(await belongs());
});

test('a change that is meant for another version is refused, and overwrites nothing', async (t) => {
  const { call } = await scene();
  const { version } = (await call('GET', '/segments/swiss')).body;
  const theirs = await call('PATCH', '/segments/swiss', { name: 'theirs' }, { 'if-match': `"${version}"` });
  t.is(theirs.status, 200, theirs.text);
  t.true(theirs.body.version > version);
  const mine = await call('PATCH', '/segments/swiss', { name: 'mine' }, { 'if-match': `"${version}"` });
  t.is(mine.body.code, 'precondition_failed');
  t.is((await call('GET', '/segments/swiss')).body.name, 'theirs');
  t.is((await call('DELETE', '/segments/swiss', undefined, { 'if-match': `"${version}"` })).status, 412);
  const etag = (await call('GET', '/segments/swiss')).headers.get('etag') ?? '';
  t.is((await call('DELETE', '/segments/swiss', undefined, { 'if-match': etag })).status, 204);
});
