import test from 'ava';
import { serverAudits } from 'graphql-http';
import { useBlog } from './blog.ts';

const { platform, blog } = useBlog(test);

const ownType = 'application/graphql-response+json';

const fetchFn = (url: string, init: RequestInit = {}): Promise<Response> =>
  fetch(url, { ...init, headers: { ...(init.headers as Record<string, string>), apikey: blog().project.key } });

test('every audit of GraphQL over HTTP passes', async (t) => {
  const audits = serverAudits({ url: `${platform().base}/api/graphql`, fetchFn });
  const results = await Promise.all(audits.map((audit) => audit.fn()));
  t.true(results.length > 50);
  t.deepEqual(
    results.filter(({ status }) => status !== 'ok').map(({ name, status }) => `${name}: ${status}`),
    [],
  );
});

test('all addresses answer, by POST and GET', async (t) => {
  const { key, ref } = blog().project;
  const { call } = platform().client;
  const query = '{ authors_by_pk(id: 1) { id } }';
  for (const path of ['/api/graphql', `/p/${ref}/graphql/v1`, `/p/${ref}/graphql`]) {
    const posted = await call('POST', path, { key, body: { query } });
    const got = await call('GET', `${path}?query=${encodeURIComponent(query)}`, { key });
    t.is(posted.text, '{"data":{"authors_by_pk":{"id":1}}}');
    t.is(got.text, posted.text);
    t.regex(got.headers.get('content-type') ?? '', /^application\/json; charset=utf-8$/);
  }
});

test('GET takes variables and an operation name, and no mutation', async (t) => {
  const { key } = blog().project;
  const { call } = platform().client;
  const search = new URLSearchParams({
    query: 'query A { log { line } } query B($i: Int!) { authors_by_pk(id: $i) { id } }',
    operationName: 'B',
    variables: '{"i":2}',
  });
  const answer = await call('GET', `/api/graphql?${search.toString()}`, { key });
  t.deepEqual(answer.body, { data: { authors_by_pk: { id: 2 } } });
  const mutation = encodeURIComponent('mutation { insert_log_one(object: {line: "by GET"}) { line } }');
  for (const accept of [ownType, 'application/json']) {
    const refused = await call('GET', `/api/graphql?query=${mutation}`, { key, headers: { accept } });
    t.is(refused.status, 405);
    t.is(refused.headers.get('allow'), 'POST');
    t.is(refused.body.errors[0].extensions.code, 'method_not_allowed');
  }
  t.deepEqual(await blog().sql('select * from log'), []);
});

const bodies: readonly (readonly [raw: string, status: number])[] = [
  ['', 400],
  ['{', 400],
  ['[]', 400],
  ['"x"', 400],
  ['null', 400],
  ['{}', 400],
  ['{"query":1}', 400],
  ['{"query":null}', 400],
  ['{"query":"{ log { line } }","variables":[]}', 400],
  ['{"query":"{ log { line } }","variables":12345678901234567890}', 400],
  ['{"query":"{ log { line } }","variables":"{}"}', 400],
  ['{"query":"{ log { line } }","operationName":{}}', 400],
  ['{"query":"{ log { line } }","extensions":1}', 400],
];

for (const [raw, status] of bodies)
  test(`a body that is no request of GraphQL is ${status}: ${raw}`, async (t) => {
    const answer = await blog().post(raw);
    t.is(answer.status, status);
    t.is(answer.body.data, undefined);
    t.is(answer.body.errors[0].extensions.code, 'validation_failed');
  });

test('a body of another kind is 415', async (t) => {
  const { key } = blog().project;
  for (const type of ['text/plain', 'application/json; charset=latin1', 'application/graphql', ''])
    t.is(
      (await platform().client.call('POST', '/api/graphql', { key, raw: '{}', headers: { 'content-type': type } }))
        .status,
      415,
      type,
    );
});

test('what is wrong with a document is 400 only to who asks for GraphQL’s own media type', async (t) => {
  const { key } = blog().project;
  const { call } = platform().client;
  for (const query of ['{', '{ nothing }', 'query ($i: Int!) { authors_by_pk(id: $i) { id } }'])
    for (const [accept, status, type] of [
      [ownType, 400, ownType],
      ['application/json', 200, 'application/json'],
      [`application/json;q=0.5, ${ownType}`, 400, ownType],
      [`application/json, ${ownType};q=0.5`, 200, 'application/json'],
      [`${ownType};q=0`, 200, 'application/json'],
      ['*/*', 200, 'application/json'],
      ['text/html', 200, 'application/json'],
    ] as const) {
      const answer = await call('POST', '/api/graphql', { key, body: { query }, headers: { accept } });
      t.is(answer.status, status, `${accept} ${query}`);
      t.true(answer.headers.get('content-type')?.startsWith(type));
      t.false('data' in answer.body);
      t.truthy(answer.body.errors[0].extensions.code);
    }
});

test('a failure of the database is an answer with data null', async (t) => {
  const { key } = blog().project;
  const answer = await platform().client.call('POST', '/api/graphql', {
    key,
    body: { query: '{ authors(offset: -1) { id } }' },
    headers: { accept: ownType },
  });
  t.is(answer.status, 200);
  t.is(answer.body.data, null);
  t.is(answer.body.errors[0].extensions.code, '2201X');
});

test('without a key there is no answer', async (t) => {
  const { call } = platform().client;
  t.is((await call('POST', '/api/graphql', { body: { query: '{ __typename }' } })).status, 401);
  t.is((await call('GET', '/api/graphql?query={__typename}', { key: 'wrong' })).status, 401);
});
