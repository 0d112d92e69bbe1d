import test from 'ava';
import { Client } from 'pg';
import { wholeBody } from '#domain/data-api/answer-body.ts';
import type { DataDb, TextRow, Sql } from '#domain/data-api/data-api.ts';
import { introspectionOf, schemaOf } from '#domain/data-api/schema/introspect.ts';
import { createGraphql } from '#domain/data-api/graphql/graphql.ts';
import { usePlatform } from '#test/support/platform.ts';
import { tenantLogin } from '#test/support/tenant.ts';
import { createBlog } from './blog.ts';

const platform = usePlatform(test, { shared: true });

interface Counting {
  readonly ask: (query: string, variables?: Readonly<Record<string, unknown>>) => Promise<unknown>;
  /** The statements since the last call. */
  readonly statements: () => Sql[];
}

// A client that the platform does not see: what is counted are our statements, not those that set roles.
let counting: Counting;
let client: Client;

const rowsOf = async (sql: Sql): Promise<readonly TextRow[]> => {
  const { rows } = await client.query<(string | null)[]>({
    text: sql.text,
    values: [...sql.params],
    rowMode: 'array',
    types: { getTypeParser: () => (value: string) => value },
  });
  return rows;
};

test.before('a project has tables', async () => {
  const { project } = await createBlog(platform());
  client = new Client({ ...(await tenantLogin(platform(), project.id, 'owner')) });
  await client.connect();
  const schema = schemaOf(await rowsOf(introspectionOf('public')));
  const seen: Sql[] = [];
  const rows = (sql: Sql): Promise<readonly TextRow[]> => rowsOf((seen.push(sql), sql));
  const one = async (sql: Sql): Promise<TextRow> => (await rows(sql))[0] ?? [];
  const data: DataDb = {
    one: (_caller, _run, sql) => one(sql),
    rows: (_caller, _run, sql) => rows(sql),
    transaction: (_caller, _run, work) => work(one, rows),
  };
  const schemas = { get: () => Promise.resolve(schema), newer: () => Promise.resolve(null), changed: () => undefined };
  const graphql = createGraphql();
  const caller = { projectId: project.id, role: 'service', claims: '{}' } as const;
  counting = {
    ask: async (query, variables = {}) => {
      const { signal } = new AbortController();
      const request = { caller, query, variables, operationName: null, readOnly: false, signal };
      const answer = await graphql(request, { data, schemas });
      return JSON.parse(wholeBody(answer.data ?? 'null'));
    },
    statements: () => seen.splice(0),
  };
});

test.after.always('the client goes', () => client.end());

test.serial('a query with nested relations and several fields is one statement', async (t) => {
  const data = await counting.ask(
    '{ posts(limit: 2, order_by: {id: asc}) { id author { name settings { theme } } comments { text post { id } } comments_aggregate { aggregate { count } } } authors_by_pk(id: 1) { id } n: authors_aggregate { aggregate { count } } __typename }',
  );
  t.like(data, { authors_by_pk: { id: 1 }, n: { aggregate: { count: 3 } }, __typename: 'query_root' });
  t.is(counting.statements().length, 1);
});

test.serial('the same query with other values is the same statement', async (t) => {
  const query =
    'query ($t: String, $o: Int, $i: [bigint!]) { posts(where: {title: $t, id: {_in: $i}}, offset: $o) { id } }';
  t.deepEqual(await counting.ask(query, { t: 'One', o: 0, i: [1] }), { posts: [{ id: 1 }] });
  t.deepEqual(await counting.ask(query, { t: 'Two', o: 0, i: [1, 2, 3] }), { posts: [{ id: 2 }] });
  const [first, second] = counting.statements();
  t.is(first?.text, second?.text);
  t.notDeepEqual(first?.params, second?.params);
});

test.serial('rows of one form are inserted by the same statement, however many', async (t) => {
  const query = 'mutation ($o: [log_insert_input!]!) { insert_log(objects: $o) { affected_rows } }';
  await counting.ask(query, { o: [{ line: 'a' }] });
  await counting.ask(query, { o: [{ line: 'b' }, { line: 'c' }] });
  const [first, second] = counting.statements();
  t.is(first?.text, second?.text);
});

test.serial('introspection and __typename ask the database nothing', async (t) => {
  await counting.ask('{ __typename __schema { queryType { name } } }');
  t.deepEqual(counting.statements(), []);
});
