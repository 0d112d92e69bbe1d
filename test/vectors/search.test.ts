import test from 'ava';
import { fakeGateway, useVectors } from './vector-scene.ts';

const { scene, platform } = useVectors(test);

const idsOf = (found: readonly { readonly id: string }[]): string[] => found.map(({ id }) => id);

test('the nearest come first, with 1 minus the cosine distance', async (t) => {
  await scene().collection('nearest');
  await scene().upsert(fakeGateway(), 'nearest', [
    { id: 'across', content: '0 1 0', metadata: { at: 90 } },
    { id: 'same', content: '2 0 0', metadata: { at: 0 } },
    { id: 'opposite', content: '-1 0 0' },
    { id: 'half', content: '1 1 0' },
  ]);
  const gateway = fakeGateway();
  const found = await scene().search(gateway, 'nearest', '1 0 0');
  t.deepEqual(gateway.requested, [['1 0 0']]);
  t.like(found[0], { id: 'same', content: '2 0 0', similarity: 1, metadata: { text: '{"at": 0}' } });
  t.deepEqual(
    found.map(({ id, similarity }) => [id, Math.round(similarity * 10) / 10]),
    [
      ['same', 1],
      ['half', 0.7],
      ['across', 0],
      ['opposite', -1],
    ],
  );
  t.deepEqual(idsOf(await scene().search(gateway, 'nearest', '1 0 0', { limit: 2 })), ['same', 'half']);
});

test('a collection that nothing was embedded for answers nothing, and no provider is asked', async (t) => {
  await scene().collection('empty');
  const gateway = fakeGateway();
  t.deepEqual(await scene().search(gateway, 'empty', '1 0 0'), []);
  await scene().upsert(fakeGateway(), 'empty', [{ id: 'a', content: '1 0 0' }]);
  await scene().sql('delete from empty');
  t.deepEqual(await scene().search(gateway, 'empty', '1 0 0'), []);
  t.deepEqual(gateway.requested, []);
});

test('a filter is containment, and leaves min(limit, matches), however few and far away they are', async (t) => {
  await scene().collection('rare');
  await scene().upsert(fakeGateway(), 'rare', [{ id: 'first', content: '1 0 0', metadata: { kind: 'first' } }]);
  // 1,000 near the query, and the 12 that fit on the other side of it.
  await scene().sql(`insert into rare (id, content, metadata, embedding, content_hash)
    select n, 'near', '{"kind": "near", "tags": ["a", "b"]}', ('[1,' || random() / 10 || ',' || random() / 10 || ']')::vector, ''
    from generate_series(1, 1000) n`);
  await scene().sql(`insert into rare (id, content, metadata, embedding, content_hash)
    select 'far' || n, 'far', jsonb_build_object('kind', 'far', 'deep', jsonb_build_object('n', n % 3)), ('[-1,' || random() || ',0]')::vector, ''
    from generate_series(1, 12) n`);
  await scene().sql('analyze rare');
  const search = (filter: Record<string, unknown>, limit = 10) =>
    scene().search(fakeGateway(), 'rare', '1 0 0', { filter, limit });
  t.is((await search({ kind: 'far' })).length, 10);
  t.is((await search({ kind: 'far' }, 200)).length, 12);
  t.is((await search({ kind: 'far', deep: { n: 1 } })).length, 4);
  t.is((await search({ tags: ['b'] }, 200)).length, 200);
  t.is((await search({}, 200)).length, 200);
  t.deepEqual(await search({ kind: 'none' }), []);
  t.deepEqual(await search({ kind: ['far'] }), []);
  const similarities = (await search({ kind: 'far' })).map(({ similarity }) => similarity);
  t.deepEqual(
    similarities,
    similarities.toSorted((a, b) => b - a),
  );
});

test('all that fit are found when the index of vectors is the only one, and gives up before', async (t) => {
  const { collection, upsert, sql, search } = scene();
  await collection('stubborn');
  await upsert(fakeGateway(), 'stubborn', [{ id: 'first', content: '-1 0 0', metadata: { kind: 'far' } }]);
  await sql('drop index stubborn_metadata_idx');
  // Filled one by one the index takes longer than built at once.
  await sql('drop index stubborn_embedding_idx');
  await sql(`insert into stubborn (id, content, metadata, embedding, content_hash)
    select n, '', '{"kind": "near"}', ('[1,' || random() || ',' || random() || ']')::vector, '' from generate_series(1, 25000) n`);
  await sql('create index on stubborn using hnsw (embedding vector_cosine_ops) with (m = 4, ef_construction = 8)');
  await sql(`insert into stubborn (id, content, metadata, embedding, content_hash)
    select 'far' || n, '', '{"kind": "far"}', ('[-1,' || random() || ',0]')::vector, '' from generate_series(1, 7) n`);
  // The planner keeps to what it supposes of any filter: few rows.
  await sql('alter table stubborn alter metadata set statistics 0');
  const found = await search(fakeGateway(), 'stubborn', '1 0 0', { filter: { kind: 'far' } });
  t.is(found.length, 8);
});

test('more than 16 MB are refused with a word on the limit, and fewer documents are answered', async (t) => {
  await scene().collection('heavy');
  await scene().upsert(fakeGateway(), 'heavy', [{ id: 'a', content: '1 0 0' }]);
  await scene().sql(`insert into heavy (id, content, metadata, embedding, content_hash)
    select n, repeat('x', 9000000), '{}', ('[1,' || n || ',0]')::vector, '' from generate_series(1, 2) n`);
  const error = await t.throwsAsync(scene().search(fakeGateway(), 'heavy', '1 0 0'), { code: 'validation_failed' });
  t.like(error, { status: 400, details: [{ path: 'limit' }] });
  t.deepEqual(idsOf(await scene().search(fakeGateway(), 'heavy', '1 0 0', { limit: 2 })), ['a', '1']);
  await scene().sql(`update heavy set content = '', metadata = jsonb_build_object('a', content)`);
  await t.throwsAsync(scene().search(fakeGateway(), 'heavy', '1 0 0'), { code: 'validation_failed' });
});

test('a collection that gives its name to another table while the provider is asked is not searched there', async (t) => {
  await scene().collection('swapped');
  await scene().upsert(fakeGateway(), 'swapped', [{ id: 'a', content: '1 0 0' }]);
  const gateway = fakeGateway(async () => {
    await scene().sql('alter table swapped rename to swapped_away');
    await scene().sql('create table swapped (like swapped_away including all)');
  });
  await t.throwsAsync(scene().search(gateway, 'swapped', '1 0 0'), { code: 'conflict' });
});

test('a vector that is zero by SQL comes last, as similar as nothing', async (t) => {
  await scene().collection('zero');
  await scene().upsert(fakeGateway(), 'zero', [{ id: 'a', content: '-1 0 0' }]);
  await scene().sql(`insert into zero (id, content, embedding, content_hash) values ('nothing', '', '[0,0,0]', '')`);
  t.deepEqual(
    (await scene().search(fakeGateway(), 'zero', '1 0 0')).map(({ id, similarity }) => [id, similarity]),
    [
      ['a', -1],
      ['nothing', 0],
    ],
  );
});

test('functions and operators of the project’s own are not asked', async (t) => {
  const own = scene();
  await own.collection('shadowed');
  await own.upsert(fakeGateway(), 'shadowed', [{ id: 'a', content: '1 0 0', metadata: { x: 1 } }]);
  await own.sql(`create function public.set_config(text, text, boolean) returns text language sql return 'trapped'`);
  await own.sql(`create function public.lies(jsonb, jsonb) returns boolean language sql return false`);
  await own.sql(`create operator public.@> (leftarg = jsonb, rightarg = jsonb, function = public.lies)`);
  t.deepEqual(idsOf(await own.search(fakeGateway(), 'shadowed', '1 0 0', { filter: { x: 1 } })), ['a']);
});

test('a query whose vector has another length is dimension_mismatch, one that is zero provider_bad_output', async (t) => {
  await scene().collection('asked');
  await scene().upsert(fakeGateway(), 'asked', [{ id: 'a', content: '1 0 0' }]);
  await t.throwsAsync(scene().search(fakeGateway(), 'asked', '1 0'), { code: 'dimension_mismatch' });
  await t.throwsAsync(scene().search(fakeGateway(), 'asked', '0 0 0'), { code: 'provider_bad_output' });
  await t.throwsAsync(scene().search(fakeGateway(), 'nowhere', '1 0 0'), { code: 'not_found' });
});

test('a document is deleted once, by an id of any letters, and is not found any more', async (t) => {
  await scene().collection('deletions');
  const id = 'a/b "c" ’%20';
  await scene().upsert(fakeGateway(), 'deletions', [
    { id, content: '1 0 0' },
    { id: 'kept', content: '1 0 0' },
  ]);
  const { client } = platform();
  const { owner, project } = scene();
  const remove = (what: string) =>
    client.call('DELETE', `/projects/${project.id}/ai/vectors/collections/deletions/documents/${what}`, {
      token: owner.token,
    });
  t.is((await remove(encodeURIComponent(id))).status, 204);
  t.is((await remove(encodeURIComponent(id))).status, 404);
  t.is((await remove('never-there')).status, 404);
  t.deepEqual(idsOf(await scene().search(fakeGateway(), 'deletions', '1 0 0')), ['kept']);
});
