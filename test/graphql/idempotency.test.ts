import test from 'ava';
import type { Answer } from '#test/support/client.ts';
import { usePlatform } from '#test/support/platform.ts';
import { type Blog, createBlog } from './blog.ts';

const platform = usePlatform(test, { shared: true });
let blog: Blog;
test.before('a project has tables', async () => {
  blog = await createBlog(platform());
});

const send = (query: string, key: string, headers: Readonly<Record<string, string>> = {}): Promise<Answer> =>
  platform().client.call('POST', '/api/graphql', {
    key: blog.project.key,
    body: { query },
    headers: { 'idempotency-key': key, ...headers },
  });

const insert = (title: string): string => `mutation { insert_posts_one(object: {title: "${title}"}) { id title } }`;
const countOf = async (title: string): Promise<number> =>
  (await blog.ask(`{ posts_aggregate(where: {title: {_eq: "${title}"}}) { aggregate { count } } }`)).body.data
    .posts_aggregate.aggregate.count;
const isReplay = ({ headers }: Answer): boolean => headers.get('idempotent-replayed') === 'true';

test('twenty mutations at once under one key are one, and all have its answer', async (t) => {
  const answers = await Promise.all(Array.from({ length: 20 }, () => send(insert('twenty'), 'twenty')));
  t.deepEqual([...new Set(answers.map(({ status }) => status))], [200]);
  t.is(new Set(answers.map(({ text }) => text)).size, 1);
  t.is(answers.filter(isReplay).length, 19);
  t.is(await countOf('twenty'), 1);
});

test('another mutation under the same key is 422, as GraphQL says it, and not made', async (t) => {
  await send(insert('first'), 'same');
  const other = await send(insert('second'), 'same');
  t.is(other.status, 422);
  t.is(other.body.errors[0].extensions.code, 'idempotency_mismatch');
  t.is(await countOf('second'), 0);
});

test('several fields are made once, and a mutation that fails leaves no key', async (t) => {
  const two =
    'mutation { a: insert_posts_one(object: {title: "two"}) { id } b: insert_posts_one(object: {title: "two"}) { id } }';
  t.is((await send(two, 'two')).text, (await send(two, 'two')).text);
  t.is(await countOf('two'), 2);
  const failing =
    'mutation { a: insert_posts_one(object: {title: "half"}) { id } b: insert_posts_one(object: {title: null}) { id } }';
  t.is((await send(failing, 'half')).body.errors[0].extensions.code, '23502');
  t.is((await send(insert('half'), 'half')).status, 200);
  t.is(await countOf('half'), 1);
});

test('a query needs no key and is asked anew', async (t) => {
  const query = '{ posts(limit: 1) { id } }';
  t.is((await send(query, 'query')).status, 200);
  t.false(isReplay(await send(query, 'query')));
  t.is((await send(insert('query'), 'query')).status, 200);
});

test('the answer is replayed in the media type that is asked for', async (t) => {
  await send(insert('type'), 'type');
  const again = await send(insert('type'), 'type', { accept: 'application/graphql-response+json' });
  t.true(isReplay(again));
  t.regex(again.headers.get('content-type') ?? '', /^application\/graphql-response\+json/);
});

test('a key that is no key is refused before anything is made', async (t) => {
  const refused = await send(insert('no key'), 'a b');
  t.deepEqual([refused.status, refused.body.errors[0].extensions.code], [400, 'validation_failed']);
  t.is(await countOf('no key'), 0);
});
