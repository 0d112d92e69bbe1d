import test from 'ava';
import type { CallOptions, TestProject, TestUser } from '#test/support/client.ts';
import { type AiUpstream, startAiUpstream } from '#test/support/ai-upstream.ts';
import { usePlatform } from '#test/support/platform.ts';

const platform = usePlatform(test, { shared: true });

// The played provider's own number of dimensions.
const dimensions = 8;
const model = 'text-embedding-3-small';

let owner: TestUser;
let project: TestProject;
let upstream: AiUpstream;

const call = (method: string, path: string, body?: unknown, options: CallOptions = {}) =>
  platform().client.call(method, `/projects/${project.id}${path}`, { token: owner.token, body, ...options });

const collectionUrl = (name: string, rest: string): string => `/ai/vectors/collections/${name}${rest}`;

const create = async (name: string, length = dimensions): Promise<void> => {
  const answer = await call('POST', '/ai/vectors/collections', { name, dimensions: length });
  if (answer.status !== 201) throw new Error(answer.text);
};

const upsert = (name: string, documents: unknown, more: Record<string, unknown> = { model }, options?: CallOptions) =>
  call('POST', collectionUrl(name, '/upsert'), { documents, ...more }, options);

const search = (name: string, body: unknown) => call('POST', collectionUrl(name, '/search'), body);

/** JSON as it stands there. */
const sendExact = (rest: string, raw: string) => call('POST', collectionUrl('exact', rest), undefined, { raw });

test.before('a project has a key of a played provider', async () => {
  upstream = await startAiUpstream();
  owner = await platform().client.signUp();
  project = await platform().client.createProject(owner, { plan: 'enterprise' });
  const answer = await call('POST', '/ai/providers', {
    provider: 'openai',
    api_key: 'sk-test-1234567890',
    base_url: upstream.openai,
  });
  if (answer.status >= 300) throw new Error(answer.text);
});
test.after.always('the provider stops', () => upstream?.close());

test.serial('documents are written, found, replaced, and their calls are accounted for', async (t) => {
  await create('whole');
  const written = await upsert('whole', [
    { id: 'a', content: 'apples', metadata: { fruit: true } },
    { content: 'bicycles' },
  ]);
  t.is(written.status, 200, written.text);
  t.like(written.body, { upserted: 2, unchanged: 0 });
  t.is(written.body.ids[0], 'a');
  t.regex(written.body.ids[1], /^[\da-f]{8}-[\da-f]{4}-7/);
  const found = await search('whole', { query: 'apples' });
  t.is(found.status, 200, found.text);
  t.is(found.body.results.length, 2);
  const [first] = found.body.results;
  t.like(first, { id: 'a', content: 'apples', metadata: { fruit: true } });
  t.true(Math.abs(first.similarity - 1) < 1e-6);
  t.deepEqual(Object.keys(first).toSorted(), ['content', 'id', 'metadata', 'similarity']);
  const filtered = await search('whole', { query: 'bicycles', filter: { fruit: true }, limit: 1 });
  t.deepEqual(
    filtered.body.results.map(({ id }: { id: string }) => id),
    ['a'],
  );
  const again = await upsert('whole', [{ id: 'a', content: 'apples', metadata: { fruit: true } }], {});
  t.deepEqual(again.body, { upserted: 0, unchanged: 1, ids: ['a'] });
  const { body } = await call('GET', '/ai/vectors/collections?limit=200');
  t.like(
    body.collections.find(({ name }: { name: string }) => name === 'whole'),
    {
      document_count: 2,
      model: `openai/${model}`,
    },
  );
  const rest = await platform().client.call('GET', '/v1/rest/whole?select=id,content&id=eq.a', { key: project.key });
  t.deepEqual(rest.body, [{ id: 'a', content: 'apples' }]);
});

test.serial('who does not wait gets a job, which can be looked at', async (t) => {
  await create('async');
  const accepted = await upsert(
    'async',
    [{ id: 'a', content: 'apples' }],
    { model },
    { headers: { prefer: 'respond-async' } },
  );
  t.is(accepted.status, 202, accepted.text);
  const location = String(accepted.headers.get('location'));
  const events = await platform().client.call('GET', `${location}/events`, { token: owner.token });
  t.regex(events.text, /succeeded/);
  const { body } = await platform().client.call('GET', location, { token: owner.token });
  t.like(body, { type: 'vectors.upsert', status: 'succeeded', result: { upserted: 1, unchanged: 0, ids: ['a'] } });
});

test.serial('with an Idempotency-Key the documents get their ids once', async (t) => {
  await create('keyed');
  const options = { headers: { 'idempotency-key': 'vectors-once' } };
  const [first, second] = await Promise.all([1, 2].map(() => upsert('keyed', [{ content: 'x' }], { model }, options)));
  t.is(first?.status, 200, first?.text);
  t.deepEqual(second?.body, first?.body);
});

test.serial('a provider that answers nonsense is asked once, and the job has failed', async (t) => {
  await create('nonsense');
  let requested = 0;
  upstream.answerWith(({ kind, text }) => {
    if (kind !== 'embeddings' || text !== 'nonsense') return undefined;
    requested += 1;
    return { vectors: [Array.from({ length: dimensions }, () => 0)] };
  });
  const answer = await upsert('nonsense', [{ id: 'a', content: 'nonsense' }]);
  t.is(answer.status, 502, answer.text);
  t.is(answer.body.code, 'provider_bad_output');
  t.is(requested, 1);
});

test.serial('numbers in metadata stay as they were written, and are found by what they are', async (t) => {
  await create('exact');
  const metadata = '{"big":9007199254740993,"far":1e400,"price":1.10}';
  const written = await sendExact(
    '/upsert',
    `{"model":"${model}","documents":[{"id":"a","content":"x","metadata":${metadata}}]}`,
  );
  t.is(written.status, 200, written.text);
  const found = await sendExact('/search', '{"query":"x","filter":{"big":9007199254740993}}');
  t.regex(found.text, /"big": ?9007199254740993[,}]/);
  t.regex(found.text, /"far": ?10{400}[,}]/);
  t.regex(found.text, /"price": ?1\.10[,}]/);
  t.deepEqual((await sendExact('/search', '{"query":"x","filter":{"big":9007199254740992}}')).body.results, []);
});

test.serial(
  'what does not fit the collection is refused before there is a job, also for who does not wait',
  async (t) => {
    await create('early');
    const options = { headers: { prefer: 'respond-async' } };
    const none = await upsert('early', [{ content: 'x' }], {}, options);
    t.is(none.status, 400, none.text);
    t.deepEqual(none.body.details, [{ path: 'model', message: 'is needed: the collection has no model yet' }]);
    t.is((await upsert('early', [{ content: 'x' }], { model: 'google/gemini-embedding-001' }, options)).status, 409);
    t.is((await upsert('early', [{ content: 'x' }])).status, 200);
    const other = await upsert('early', [{ content: 'x' }], { model: 'openai/text-embedding-3-large' }, options);
    t.is(other.status, 409, other.text);
    t.is(other.body.hint, 'Make another collection for another model.');
  },
);

test.serial('the particulars of what the database refused stand in the message', async (t) => {
  await create('unique');
  const sql = 'create unique index on "unique" (content)';
  t.is((await call('POST', '/db/query', { sql })).status, 200);
  const twins = ['a', 'b'].map((id) => ({ id, content: 'the same' }));
  const answer = await upsert('unique', twins);
  t.is(answer.status, 400, answer.text);
  t.is(answer.body.code, '23505');
  t.regex(answer.body.message, /Key \(content\)=\(the same\) already exists/);
});

test.serial('vectors of another length are 400 dimension_mismatch, in writing and in searching', async (t) => {
  await create('short', 5);
  const answer = await upsert('short', [{ content: 'x' }]);
  t.is(answer.status, 400, answer.text);
  t.is(answer.body.code, 'dimension_mismatch');
  t.regex(answer.body.message, /5 dimensions.* makes 8/);
});

test.serial('another model is 409, an unknown one 404, and none for the first documents 400', async (t) => {
  await create('models');
  t.is((await upsert('models', [{ content: 'x' }], {})).status, 400);
  t.is((await upsert('models', [{ content: 'x' }])).status, 200);
  const other = await upsert('models', [{ content: 'y' }], { model: 'openai/text-embedding-3-large' });
  t.is(other.status, 409, other.text);
  t.is(other.body.code, 'conflict');
  t.is((await upsert('models', [{ content: 'x' }], { model: `openai/${model}` })).status, 200);
  const unconfigured = await upsert('models', [{ content: 'y' }], { model: 'google/gemini-embedding-001' });
  t.is(unconfigured.status, 409, unconfigured.text);
  t.is(unconfigured.body.code, 'provider_not_configured');
});

test.serial('what the plan refuses is 403 and says so', async (t) => {
  const own = await platform().client.createProject(owner, { plan: 'free' });
  const of = (path: string, body: unknown) =>
    platform().client.call('POST', `/projects/${own.id}${path}`, { token: owner.token, body });
  await of('/ai/providers', { provider: 'openai', api_key: 'sk-test-1234567890', base_url: upstream.openai });
  await of('/ai/vectors/collections', { name: 'full', dimensions });
  const zeros = `[${Array.from({ length: dimensions }, () => 0).join(',')}]`;
  const sql = `insert into full_ (id, content, embedding, content_hash) select n, '', '${zeros}', '' from generate_series(1, 10000) n`;
  t.is((await of('/db/query', { sql: sql.replace('full_', '"full"') })).status, 200);
  const answer = await of('/ai/vectors/collections/full/upsert', { documents: [{ content: 'x' }], model });
  t.is(answer.status, 403, answer.text);
  t.is(answer.body.code, 'plan_limit_exceeded');
});

const long = 'x'.repeat(100_001);
const deep = (levels: number): unknown => (levels === 0 ? 1 : { in: deep(levels - 1) });

test.serial('metadata of 64 KB are written', async (t) => {
  await create('roomy');
  const answer = await upsert('roomy', [{ content: 'x', metadata: { a: 'x'.repeat(65_528) } }]);
  t.is(answer.status, 200, answer.text);
});

for (const [what, body] of Object.entries({
  'no documents': { model },
  'an empty list': { documents: [], model },
  '1,001 documents': { documents: Array.from({ length: 1001 }, () => ({ content: 'x' })), model },
  'documents that are no list': { documents: { content: 'x' }, model },
  'no content': { documents: [{ id: 'a' }], model },
  'empty content': { documents: [{ content: '' }], model },
  'content that is no text': { documents: [{ content: 7 }], model },
  'content with NUL': { documents: [{ content: 'a\0b' }], model },
  'half a character': { documents: [{ content: '\ud800' }], model },
  'too long a content': { documents: [{ content: long }], model },
  'an empty id': { documents: [{ id: '', content: 'x' }], model },
  'an id that is a number': { documents: [{ id: 1, content: 'x' }], model },
  'too long an id': { documents: [{ id: 'x'.repeat(513), content: 'x' }], model },
  'the same id twice': {
    documents: [
      { id: 'a', content: 'x' },
      { id: 'a', content: 'y' },
    ],
    model,
  },
  'metadata that are a list': { documents: [{ content: 'x', metadata: [1] }], model },
  'metadata that are text': { documents: [{ content: 'x', metadata: 'x' }], model },
  'metadata with NUL in a name': { documents: [{ content: 'x', metadata: { 'a\0': 1 } }], model },
  'metadata with NUL in a list': { documents: [{ content: 'x', metadata: { a: [['\0']] } }], model },
  'metadata that are too deep': { documents: [{ content: 'x', metadata: deep(101) }], model },
  'metadata of more than 64 KB': { documents: [{ content: 'x', metadata: { a: 'x'.repeat(65_529) } }], model },
  'an embedding of its own': { documents: [{ content: 'x', embedding: [1] }], model },
  'an unknown field': { documents: [{ content: 'x' }], model, provider: 'openai' },
  'a model that is no text': { documents: [{ content: 'x' }], model: 7 },
})) {
  test.serial(`an upsert with ${what} is 400`, async (t) => {
    const answer = await call('POST', collectionUrl('whole', '/upsert'), body);
    t.is(answer.status, 400, answer.text);
    t.is(answer.body.code, 'validation_failed');
  });
}

for (const [what, body] of Object.entries({
  'no query': {},
  'an empty query': { query: '' },
  'a query with NUL': { query: '\0' },
  'a query that is a list': { query: ['x'] },
  'limit 0': { query: 'x', limit: 0 },
  'limit 201': { query: 'x', limit: 201 },
  'limit 1.5': { query: 'x', limit: 1.5 },
  'limit as text': { query: 'x', limit: '10' },
  'a filter that is a list': { query: 'x', filter: [] },
  'a filter that is text': { query: 'x', filter: 'a=1' },
  'a filter with NUL': { query: 'x', filter: { a: '\0' } },
  'an unknown field': { query: 'x', model },
})) {
  test.serial(`a search with ${what} is 400`, async (t) => {
    const answer = await search('whole', body);
    t.is(answer.status, 400, answer.text);
    t.is(answer.body.code, 'validation_failed');
  });
}

test.serial('an unknown collection is 404 at once, also for who does not wait', async (t) => {
  const options = { headers: { prefer: 'respond-async' } };
  t.is((await upsert('nowhere', [{ content: 'x' }], { model }, options)).status, 404);
  t.is((await search('nowhere', { query: 'x' })).status, 404);
  t.is((await call('DELETE', collectionUrl('nowhere', '/documents/1'))).status, 404);
});
