import test from 'ava';
import { buildClientSchema, getIntrospectionQuery, printSchema, validateSchema } from 'graphql';
import { usePlatform } from '#test/support/platform.ts';
import { asTenant, tenantLogin } from '#test/support/tenant.ts';
import { type Blog, createBlog } from './blog.ts';

const platform = usePlatform(test);
let blog: Blog;
test.before('a project has tables', async () => {
  blog = await createBlog(platform());
});

const printed = async (): Promise<string> => {
  const { body } = await blog.ask(getIntrospectionQuery());
  return printSchema(buildClientSchema(body.data));
};

test('the schema is valid, whatever the tables are', async (t) => {
  const { client } = platform();
  const project = await client.createProject(await client.signUp());
  const login = await tenantLogin(platform(), project.id, 'owner');
  await asTenant(login, (db) =>
    db.query(`
      create table things (id int primary key);
      create table things_aggregate (id int primary key);
      create table "odd columns" ("é" int primary key);
      create table odd_columns ("é" int primary key);
      create table only_generated (id int generated always as identity primary key);
      create table "true" ("true" int, "__x" int, "null" text);
      create view seen as select id, 'x' as word from things;
      insert into things values (1);
    `),
  );
  const ask = (query: string) => client.call('POST', '/api/graphql', { key: project.key, body: { query } });
  const schema = buildClientSchema((await ask(getIntrospectionQuery())).body.data);
  t.deepEqual(validateSchema(schema), []);
  const text = printSchema(schema);
  for (const absent of ['odd', '__x', 'insert_only_generated', 'seen_by_pk']) t.false(text.includes(absent), absent);
  // When two tables would share names, the first has them.
  t.deepEqual((await ask('{ things_aggregate { aggregate { count } } seen { word } true { true null } }')).body, {
    data: { things_aggregate: { aggregate: { count: 1 } }, seen: [{ word: 'x' }], true: [] },
  });
});

test('introspection tells Hasura’s types of every table', async (t) => {
  const text = await printed();
  for (const part of [
    'type posts {',
    'id: bigint!',
    'price: numeric',
    'tags: [String]',
    'author: authors\n',
    'comments(where: comments_bool_exp, order_by: [comments_order_by!], limit: Int, offset: Int, distinct_on: [comments_select_column!]): [comments!]!',
    'comments_aggregate(',
    'posts_by_pk(id: bigint!): posts',
    'pairs_by_pk(a: Int!, b: Int!): pairs',
    'input posts_bool_exp {',
    'title: String_comparison_exp',
    '_has_no_such: ',
    'update_posts(where: posts_bool_exp!, _set: posts_set_input, _inc: posts_inc_input): posts_mutation_response',
    'delete_posts_by_pk(id: bigint!): posts',
    'enum authors_constraint {\n  authors_pkey\n  authors_email_key\n}',
  ])
    t.is(text.includes(part), part !== '_has_no_such: ', part);
});

test('what GraphQL cannot name is left out', async (t) => {
  const text = await printed();
  t.false(text.includes('odd'));
  t.regex(text, /type pairs \{\n {2}a: Int!\n {2}b: Int!\n {2}v: String\n\}/);
});

test('a table without a key is found by no key', async (t) => {
  const text = await printed();
  t.false(text.includes('log_by_pk'));
  t.true(text.includes('delete_log('));
});

test('a change of the schema is seen by the next request that needs it', async (t) => {
  t.truthy((await blog.ask('{ later { id } }')).body.errors);
  await blog.sql('create table later (id int primary key)');
  t.deepEqual((await blog.ask('{ later { id } }')).body, { data: { later: [] } });
  await blog.sql('alter table later rename column id to key');
  t.is((await blog.ask('{ later { id } }')).body.errors[0].extensions.code, 'validation_failed');
  t.deepEqual((await blog.ask('{ later { key } }')).body, { data: { later: [] } });
  await blog.sql('alter table later add column v text');
  t.true((await printed()).includes('later_by_pk(key: Int!)'));
  await blog.sql('drop table later');
  t.is((await blog.ask('{ later { key } }')).body.errors[0].extensions.code, 'validation_failed');
});

test('a project without tables has a schema', async (t) => {
  const { client } = platform();
  const project = await client.createProject(await client.signUp());
  const ask = (query: string) => client.call('POST', '/api/graphql', { key: project.key, body: { query } });
  t.deepEqual((await ask('{ __typename no_tables }')).body, { data: { __typename: 'query_root', no_tables: null } });
  t.deepEqual((await ask('{ __schema { mutationType { name } } }')).body, {
    data: { __schema: { mutationType: null } },
  });
});

test('a project is reached under its own address only', async (t) => {
  const { client } = platform();
  const other = await client.createProject(await client.signUp());
  const body = { query: '{ __typename }' };
  t.is((await client.call('POST', `/p/${other.ref}/graphql/v1`, { key: blog.project.key, body })).status, 401);
});
