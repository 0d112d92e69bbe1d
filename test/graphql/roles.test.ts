import test from 'ava';
import { useBlog } from './blog.ts';

const { platform, blog } = useBlog(test);

const publicly = async (query: string) => {
  const key = blog().project.publishableKey;
  return (await platform().client.call('POST', '/api/graphql', { key, body: { query } })).body;
};

test('a publishable key sees what policies let it see', async (t) => {
  t.deepEqual(await publicly('{ members { word } members_aggregate { aggregate { count } } }'), {
    data: { members: [{ word: 'open' }], members_aggregate: { aggregate: { count: 1 } } },
  });
  t.deepEqual((await blog().ask('{ members(order_by: {id: asc}) { word } }')).body, {
    data: { members: [{ word: 'open' }, { word: 'secret' }] },
  });
});

test('a table without row-level security is refused, with how to open it', async (t) => {
  const { data, errors } = await publicly('{ authors { id } }');
  t.is(data, null);
  t.is(errors[0].extensions.code, '42501');
  t.regex(errors[0].extensions.hint, /row level security/);
});

test('a relation into a closed table is refused, too', async (t) => {
  const { errors } = await publicly(
    'mutation { delete_authors(where: {posts_by_author_id: {id: 1}}) { affected_rows } }',
  );
  t.is(errors[0].extensions.code, '42501');
});

test('what no policy lets in is refused, and what none shows is not touched', async (t) => {
  const inserted = await publicly('mutation { insert_members_one(object: {id: 9, word: "x"}) { id } }');
  t.is(inserted.errors[0].extensions.code, '42501');
  const changed = await publicly(
    'mutation { update_members(where: {id: {_is_null: false}}, _set: {word: "x"}) { affected_rows } }',
  );
  t.deepEqual(changed, { data: { update_members: { affected_rows: 0 } } });
});

const named = '{ __schema { types { name } queryType { fields { name } } } posts: __type(name: "posts") { name } }';

test('a publishable key is told of the tables that it may use, a secret key of all', async (t) => {
  const text = JSON.stringify(await publicly(named));
  t.regex(text, /"members_bool_exp"/);
  for (const hidden of ['authors', 'posts_by_pk', 'settings', 'log', 'authors_set_input'])
    t.false(text.includes(`"${hidden}"`), hidden);
  t.regex(text, /"posts":null/);
  const all = JSON.stringify((await blog().ask(named)).body);
  for (const shown of ['members', 'authors', 'posts_by_pk', 'log']) t.true(all.includes(`"${shown}"`), shown);
  // One role's answer is not kept for the other.
  t.is(JSON.stringify(await publicly(named)), text);
});
