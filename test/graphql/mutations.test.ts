import test from 'ava';
import type { Answer } from '#test/support/client.ts';
import { usePlatform } from '#test/support/platform.ts';
import { type Blog, createBlog } from './blog.ts';

// One project for the file: each test has rows of its own.
const platform = usePlatform(test);
let blog: Blog;
test.before('a project has tables', async () => {
  blog = await createBlog(platform());
});

const data = ({ body }: Answer): any => body.data; // oxlint-disable-line typescript/no-explicit-any -- of every shape

test('insert answers how many and which', async (t) => {
  const answer = await blog.ask(
    'mutation ($o: [posts_insert_input!]!) { insert_posts(objects: $o) { __typename affected_rows returning { title views tags meta author { name } } } }',
    {
      o: [
        { title: 'i1', author_id: 1, tags: ['x', 'y, "z"'], meta: { a: [1, null] } },
        { title: 'i2', views: 3 },
      ],
    },
  );
  t.deepEqual(answer.body, {
    data: {
      insert_posts: {
        __typename: 'posts_mutation_response',
        affected_rows: 2,
        returning: [
          { title: 'i1', views: 0, tags: ['x', 'y, "z"'], meta: { a: [1, null] }, author: { name: 'Ada' } },
          { title: 'i2', views: 3, tags: null, meta: null, author: null },
        ],
      },
    },
  });
});

test('columns that are left out get their defaults, those that are null are null', async (t) => {
  const one = await blog.ask('mutation { insert_posts_one(object: {}) { title views body } }');
  t.deepEqual(data(one), { insert_posts_one: { title: 'untitled', views: 0, body: null } });
  const mixed = await blog.ask(
    'mutation { insert_posts(objects: [{title: "d1"}, {body: "b"}, {}]) { returning { title body } } }',
  );
  t.deepEqual(data(mixed).insert_posts.returning, [
    { title: 'd1', body: null },
    { title: 'untitled', body: 'b' },
    { title: 'untitled', body: null },
  ]);
  const nothing = await blog.ask('mutation { insert_posts(objects: []) { affected_rows returning { id } } }');
  t.deepEqual(data(nothing), { insert_posts: { affected_rows: 0, returning: [] } });
  const refused = await blog.ask('mutation { insert_posts_one(object: {title: null}) { id } }');
  t.is(refused.body.errors[0].extensions.code, '23502');
});

test('numbers are written as they stand', async (t) => {
  const raw =
    '{"query":"mutation ($v: bigint, $m: jsonb) { a: insert_posts_one(object: {views: $v, meta: $m}) { views meta } b: insert_posts_one(object: {views: 9007199254740997, price: 0.10, meta: {n: 9007199254740997, l: [true, \\"x\\", null]}}) { views price meta } }","variables":{"v":9007199254740995,"m":{"n":9007199254740995}}}';
  const { text } = await blog.post(raw);
  t.is(
    text,
    '{"data":{"a":{"views":9007199254740995,"meta":{"n": 9007199254740995}},"b":{"views":9007199254740997,"price":0.10,"meta":{"l": [true, "x", null], "n": 9007199254740997}}}}',
  );
});

test('on_conflict leaves the row, or updates what it names where it may', async (t) => {
  const insert = (name: string, conflict: string): Promise<Answer> =>
    blog.ask(
      `mutation { insert_authors_one(object: {name: "${name}", email: "c@x"}, on_conflict: ${conflict}) { name } }`,
    );
  const update = '{constraint: authors_email_key, update_columns: [name]';
  t.deepEqual(data(await insert('first', '{constraint: authors_email_key}')), {
    insert_authors_one: { name: 'first' },
  });
  t.deepEqual(data(await insert('second', '{constraint: authors_email_key}')), { insert_authors_one: null });
  t.deepEqual(data(await insert('third', `${update}}`)), { insert_authors_one: { name: 'third' } });
  t.deepEqual(data(await insert('fourth', `${update}, where: {name: "nobody"}}`)), { insert_authors_one: null });
  const again = await blog.ask('mutation { insert_authors_one(object: {name: "x", email: "c@x"}) { id } }');
  t.is(again.body.errors[0].extensions.code, '23505');
  t.deepEqual(again.body.errors[0].path, ['insert_authors_one']);
  t.is(again.body.data, null);
});

test('update sets and adds, and needs to be told which rows', async (t) => {
  await blog.ask(
    'mutation { insert_posts(objects: [{title: "u", views: 1}, {title: "u", views: 2}]) { affected_rows } }',
  );
  const both = await blog.ask(
    'mutation ($t: String!) { update_posts(where: {title: $t}, _set: {body: "n", price: null}, _inc: {views: 10}) { affected_rows returning { views body } } }',
    { t: 'u' },
  );
  t.is(data(both).update_posts.affected_rows, 2);
  t.deepEqual(data(both).update_posts.returning, [
    { views: 11, body: 'n' },
    { views: 12, body: 'n' },
  ]);
  const key = await blog.ask('mutation { update_posts_by_pk(pk_columns: {id: 2}, _set: {body: "z"}) { id body } }');
  t.deepEqual(data(key), { update_posts_by_pk: { id: 2, body: 'z' } });
  const none = await blog.ask('mutation { update_posts_by_pk(pk_columns: {id: 999999}, _set: {body: "z"}) { id } }');
  t.deepEqual(data(none), { update_posts_by_pk: null });
  for (const args of [
    '_set: {body: "n"}',
    'where: null, _set: {body: "n"}',
    'where: {id: 1}',
    'where: {id: 1}, _set: {}',
  ])
    t.is((await blog.ask(`mutation { update_posts(${args}) { affected_rows } }`)).body.errors.length, 1, args);
});

test('a condition whose value is missing touches nothing', async (t) => {
  const before = await blog.sql('select count(*)::int as n from posts where id <= 3');
  for (const [how, type] of [
    ['{id: {_eq: $i}}', 'bigint'],
    ['{id: $i}', 'bigint'],
    ['{id: {_in: $i}}', '[bigint!]'],
    ['{id: $i}', 'bigint_comparison_exp'],
    ['{_not: $i}', 'posts_bool_exp'],
    ['$i', 'posts_bool_exp'],
  ] as const)
    for (const variables of [{}, { i: null }]) {
      const { body } = await blog.ask(
        `mutation ($i: ${type}) { delete_posts(where: ${how}) { affected_rows } }`,
        variables,
      );
      t.is(body.errors?.length, 1, how);
      t.falsy(body.data);
    }
  t.deepEqual(await blog.sql('select count(*)::int as n from posts where id <= 3'), before);
});

const everything = [
  '{}',
  '{_and: []}',
  '{_and: [{}, {_and: {}}]}',
  '{_or: [{id: 1}, {}]}',
  '{_not: {_or: []}}',
  '{_not: {_not: {}}}',
  '{id: {_nin: []}}',
  '{_not: {id: {_in: []}}}',
];

test('a condition that every row meets is refused, with how to say that all are meant', async (t) => {
  await blog.sql('insert into pairs values (7, 7, 7, null), (7, 8, 7, null)');
  const before = await blog.sql('select * from pairs order by a, b');
  for (const where of everything.map((one) => one.replaceAll('id', 'a')))
    for (const mutation of [`delete_pairs(where: ${where})`, `update_pairs(where: ${where}, _set: {v: "all"})`]) {
      const { body } = await blog.ask(`mutation { ${mutation} { affected_rows } }`);
      t.is(body.data, undefined, mutation);
      t.is(body.errors[0].extensions.code, 'validation_failed', mutation);
      t.regex(body.errors[0].extensions.hint, /where: \{a: \{_is_null: false\}\}/);
    }
  const given = await blog.ask(
    'mutation ($w: pairs_bool_exp!, $l: [Int!]!) { a: delete_pairs(where: $w) { affected_rows } b: delete_pairs(where: {a: {_nin: $l}}) { affected_rows } }',
    { w: { _or: [{ _and: [] }, { a: 1 }] }, l: [] },
  );
  t.is(given.body.errors[0].extensions.code, 'validation_failed');
  t.deepEqual(await blog.sql('select * from pairs order by a, b'), before);
  const all = await blog.ask(
    'mutation { update_pairs(where: {a: {_is_null: false}}, _set: {v: "all"}) { affected_rows } none: delete_pairs(where: {_or: []}) { affected_rows } }',
  );
  t.deepEqual(data(all), { update_pairs: { affected_rows: before.length }, none: { affected_rows: 0 } });
});

test('all rows of a table without a key can be meant, too', async (t) => {
  const { body } = await blog.ask('mutation { delete_log(where: {}) { affected_rows } }');
  t.regex(
    body.errors[0].extensions.hint,
    /where: \{_or: \[\{line: \{_is_null: true\}\}, \{line: \{_is_null: false\}\}\]\}/,
  );
});

test('a change whose answer is too large to be fetched is not made', async (t) => {
  await blog.sql("insert into posts (title, body) select 'large', repeat('x', 1000000) from generate_series(1, 33)");
  const change = (answer: string) =>
    blog.ask(`mutation { update_posts(where: {title: "large"}, _inc: {views: 1}) { ${answer} } }`);
  const { body } = await change('returning { body }');
  t.is(body.data, null);
  t.is(body.errors.length, 1);
  const views = "select distinct views::int as views from posts where title = 'large'";
  t.deepEqual(await blog.sql(views), [{ views: 0 }]);
  t.deepEqual(data(await change('affected_rows')), { update_posts: { affected_rows: 33 } });
  t.deepEqual(await blog.sql(views), [{ views: 1 }]);
});

test('delete answers what it deleted', async (t) => {
  await blog.ask(
    'mutation { insert_posts(objects: [{title: "del", body: "1"}, {title: "del", body: "2"}]) { affected_rows } }',
  );
  const some = await blog.ask(
    'mutation { delete_posts(where: {title: "del", body: "1"}) { affected_rows returning { body comments { id } } } }',
  );
  t.deepEqual(data(some), { delete_posts: { affected_rows: 1, returning: [{ body: '1', comments: [] }] } });
  const inserted = await blog.ask('mutation { insert_posts_one(object: {title: "del2"}) { id } }');
  const { id } = data(inserted).insert_posts_one;
  const one = await blog.ask('mutation ($i: bigint!) { delete_posts_by_pk(id: $i) { title } }', { i: id });
  t.deepEqual(data(one), { delete_posts_by_pk: { title: 'del2' } });
  const missing = await blog.ask('mutation { delete_posts { affected_rows } }');
  t.is(missing.body.data, undefined);
});

test('a row brings with it those that it refers to and those that refer to it', async (t) => {
  const answer = await blog.ask(
    `mutation ($p: posts_insert_input!) { insert_posts_one(object: $p) {
      title author { name mentor { name } settings { theme } } comments(order_by: {id: asc}) { text post_id } } }`,
    {
      p: {
        title: 'nested',
        author: {
          data: {
            name: 'Eve',
            email: 'eve@x',
            mentor: { data: { name: 'Mia' } },
            settings: { data: { theme: 'light' } },
          },
          on_conflict: { constraint: 'authors_email_key', update_columns: ['name'] },
        },
        comments: { data: [{ text: 'n1' }, { text: 'n2' }] },
      },
    },
  );
  const [{ id }] = (await blog.sql("select id::int from posts where title = 'nested'")) as [{ id: number }];
  t.deepEqual(data(answer).insert_posts_one, {
    title: 'nested',
    author: { name: 'Eve', mentor: { name: 'Mia' }, settings: { theme: 'light' } },
    comments: [
      { text: 'n1', post_id: id },
      { text: 'n2', post_id: id },
    ],
  });
  const many = await blog.ask(
    'mutation { insert_posts(objects: [{title: "m1", comments: {data: [{text: "a"}, {text: "b"}]}}, {title: "m2"}]) { affected_rows __typename returning { title comments { text } } } }',
  );
  t.deepEqual(data(many).insert_posts, {
    affected_rows: 4,
    __typename: 'posts_mutation_response',
    returning: [
      { title: 'm1', comments: [{ text: 'a' }, { text: 'b' }] },
      { title: 'm2', comments: [] },
    ],
  });
});

test('the mutations of one request are done in order, all or none', async (t) => {
  const inOrder = await blog.ask(
    'mutation { a: insert_log_one(object: {line: "1"}) { line } __typename b: delete_log(where: {line: "1"}) { affected_rows } }',
  );
  t.deepEqual(data(inOrder), { a: { line: '1' }, __typename: 'mutation_root', b: { affected_rows: 1 } });
  const failing = await blog.ask(
    'mutation { a: insert_log_one(object: {line: "2"}) { line } b: insert_comments_one(object: {post_id: 1, text: "bad"}) { id } }',
  );
  t.is(failing.body.data, null);
  t.deepEqual(failing.body.errors[0].path, ['b']);
  t.is(failing.body.errors[0].extensions.code, '23514');
  const nested = await blog.ask(
    'mutation { insert_posts_one(object: {title: "gone", comments: {data: [{text: "ok"}, {text: "bad"}]}}) { id } }',
  );
  t.is(nested.body.errors[0].extensions.code, '23514');
  t.deepEqual(
    await blog.sql("select line as found from log union all select title from posts where title = 'gone'"),
    [],
  );
});

test('a value that the column refuses is named by its SQLSTATE', async (t) => {
  for (const [object, code] of [
    ['{mood: "angry", name: "x"}', '22P02'],
    ['{name: "a name of more than twenty letters"}', '22001'],
    ['{name: "x", mentor_id: 424242}', '23503'],
    ['{name: "\\u0000"}', '22021'],
  ])
    t.is(
      (await blog.ask(`mutation { insert_authors_one(object: ${object}) { id } }`)).body.errors[0].extensions.code,
      code,
      object,
    );
});
