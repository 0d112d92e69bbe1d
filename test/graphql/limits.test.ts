import test from 'ava';
import { useBlog } from './blog.ts';

const { blog } = useBlog(test);

const codeOf = async (query: string, variables?: unknown): Promise<unknown> => {
  const { body } = await blog().ask(query, variables);
  return body.errors?.[0].extensions.code ?? null;
};

const nested = (depth: number, inner: string): string =>
  depth === 0 ? inner : `mentor { ${nested(depth - 1, inner)} }`;

test('ten levels of fields are answered, eleven are not', async (t) => {
  t.is(await codeOf(`{ authors_by_pk(id: 1) { ${nested(8, 'id')} } }`), null);
  t.is(await codeOf(`{ authors_by_pk(id: 1) { ${nested(9, 'id')} } }`), 'query_too_deep');
  t.is(
    await codeOf(`{ authors_by_pk(id: 1) { ${nested(8, 'id ...f')} } } fragment f on authors { mentor { id } }`),
    'query_too_deep',
  );
});

test('rows and fields together stay below a thousand', async (t) => {
  t.is(await codeOf('{ posts { id title author { name } comments { text } } }'), null);
  t.is(await codeOf('{ posts(limit: 990) { id } }'), null);
  t.is(await codeOf('{ posts(limit: 1000) { id } }'), 'query_too_costly');
  t.is(await codeOf('query ($l: Int) { posts(limit: $l) { id } }', { l: 1000 }), 'query_too_costly');
  t.is(await codeOf('{ posts(limit: 30) { comments(limit: 40) { id } } }'), 'query_too_costly');
  t.is(await codeOf('{ posts_aggregate { aggregate { count } } }'), null);
  t.is(await codeOf('{ posts_aggregate(limit: 5000) { nodes { id } } }'), 'query_too_costly');
  t.is(await codeOf('mutation { delete_log(where: {line: "none"}) { returning { line } } }'), null);
});

const aliases = (count: number): string => Array.from({ length: count }, (_, n) => `a${n}: line`).join(' ');

test('many aliases of one field are refused', async (t) => {
  t.is(await codeOf(`{ log { ${aliases(500)} } }`), null);
  t.is(await codeOf(`{ log { ${aliases(999)} } }`), 'query_too_costly');
  t.is(await codeOf(`{ log { ${aliases(3000)} } }`), 'query_too_costly');
  t.is(await codeOf(`{ log { ${'line '.repeat(3000)} } }`), 'query_too_costly');
});

test('fragments that multiply are refused', async (t) => {
  const fragments = Array.from({ length: 30 }, (_, n) => `fragment f${n} on log { ...f${n + 1} ...f${n + 1} }`);
  t.is(await codeOf(`{ log { ...f0 } } ${fragments.join(' ')} fragment f30 on log { line }`), 'query_too_costly');
  t.is(await codeOf('{ log { ...a } } fragment a on log { ...b } fragment b on log { ...a }'), 'validation_failed');
});

test('documents and variables that are nested without end are refused', async (t) => {
  t.is(await codeOf(`{ log(where: ${'{_not: '.repeat(5000)}{}${'}'.repeat(5000)}) { line } }`), 'query_too_deep');
  t.is(await codeOf('{a'.repeat(5000)), 'query_too_deep');
  t.is(await codeOf(`{ log(where: {line: {_in: ${'['.repeat(9000)}`), 'query_too_deep');
  t.is(await codeOf(`# ${'x '.repeat(100_000)}\n{ log { line } }`), null);
  t.is(await codeOf(`{ log ${'@include(if: true) '.repeat(20_000)} { line } }`), 'parse_failed');
  const deep = `${'{"_not":'.repeat(20_000)}{}${'}'.repeat(20_000)}`;
  const raw = `{"query":"query ($w: log_bool_exp) { log(where: $w) { line } }","variables":{"w":${deep}}}`;
  const answer = await blog().post(raw);
  t.true(answer.status < 500, String(answer.status));
  t.truthy(answer.body.errors[0].extensions.code);
});

test('a long alias, a negative limit and NUL are refused', async (t) => {
  t.is(await codeOf(`{ log { ${'a'.repeat(63)}: line } }`), null);
  t.is(await codeOf(`{ log { ${'a'.repeat(64)}: line } }`), 'validation_failed');
  t.is(await codeOf('{ log(limit: -1) { line } }'), 'validation_failed');
  t.is(await codeOf('{ log(where: {line: "\\u0000"}) { line } }'), '22021');
  t.is(await codeOf('query ($l: String) { log(where: {line: $l}) { line } }', { l: '\u00000' }), '22021');
  t.is(await codeOf('query ($l: [String!]) { log(where: {line: {_in: $l}}) { line } }', { l: ['a', '\0'] }), '22021');
});

const times = (count: number, write: (index: number) => string): string =>
  Array.from({ length: count }, (_, index) => write(index)).join(' ');

// Each of `count` aliases asks for all fields, each of those for all types behind them, and so on.
const multiplying = (
  count: number,
): string => `{ __schema { types { ${times(count, (n) => `a${n}: fields { ...F }`)} } } }
  fragment F on __Field { ${times(count, (n) => `b${n}: type { ...T }`)} }
  fragment T on __Type { ${times(count, (n) => `c${n}: kind`)} }`;

test('what multiplies is refused of the schema, too', async (t) => {
  t.is(await codeOf(multiplying(2)), null);
  for (const count of [30, 150]) t.is(await codeOf(multiplying(count)), 'query_too_costly');
  t.is(
    await codeOf(`{ ${times(900, (n) => `a${n}: __schema { types { name fields { name args { name } } } }`)} }`),
    'query_too_costly',
  );
});

const lines = (count: number) => Array.from({ length: count }, (_, n) => ({ line: `l${n}` }));

test('a thousand conditions are the most, in the document and in variables', async (t) => {
  const query = 'query ($w: log_bool_exp!) { log(where: $w) { line } }';
  t.is(await codeOf(query, { w: { _or: lines(999) } }), null);
  t.is(await codeOf(query, { w: { _or: lines(1000) } }), 'query_too_costly');
  t.is(await codeOf(query, { w: { _and: Array.from({ length: 5000 }, () => ({})) } }), 'query_too_costly');
  t.is(await codeOf(query, { w: { line: { _in: lines(5000).map(({ line }) => line) } } }), null);
  t.is(await codeOf(`{ log(where: {_or: [${times(1001, () => '{line: "x"}')}]}) { line } }`), 'query_too_costly');
  t.is(await codeOf(`{ log(order_by: [${times(1001, () => '{line: asc}')}]) { line } }`), 'query_too_costly');
});

const authors = (count: number) => `_and: [${times(count, (n) => `{author: {name: {_neq: "n${n}"}}}`)}]`;

test('sixteen conditions on related rows are too many', async (t) => {
  const deep = (count: number): string => (count === 0 ? 'id: 1' : `mentor: {${deep(count - 1)}}`);
  t.is(await codeOf(`{ posts(where: {${authors(15)}}) { id } }`), null);
  t.is(await codeOf(`{ posts(where: {${authors(16)}}) { id } }`), '54001');
  t.is(await codeOf(`{ authors(where: {${deep(16)}}) { id } }`), '54001');
  t.is(await codeOf(`mutation { delete_posts(where: {id: -1, ${authors(16)}}) { affected_rows } }`), '54001');
  t.is(await codeOf(`{ posts_aggregate(where: {${authors(16)}}) { aggregate { count } } }`), '54001');
});

const wrong: readonly (readonly [query: string, variables?: unknown])[] = [
  ['{ nothing { id } }'],
  ['{ log }'],
  ['{ log { nothing } }'],
  ['{ log { line { id } } }'],
  ['{ log(nothing: 1) { line } }'],
  ['{ log(where: {nothing: 1}) { line } }'],
  ['{ log(where: {line: {_nothing: 1}}) { line } }'],
  ['{ log(where: {line: 1}) { line } }'],
  ['{ log(where: "line") { line } }'],
  ['{ log(where: {line: {}}) { line } }'],
  ['{ posts(where: {comments: {text: {}}}) { id } }'],
  ['query ($w: log_bool_exp) { log(where: $w) { line } }', { w: { line: {} } }],
  ['mutation { update_posts(where: {id: {}}, _set: {body: "x"}) { affected_rows } }'],
  ['{ log(where: {line: {_is_null: "yes"}}) { line } }'],
  ['{ log(order_by: {line: up}) { line } }'],
  ['{ log(order_by: {line: "asc"}) { line } }'],
  ['{ log(limit: "1") { line } }'],
  ['{ log(limit: 12345678901) { line } }'],
  ['{ posts_by_pk { id } }'],
  ['{ posts_by_pk(id: null) { id } }'],
  ['query ($l: Int) { log { line } }'],
  ['{ log(limit: $l) { line } }'],
  ['query ($l: Nothing) { log(limit: $l) { line } }'],
  ['query ($l: Int!) { log(limit: $l) { line } }', {}],
  ['query ($l: Int) { log(limit: $l) { line } }', { l: 'x' }],
  ['query ($l: Int) { log(limit: $l) { line } }', { l: 1.5 }],
  ['query ($w: log_bool_exp) { log(where: $w) { line } }', { w: { nothing: 1 } }],
  ['query ($w: log_bool_exp) { log(where: $w) { line } }', { w: 'x' }],
  ['query ($w: log_bool_exp) { log(where: $w) { line } }', { w: { line: { _eq: {} } } }],
  ['subscription { log { line } }'],
  ['mutation { nothing }'],
  ['mutation { insert_log(objects: [{nothing: 1}]) { affected_rows } }'],
  ['mutation { insert_log_one(object: null) { line } }'],
  ['fragment f on log { line }'],
];

for (const [query, variables] of wrong)
  test(`what the schema does not have is refused: ${query} ${JSON.stringify(variables) ?? ''}`, async (t) => {
    const { body, status } = await blog().ask(query, variables);
    t.is(status, 200);
    t.is(body.data, undefined);
    t.is(body.errors[0].extensions.code, 'validation_failed');
    t.is(typeof body.errors[0].message, 'string');
  });

test('what cannot be parsed has a place', async (t) => {
  for (const query of ['', '{', '{ log { line }', 'query', '"', '{ log(where: {line: }) { line } }', '\0']) {
    const { body } = await blog().ask(query);
    t.is(body.errors[0].extensions.code, 'parse_failed', query);
    t.is(typeof body.errors[0].locations[0].line, 'number');
  }
});

test('a request with more than 50,000 values and numbers with fractions among them is refused and says so', async (t) => {
  const query = 'query ($n: [Float!]) { log { line } }';
  const ones = Array.from({ length: 60_000 }, () => 1);
  const few = await blog().ask(query, { n: ones });
  t.notRegex(JSON.stringify(few.body), /50000 values/);
  const many = await blog().ask(query, { n: [...ones, 1.5] });
  t.regex(many.body.errors[0].message, /more than 50000 values, and numbers with fractions/);
  t.is(many.body.errors[0].extensions.code, 'validation_failed');
});
