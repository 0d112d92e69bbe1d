import test from 'ava';
import { asAdmin } from '#test/support/databases.ts';
import { addMember } from '#test/support/members.ts';
import { usePlatform } from '#test/support/platform.ts';
import type { TestProject, TestUser } from '#test/support/client.ts';

const platform = usePlatform(test);

interface Scene {
  readonly owner: TestUser;
  readonly project: TestProject;
}
let scene: Scene;

const newProject = async (fields: Record<string, unknown> = { plan: 'enterprise' }): Promise<Scene> => {
  const owner = await platform().client.signUp();
  return { owner, project: await platform().client.createProject(owner, fields) };
};

const call = (method: string, path: string, body?: unknown, { owner, project }: Scene = scene) =>
  platform().client.call(method, `/projects/${project.id}${path}`, { token: owner.token, body });

const vectors = (method: string, path: string, body?: unknown, of?: Scene) =>
  call(method, `/ai/vectors${path}`, body, of);

const create = (name: string, dimensions = 3, of?: Scene) => vectors('POST', '/collections', { name, dimensions }, of);

const sql = async (text: string, of?: Scene): Promise<unknown[]> => {
  const answer = await call('POST', '/db/query', { sql: text }, of);
  if (answer.status !== 200) throw new Error(`${text} answered ${answer.status}: ${answer.text}`);
  return answer.body.rows;
};

const listed = async (name: string) => {
  const { body } = await vectors('GET', '/collections?limit=200');
  return body.collections.find((one: { name: string }) => one.name === name);
};

test.before('a project is made', async () => {
  scene = await newProject();
});

test.serial('setup enables vectors, again changes nothing, and many at once do', async (t) => {
  const own = await newProject();
  const answers = await Promise.all(Array.from({ length: 5 }, () => vectors('POST', '/setup', undefined, own)));
  for (const { status, body, text } of answers) {
    t.is(status, 200, text);
    t.deepEqual(Object.keys(body), ['enabled', 'version']);
    t.true(body.enabled);
    t.regex(body.version, /^\d+\.\d+/);
  }
  t.deepEqual(await sql(`select '[1,2,3]'::vector <=> '[1,2,3]' as distance`, own), [{ distance: 0 }]);
});

test.serial('a type of the project’s own stands in the way of setup: 409', async (t) => {
  const own = await newProject();
  await sql('create type vector as (x int)', own);
  const answer = await vectors('POST', '/setup', undefined, own);
  t.is(answer.status, 409, answer.text);
  t.is(answer.body.code, 'conflict');
  t.is((await create('documents', 3, own)).status, 409);
});

test.serial(
  'a collection is a closed table with an index of its vectors, and creating one enables vectors',
  async (t) => {
    const answer = await create('first');
    t.is(answer.status, 201, answer.text);
    const { created_at: createdAt, ...entry } = answer.body;
    t.deepEqual(entry, { name: 'first', dimensions: 3, document_count: 0, index: 'hnsw', model: null });
    t.regex(createdAt, /^\d{4}-.*\.\d{3}Z$/);
    t.deepEqual(await listed('first'), answer.body);
    const [table] =
      await sql(`select relrowsecurity, array(select amname::text from pg_index i join pg_class x on x.oid = i.indexrelid
    join pg_am m on m.oid = x.relam where i.indrelid = c.oid order by 1) as indexes from pg_class c where oid = 'public.first'::regclass`);
    t.deepEqual(table, { relrowsecurity: true, indexes: ['btree', 'gin', 'hnsw'] });
    const anon = await platform().client.call('GET', `/v1/rest/first`, { key: scene.project.publishableKey });
    t.is(anon.status, 200, anon.text);
    t.deepEqual(anon.body, []);
  },
);

for (const [dimensions, type, index, warns] of [
  [1, 'vector(1)', 'hnsw', false],
  [2000, 'vector(2000)', 'hnsw', false],
  [2001, 'halfvec(2001)', 'hnsw', false],
  [4000, 'halfvec(4000)', 'hnsw', false],
  [4001, 'vector(4001)', 'none', true],
  [16_000, 'vector(16000)', 'none', true],
] as const) {
  test.serial(`${dimensions} dimensions are kept as ${type}, index ${index}`, async (t) => {
    const name = `dims_${dimensions}`;
    const answer = await create(name, dimensions);
    t.is(answer.status, 201, answer.text);
    t.is(answer.body.index, index);
    t.is(answer.body.dimensions, dimensions);
    t.is(typeof answer.body.warning, warns ? 'string' : 'undefined');
    const [column] = await sql(`select format_type(atttypid, atttypmod) as type from pg_attribute
      where attrelid = 'public.${name}'::regclass and attname = 'embedding'`);
    t.deepEqual(column, { type });
  });
}

test.serial('a collection may have the name of a keyword', async (t) => {
  t.is((await create('select')).status, 201);
  t.is((await vectors('DELETE', '/collections/select')).status, 204);
});

test.serial('more than 16,000 dimensions are 422', async (t) => {
  const answer = await create('too_long', 16_001);
  t.is(answer.status, 422, answer.text);
  t.is(answer.body.code, 'too_many_dimensions');
});

for (const [what, body] of Object.entries({
  'no name': { dimensions: 3 },
  'an empty name': { name: '', dimensions: 3 },
  'a capital letter': { name: 'Docs', dimensions: 3 },
  'a leading digit': { name: '1docs', dimensions: 3 },
  'a prefix of the server’s own': { name: 'pg_docs', dimensions: 3 },
  'a quote': { name: 'a"b', dimensions: 3 },
  'a line break at the end': { name: 'docs\n', dimensions: 3 },
  '42 characters': { name: 'a'.repeat(42), dimensions: 3 },
  'a name that is no text': { name: 7, dimensions: 3 },
  'no dimensions': { name: 'docs' },
  '0 dimensions': { name: 'docs', dimensions: 0 },
  'negative dimensions': { name: 'docs', dimensions: -3 },
  'half a dimension': { name: 'docs', dimensions: 1.5 },
  'dimensions as text': { name: 'docs', dimensions: '3' },
  'an unknown field': { name: 'docs', dimensions: 3, metric: 'l2' },
  'an array': [],
})) {
  test.serial(`a collection with ${what} is 400`, async (t) => {
    const answer = await vectors('POST', '/collections', body);
    t.is(answer.status, 400, answer.text);
    t.is(answer.body.code, 'validation_failed');
  });
}

test.serial('a name that is taken is 409, by a collection, a table or a view', async (t) => {
  await create('taken');
  await sql('create table taken_table ()');
  await sql('create view taken_view as select 1 as one');
  for (const name of ['taken', 'taken_table', 'taken_view']) {
    const answer = await create(name);
    t.is(answer.status, 409, answer.text);
    t.is(answer.body.code, 'conflict');
  }
  t.is(await listed('taken_table'), undefined);
});

test.serial('of many who create the same collection one does', async (t) => {
  const answers = await Promise.all(Array.from({ length: 5 }, () => create('raced')));
  const statuses = answers.map(({ status }) => status);
  t.deepEqual(
    statuses.toSorted((a, b) => a - b),
    [201, 409, 409, 409, 409],
  );
});

test.serial('with an Idempotency-Key the same request answers again what it answered', async (t) => {
  const options = {
    token: scene.owner.token,
    headers: { 'idempotency-key': 'once' },
    body: { name: 'keyed', dimensions: 3 },
  };
  const ask = () => platform().client.call('POST', `/projects/${scene.project.id}/ai/vectors/collections`, options);
  const [first, second] = [await ask(), await ask()];
  t.is(first.status, 201, first.text);
  t.is(second.status, 201, second.text);
  t.is(second.headers.get('idempotent-replayed'), 'true');
  t.deepEqual(second.body, first.body);
});

test.serial('the list is by name, in pages, with the documents counted', async (t) => {
  const own = await newProject();
  for (const name of ['b', 'c', 'a']) await create(name, 3, own);
  await sql(
    `insert into b (id, content, embedding, content_hash) select n, 'x', '[1,2,3]', '' from generate_series(1, 7) n`,
    own,
  );
  await sql(`delete from b where id in ('1', '2')`, own);
  const page = await vectors('GET', '/collections?limit=2&offset=1', undefined, own);
  t.is(page.status, 200, page.text);
  t.is(page.body.total, 3);
  t.deepEqual(
    page.body.collections.map((one: { name: string; document_count: number }) => [one.name, one.document_count]),
    [
      ['b', 5],
      ['c', 0],
    ],
  );
  t.is((await vectors('GET', '/collections?limit=201', undefined, own)).status, 400);
});

test.serial('what SQL does to the table counts: a new name, a dropped index, a dropped column, a drop', async (t) => {
  for (const name of ['moved', 'plain', 'gutted', 'gone']) await create(name);
  await sql('alter table moved rename to "Moved elsewhere"');
  t.is(await listed('moved'), undefined);
  t.is((await listed('Moved elsewhere')).dimensions, 3);
  await sql('drop index plain_embedding_idx');
  t.is((await listed('plain')).index, 'none');
  await sql('alter table gutted drop column embedding');
  t.is(await listed('gutted'), undefined);
  await sql('drop table gone');
  t.is(await listed('gone'), undefined);
  t.is((await create('gone', 5)).body.dimensions, 5);
  t.is((await vectors('DELETE', '/collections/Moved%20elsewhere')).status, 204);
  const kept = await asAdmin(scene.project.dbName, async (admin) => {
    const { rows } = await admin.query(
      'select from plinth.collections c where not exists (select from pg_class where oid = c.relation)',
    );
    return rows.length;
  });
  t.is(kept, 0, 'dropped tables are remembered');
});

test.serial('a collection is deleted once; a table that is none, or that a view needs, is not', async (t) => {
  await create('to_delete');
  t.is((await vectors('DELETE', '/collections/to_delete')).status, 204);
  t.is((await vectors('DELETE', '/collections/to_delete')).status, 404);
  await sql('create table no_collection ()');
  t.is((await vectors('DELETE', '/collections/no_collection')).status, 404);
  await create('needed');
  await sql('create view needs as select id from needed');
  const answer = await vectors('DELETE', '/collections/needed');
  t.is(answer.status, 409, answer.text);
  t.is((await listed('needed')).name, 'needed');
});

test.serial('collections count as tables of the plan', async (t) => {
  const own = await newProject({ plan: 'free' });
  for (let n = 0; n < 10; n += 1) await sql(`create table t${n} ()`, own);
  const answer = await create('eleventh', 3, own);
  t.is(answer.status, 403, answer.text);
  t.is(answer.body.code, 'plan_limit_exceeded');
  t.deepEqual((await vectors('GET', '/collections', undefined, own)).body, { collections: [], total: 0 });
});

test.serial('another tenant’s collection is not there, and a viewer reads but does not write', async (t) => {
  await create('mine');
  const stranger = await platform().client.signUp();
  const theirs: Scene = { owner: stranger, project: scene.project };
  t.is((await vectors('GET', '/collections', undefined, theirs)).status, 404);
  t.is((await vectors('DELETE', '/collections/mine', undefined, theirs)).status, 404);
  const viewer: Scene = { owner: await addMember(platform(), scene.project.orgId, 'viewer'), project: scene.project };
  t.is((await vectors('GET', '/collections', undefined, viewer)).status, 200);
  t.is((await create('not_mine', 3, viewer)).status, 403);
  t.is((await vectors('POST', '/collections/mine/search', { query: 'x' }, viewer)).status, 403);
});

test.serial('without pgvector on the server vector calls are 501 and everything else works', async (t) => {
  const own = await newProject();
  await asAdmin(own.project.dbName, (admin) =>
    admin.query(`set allow_system_table_mods = on; create or replace view pg_catalog.pg_available_extensions as
      select e.name, e.default_version, x.extversion as installed_version, e.comment
      from pg_available_extensions() e left join pg_extension x on e.name = x.extname where e.name <> 'vector'`),
  );
  for (const [method, path, body] of [
    ['POST', '/setup', undefined],
    ['GET', '/collections', undefined],
    ['POST', '/collections', { name: 'docs', dimensions: 3 }],
    ['DELETE', '/collections/docs', undefined],
    ['POST', '/collections/docs/upsert', { documents: [{ content: 'x' }] }],
    ['POST', '/collections/docs/search', { query: 'x' }],
    ['DELETE', '/collections/docs/documents/1', undefined],
  ] as const) {
    const answer = await vectors(method, path, body, own);
    t.is(answer.status, 501, `${method} ${path}: ${answer.text}`);
    t.is(answer.body.code, 'vector_extension_unavailable');
  }
  t.deepEqual(await sql('select 1 as one', own), [{ one: 1 }]);
});
