import test from 'ava';
import { useBlog } from './blog.ts';

const { blog } = useBlog(test);

const cases: readonly (readonly [title: string, query: string, variables: unknown, data: unknown])[] = [
  [
    'a list is the rows of the table',
    '{ authors(order_by: {id: asc}) { id name } }',
    null,
    {
      authors: [
        { id: 1, name: 'Ada' },
        { id: 2, name: 'Bob' },
        { id: 3, name: 'Cid' },
      ],
    },
  ],
  [
    'limit and offset cut a page',
    '{ authors(order_by: [{id: desc}], limit: 1, offset: 1) { id } }',
    null,
    { authors: [{ id: 2 }] },
  ],
  ['limit 0 is no row', '{ authors(limit: 0) { id } }', null, { authors: [] }],
  ['where takes a column and a value', '{ posts(where: {title: "Two"}) { id } }', null, { posts: [{ id: 2 }] }],
  [
    'where takes a column and a comparison',
    '{ posts(where: {title: {_eq: "Two"}}) { id } }',
    null,
    { posts: [{ id: 2 }] },
  ],
  [
    'where takes a column and a variable',
    'query ($t: String) { posts(where: {title: $t}) { id } }',
    { t: 'Two' },
    { posts: [{ id: 2 }] },
  ],
  [
    'where takes a comparison in a variable',
    'query ($t: String_comparison_exp) { posts(where: {title: $t}) { id } }',
    { t: { _like: 'T%o' } },
    { posts: [{ id: 2 }] },
  ],
  [
    'a whole condition in a variable may hold values',
    'query ($w: posts_bool_exp) { posts(where: $w) { id } }',
    { w: { title: 'Two', _not: { views: { _gt: 5 } } } },
    { posts: [{ id: 2 }] },
  ],
  ['a value of null is a test for it', '{ authors(where: {email: null}) { id } }', null, { authors: [{ id: 3 }] }],
  [
    'a value of null in a variable is, too',
    'query ($w: authors_bool_exp!) { authors(where: $w) { id } }',
    { w: { email: null } },
    { authors: [{ id: 3 }] },
  ],
  [
    '_is_null',
    '{ authors(where: {email: {_is_null: false}}, order_by: {id: asc}) { id } }',
    null,
    { authors: [{ id: 1 }, { id: 2 }] },
  ],
  [
    '_in takes a variable',
    'query ($i: [Int!]) { authors(where: {id: {_in: $i}}, order_by: {id: desc}) { id } }',
    { i: [1, 3] },
    { authors: [{ id: 3 }, { id: 1 }] },
  ],
  [
    '_in of nothing is nothing, _nin of nothing is all',
    '{ a: authors(where: {id: {_in: []}}) { id } b: authors(where: {id: {_nin: []}}, limit: 1, order_by: {id: asc}) { id } }',
    null,
    { a: [], b: [{ id: 1 }] },
  ],
  [
    '_or and _not',
    '{ authors(where: {_or: [{id: 1}, {_not: {email: {_is_null: false}}}]}, order_by: {id: asc}) { id } }',
    null,
    { authors: [{ id: 1 }, { id: 3 }] },
  ],
  [
    'an empty _or is nothing, an empty _and is all',
    '{ a: authors(where: {_or: []}) { id } b: authors(where: {_and: []}, limit: 1) { __typename } }',
    null,
    { a: [], b: [{ __typename: 'authors' }] },
  ],
  [
    'text is searched by pattern',
    '{ a: posts(where: {title: {_ilike: "t%"}}, order_by: {id: asc}) { id } b: posts(where: {title: {_nregex: "^T"}}) { id } }',
    null,
    { a: [{ id: 2 }, { id: 3 }], b: [{ id: 1 }] },
  ],
  [
    'arrays and JSON are searched by what they hold',
    '{ a: posts(where: {tags: {_contains: ["b c"]}}) { id tags } b: posts(where: {meta: {_contains: {k: 1}}}) { id } c: posts(where: {meta: {k: 1}}) { id meta } }',
    null,
    { a: [{ id: 1, tags: ['a', 'b c'] }], b: [{ id: 1 }], c: [{ id: 1, meta: { k: 1 } }] },
  ],
  [
    'a related row can be asked of',
    '{ posts(where: {author: {name: "Bob"}}) { id } authors(where: {posts_by_author_id: {comments: {text: {_eq: "third"}}}}) { id } }',
    null,
    { posts: [{ id: 3 }], authors: [{ id: 2 }] },
  ],
  [
    'rows are ordered by a related row',
    '{ posts(order_by: [{author: {name: desc}}, {id: desc}]) { id } }',
    null,
    { posts: [{ id: 3 }, { id: 2 }, { id: 1 }] },
  ],
  [
    'nulls stand where they are told to',
    '{ posts(order_by: {price: desc_nulls_last}) { id } }',
    null,
    { posts: [{ id: 2 }, { id: 1 }, { id: 3 }] },
  ],
  [
    'distinct_on keeps one row of each',
    '{ posts(distinct_on: [author_id], order_by: [{author_id: asc}, {id: desc}]) { id } }',
    null,
    { posts: [{ id: 2 }, { id: 3 }] },
  ],
  [
    'a row is found by its key',
    '{ authors_by_pk(id: 2) { name mood } }',
    null,
    { authors_by_pk: { name: 'Bob', mood: 'sad' } },
  ],
  ['a key that is not there is null', '{ authors_by_pk(id: 77) { name } }', null, { authors_by_pk: null }],
  ['a key of two columns', '{ pairs_by_pk(a: 1, b: 2) { v } }', null, { pairs_by_pk: { v: 'x' } }],
  [
    'relations are named after the key, the table, or both',
    '{ posts_by_pk(id: 1) { author { name setting: settings { theme } } comments(order_by: {id: desc}) { text } authors { name } } authors_by_pk(id: 1) { posts_by_author_id(order_by: {id: asc}) { id } posts_by_editor { id } authors(order_by: {id: asc}) { mentor { name } } } }',
    null,
    {
      posts_by_pk: {
        author: { name: 'Ada', setting: { theme: 'dark' } },
        comments: [{ text: 'second' }, { text: 'first' }],
        authors: { name: 'Bob' },
      },
      authors_by_pk: {
        posts_by_author_id: [{ id: 1 }, { id: 2 }],
        posts_by_editor: [],
        authors: [{ mentor: { name: 'Ada' } }, { mentor: { name: 'Ada' } }],
      },
    },
  ],
  [
    'aggregates stand beside their nodes',
    '{ posts_aggregate(where: {id: {_lte: 2}}) { __typename aggregate { n: count d: count(columns: [author_id], distinct: true) sum { views __typename } max { title } min { at } } nodes { id } } }',
    null,
    {
      posts_aggregate: {
        __typename: 'posts_aggregate',
        aggregate: {
          n: 2,
          d: 1,
          sum: { views: 9007199254741000, __typename: 'posts_sum_fields' },
          max: { title: 'Two' },
          min: { at: '2026-01-02T03:04:05+00:00' },
        },
        nodes: [{ id: 1 }, { id: 2 }],
      },
    },
  ],
  [
    'aggregates of nothing',
    '{ posts_aggregate(where: {id: 0}) { aggregate { count avg { views } } nodes { id } } }',
    null,
    { posts_aggregate: { aggregate: { count: 0, avg: { views: null } }, nodes: [] } },
  ],
  [
    'aggregates of related rows',
    '{ posts(order_by: {id: asc}) { comments_aggregate { aggregate { count } } } }',
    null,
    {
      posts: [
        { comments_aggregate: { aggregate: { count: 2 } } },
        { comments_aggregate: { aggregate: { count: 0 } } },
        { comments_aggregate: { aggregate: { count: 1 } } },
      ],
    },
  ],
  [
    'fragments, aliases and __typename',
    'query { __typename a: authors_by_pk(id: 1) { ...f ... on authors { key: id } ... { __typename } } } fragment f on authors { id ...g } fragment g on authors { name }',
    null,
    { __typename: 'query_root', a: { id: 1, name: 'Ada', key: 1, __typename: 'authors' } },
  ],
  [
    'what is asked for twice is merged',
    '{ posts_by_pk(id: 1) { author { id } author { name } } posts_by_pk(id: 1) { id } }',
    null,
    { posts_by_pk: { author: { id: 1, name: 'Ada' }, id: 1 } },
  ],
  [
    '@skip and @include',
    'query ($y: Boolean!, $n: Boolean!) { authors_by_pk(id: 1) { id @skip(if: $y) name @include(if: $y) ... @include(if: $n) { email } } posts @skip(if: true) { id } }',
    { y: true, n: false },
    { authors_by_pk: { name: 'Ada' } },
  ],
  [
    'nothing but what was skipped is an empty object',
    'query ($y: Boolean!) { authors_by_pk(id: 1) { id @skip(if: $y) } authors(limit: 1) { id @skip(if: $y) } }',
    { y: true },
    { authors_by_pk: {}, authors: [{}] },
  ],
  [
    'variables have defaults',
    'query ($l: Int = 1, $n: bigint = 9007199254740995) { authors(limit: $l, order_by: {id: asc}) { id } posts(where: {views: {_eq: $n}}) { id } }',
    {},
    { authors: [{ id: 1 }], posts: [{ id: 1 }] },
  ],
  [
    'a column and its quotes pass as text',
    '{ posts(where: {title: {_eq: "\'; drop table posts; --\\"\\\\"}}) { id } }',
    null,
    { posts: [] },
  ],
  [
    'data and introspection are answered together, in order',
    '{ __type(name: "authors") { kind } authors_by_pk(id: 1) { id } }',
    null,
    { __type: { kind: 'OBJECT' }, authors_by_pk: { id: 1 } },
  ],
];

for (const [title, query, variables, data] of cases) {
  test(title, async (t) => {
    const answer = await blog().ask(query, variables);
    t.deepEqual(answer.body, { data });
    t.is(answer.status, 200);
    // Once more, from what is kept of it.
    t.is((await blog().ask(query, variables)).text, answer.text);
  });
}

test('numbers are as exact as in the database, in and out', async (t) => {
  const literal = await blog().ask('{ posts(where: {views: {_eq: 9007199254740995}}) { views price } }');
  t.is(literal.text, '{"data":{"posts":[{"views":9007199254740995,"price":1.10}]}}');
  const raw =
    '{"query":"query ($v: bigint!, $p: [numeric!]) { posts(where: {_or: [{views: $v}, {price: {_in: $p}}]}, order_by: {id: asc}) { id price } }","variables":{"v":9007199254740995,"p":[12345678901234567890.123]}}';
  const variables = await blog().post(raw);
  t.is(
    variables.text.replaceAll(/\s/g, ''),
    '{"data":{"posts":[{"id":1,"price":1.10},{"id":2,"price":12345678901234567890.123}]}}',
  );
  const json = await blog().ask('{ posts_by_pk(id: 3) { meta } }');
  t.true(json.text.includes('9007199254740995'));
});

test('a variable that is null or given changes what a kept statement is', async (t) => {
  const query =
    'query ($l: Int, $w: authors_bool_exp, $o: [authors_order_by!]) { authors(limit: $l, where: $w, order_by: $o) { id } }';
  const ids = async (variables: unknown): Promise<unknown> => (await blog().ask(query, variables)).body.data.authors;
  t.deepEqual(await ids({ l: 1, o: [{ id: 'asc' }] }), [{ id: 1 }]);
  t.deepEqual(await ids({ l: 2, o: [{ id: 'desc' }] }), [{ id: 3 }, { id: 2 }]);
  t.deepEqual(await ids({ w: { id: { _gt: 2 } } }), [{ id: 3 }]);
  t.deepEqual(await ids({ w: { id: { _gt: 1 } }, o: { id: 'asc' } }), [{ id: 2 }, { id: 3 }]);
  t.deepEqual(await ids({ l: null, w: null, o: { id: 'asc' } }), [{ id: 1 }, { id: 2 }, { id: 3 }]);
});

test('operationName chooses among operations', async (t) => {
  const query = 'query A { authors_by_pk(id: 1) { id } } query B { authors_by_pk(id: 2) { id } }';
  const named = await blog().ask(query, null, { operationName: 'B' });
  t.deepEqual(named.body, { data: { authors_by_pk: { id: 2 } } });
  for (const operationName of [undefined, 'C', '']) {
    const { body } = await blog().ask(query, null, { operationName });
    t.is(body.data, undefined);
    t.is(body.errors[0].extensions.code, 'validation_failed');
  }
});
