import test from 'ava';
import { GraphQLError, getIntrospectionQuery, getNamedType } from 'graphql';
import { chooseOperation } from '#domain/data-api/graphql/document.ts';
import { type Graph, createGraphs } from '#domain/data-api/graphql/schema.ts';
import type { Column, DataSchema, Relationship, Table } from '#domain/data-api/schema/schema.ts';

const column = (name: string): Column => ({
  name,
  type: 'integer',
  baseType: 'int4',
  nullable: true,
  default: null,
  generated: false,
  comment: null,
  enumValues: null,
});

interface Wanted {
  readonly columns?: number;
  readonly relationships?: readonly Relationship[];
}

/** Tables that record whose columns were read. */
const createScene = (tables: Readonly<Record<string, Wanted>>) => {
  const read = new Set<string>();
  const tableOf = (name: string, { columns = 2, relationships = [] }: Wanted): Table => ({
    name,
    sql: `public.${name}`,
    kind: 'table',
    comment: null,
    rowSecurity: true,
    hasPlainColumns: true,
    get columns() {
      read.add(name);
      return new Map(Array.from({ length: columns }, (_, n) => [`c${n}`, column(`c${n}`)]));
    },
    primaryKey: ['c0'],
    uniques: [['c0']],
    relationships,
    insertable: true,
    updatable: true,
  });
  const schema: DataSchema = {
    name: 'public',
    version: '1',
    tables: new Map(Object.entries(tables).map(([name, wanted]) => [name, tableOf(name, wanted)])),
    routines: new Map(),
    baseTypes: new Set(['int4']),
    bytes: 0,
  };
  return { graph: createGraphs()('project', schema), schema, read };
};

const to = (target: string): Relationship => ({
  constraint: `to_${target}`,
  kind: 'many-to-one',
  holdsKey: true,
  columns: [`${target}_id`],
  target,
  targetColumns: ['c0'],
  junction: null,
});

const codesOf = (graph: Graph, text: string): unknown[] =>
  (graph.read(text).errors ?? []).map(({ extensions }) => extensions['code']);

const introspectionCode = (graph: Graph, visible: ReadonlySet<string> | null): unknown => {
  const { document } = graph.read(getIntrospectionQuery());
  if (!document) return 'not read';
  const operation = chooseOperation(document, null);
  try {
    const { parts } = graph.compile(operation, {});
    const selected = parts.flatMap((part) => (part.kind === 'introspection' ? [part.selected] : []));
    graph.introspect(operation, { selected, variables: {} }, visible);
    return null;
  } catch (error) {
    return error instanceof GraphQLError ? error.extensions['code'] : error;
  }
};

const many = (count: number, wanted: Wanted = {}): Readonly<Record<string, Wanted>> =>
  Object.fromEntries(Array.from({ length: count }, (_, n) => [`t${n}`, wanted]));

test('a document reads no other tables than those it is about', (t) => {
  const { graph, read } = createScene({ ...many(1000), posts: { relationships: [to('authors')] }, authors: {} });
  t.deepEqual(codesOf(graph, '{ posts(where: {c0: {_eq: 1}}, order_by: {c1: asc}) { c0 authors { c1 } } }'), []);
  t.deepEqual([...read].toSorted(), ['authors', 'posts']);
});

test('types are found by the names that variables and fragments give them', (t) => {
  const { graph } = createScene({ posts: { relationships: [to('authors')] }, authors: {} });
  const types = [
    ['posts_bool_exp', '{ posts(where: $x) { c0 } }'],
    ['[posts_order_by!]', '{ posts(order_by: $x) { c0 } }'],
    ['[posts_select_column!]', '{ posts(distinct_on: $x) { c0 } }'],
    ['Int_comparison_exp', '{ posts(where: {c0: $x}) { c0 } }'],
    ['Int!', '{ posts_by_pk(c0: $x) { c0 } }'],
    ['order_by', '{ posts(order_by: {c0: $x}) { c0 } }'],
  ] as const;
  for (const [type, query] of types) t.deepEqual(codesOf(graph, `query ($x: ${type}) ${query}`), [], type);
  const written = [
    ['[posts_insert_input!]!', '{ insert_posts(objects: $x) { affected_rows } }'],
    ['posts_on_conflict', '{ insert_posts_one(object: {c0: 1}, on_conflict: $x) { c0 } }'],
    ['posts_constraint!', '{ insert_posts_one(object: {c0: 1}, on_conflict: {constraint: $x}) { c0 } }'],
    [
      '[posts_update_column!]',
      '{ insert_posts_one(object: {}, on_conflict: {constraint: posts_pkey, update_columns: $x}) { c0 } }',
    ],
    ['authors_obj_rel_insert_input', '{ insert_posts_one(object: {authors: $x}) { c0 } }'],
    ['posts_set_input', '{ update_posts(where: {}, _set: $x) { affected_rows } }'],
    ['posts_inc_input', '{ update_posts(where: {}, _inc: $x) { affected_rows } }'],
    ['posts_pk_columns_input!', '{ update_posts_by_pk(pk_columns: $x, _set: {c1: 1}) { c0 } }'],
  ] as const;
  for (const [type, mutation] of written) t.deepEqual(codesOf(graph, `mutation ($x: ${type}) ${mutation}`), [], type);
  const fragments = [
    ['posts', '{ posts { ...f } }', '{ c0 }'],
    ['query_root', '{ ...f }', '{ posts { c0 } }'],
    ['posts_aggregate', '{ posts_aggregate { ...f } }', '{ nodes { c0 } }'],
    ['posts_aggregate_fields', '{ posts_aggregate { aggregate { ...f } } }', '{ count }'],
    ['posts_sum_fields', '{ posts_aggregate { aggregate { sum { ...f } } } }', '{ c0 }'],
    ['posts_max_fields', '{ posts_aggregate { aggregate { max { ...f } } } }', '{ c0 }'],
  ] as const;
  for (const [type, query, set] of fragments)
    t.deepEqual(codesOf(graph, `${query} fragment f on ${type} ${set}`), [], type);
  t.deepEqual(
    codesOf(
      graph,
      'mutation { delete_posts(where: {}) { ...f } } fragment f on posts_mutation_response { affected_rows }',
    ),
    [],
  );
});

test('a type that no table has is unknown', (t) => {
  const { graph } = createScene({ posts: {} });
  for (const type of ['uuid', 'uuid_comparison_exp', 'others_bool_exp', 'posts_by_pk', 'posts_x']) {
    const { errors = [] } = graph.read(`query ($x: ${type}) { posts { c0 } }`);
    t.true(
      errors.some(({ message }) => message.startsWith('Unknown type')),
      type,
    );
  }
});

test('one type of a table is the same for all documents', (t) => {
  const { graph } = createScene({ posts: {} });
  const typeIn = (text: string) => {
    const { document } = graph.read(text);
    return document && getNamedType(graph.schemaOf(document).getType('posts'));
  };
  const first = typeIn('{ posts { c0 ...f } } fragment f on posts { c1 }');
  t.truthy(first);
  t.is(typeIn('{ posts { c1 ...f } } fragment f on posts { c1 }'), first);
});

const about = (count: number): string => `{ ${Array.from({ length: count }, (_, n) => `t${n} { c0 }`).join(' ')} }`;

test('a document about tables with more than 10,000 columns is refused, and others are answered', (t) => {
  const { graph } = createScene(many(10, { columns: 1600 }));
  for (let again = 0; again < 5; again += 1) t.deepEqual(codesOf(graph, about(10)), ['query_too_costly']);
  t.deepEqual(codesOf(graph, about(2)), []);
});

test('more than 5,000 columns are not described, unless fewer of them are visible', (t) => {
  const { graph, read } = createScene(many(100, { columns: 1600 }));
  t.is(introspectionCode(graph, null), 'query_too_costly');
  t.true(read.size < 10, `${read.size} tables were read`);
  t.is(introspectionCode(graph, new Set(['t1'])), null);
});

const messageOf = (columns: number): string => {
  const { graph } = createScene({ t: { columns } });
  return graph.read('{ t { cc1 } }').errors?.[0]?.message ?? '';
};

test('near names are suggested, but for tables with thousands of columns', (t) => {
  t.regex(messageOf(10), /Did you mean/);
  t.notRegex(messageOf(1600), /Did you mean/);
});

test('columns of related tables do not count', (t) => {
  const relationships = Array.from({ length: 400 }, (_, n) => to(`t${n}`));
  const { graph } = createScene({ ...many(400, { columns: 30 }), hub: { relationships } });
  t.deepEqual(codesOf(graph, '{ hub { c0 } }'), []);
});

test('thousands of tables without columns are not described', (t) => {
  const { graph } = createScene(many(600, { columns: 1 }));
  t.is(introspectionCode(graph, null), 'query_too_costly');
});

test('roles that see other tables get other descriptions, whatever the names', (t) => {
  const { graph } = createScene({ posts: {}, secrets: {}, 'posts secrets': {}, '*': {} });
  const seen = (...names: string[]): string => {
    const { document } = graph.read('{ __schema { types { name } } }');
    if (!document) throw new Error('the document was not read');
    const operation = chooseOperation(document, null);
    const selected = graph
      .compile(operation, {})
      .parts.flatMap((part) => (part.kind === 'introspection' ? [part.selected] : []));
    return graph.introspect(operation, { selected, variables: {} }, new Set(names)).get('__schema') ?? '';
  };
  t.regex(seen('posts', 'secrets'), /"secrets"/);
  t.notRegex(seen('posts secrets'), /"(posts|secrets)"/);
  t.notRegex(seen('*'), /"(posts|secrets)"/);
});

test('a graph that has grown too large begins anew, and takes its place from others', (t) => {
  const { graph, schema } = createScene(many(10, { columns: 100 }));
  t.is(graph.size(), 0);
  const graphs = createGraphs({ columns: 1000, ofGraph: 300 });
  const first = graphs('first', schema);
  first.read('{ t0 { c0 } }');
  t.is(graphs('first', schema), first);
  for (let n = 1; n < 4; n += 1) first.read(`{ t${n} { c0 } }`);
  const second = graphs('first', schema);
  t.not(second, first);
  second.read('{ t0 { c0 } t1 { c0 } }');
  let last = second;
  for (let n = 0; n < 20; n += 1) {
    last = graphs(`other ${n}`, schema);
    last.read('{ t0 { c0 } }');
    t.is(graphs(`other ${n}`, schema), last);
  }
  t.not(graphs('first', schema), second);
});

test('a table has 500 relations at most', (t) => {
  const relationships = Array.from({ length: 600 }, (_, n) => to(`t${n}`));
  const { graph } = createScene({ ...many(600), hub: { relationships } });
  t.deepEqual(codesOf(graph, '{ hub { t499 { c0 } } }'), []);
  t.deepEqual(codesOf(graph, '{ hub { t500 { c0 } } }'), ['validation_failed']);
});
