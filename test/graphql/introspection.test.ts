import test from 'ava';
import { executeSync, getIntrospectionQuery, parse } from 'graphql';
import { createBudget, chooseOperation, readDocument } from '#domain/data-api/graphql/document.ts';
import { collect } from '#domain/data-api/graphql/collect.ts';
import { inputsOf, type Fields } from '#domain/data-api/graphql/inputs.ts';
import { introspect } from '#domain/data-api/graphql/introspection.ts';
import { graphqlSchema } from '#domain/data-api/graphql/schema.ts';
import { graphModel, wholeModel } from '#domain/data-api/graphql/model.ts';
import type { Column, Relationship, Table } from '#domain/data-api/schema/schema.ts';

const types = ['int4', 'text', 'numeric', 'timestamptz', 'uuid', 'bool', 'jsonb', 'int8', 'varchar', '_text'];

const column = (index: number): Column => {
  const baseType = types[index % types.length] ?? 'text';
  const more = { default: null, generated: false, comment: 'What it holds', enumValues: null };
  return { name: `column_${index}`, type: baseType, baseType, nullable: index > 3, ...more };
};

const tables = 100;

/** Each table refers to the one before it. */
const relationships = (index: number): Relationship[] => {
  const keys = { columns: ['column_0'], targetColumns: ['column_0'], junction: null };
  const to = (other: number, holdsKey: boolean): Relationship => ({
    ...keys,
    constraint: `key_${index}_${other}`,
    kind: holdsKey ? 'many-to-one' : 'one-to-many',
    holdsKey,
    target: `table_${other}`,
  });
  return [...(index > 0 ? [to(index - 1, true)] : []), ...(index < tables - 1 ? [to(index + 1, false)] : [])];
};

const table = (index: number): Table => ({
  name: `table_${index}`,
  sql: `public.table_${index}`,
  kind: 'table',
  comment: null,
  rowSecurity: true,
  hasPlainColumns: true,
  columns: new Map(Array.from({ length: 15 }, (_, n) => [`column_${n}`, column(n)])),
  primaryKey: ['column_0'],
  uniques: [['column_0']],
  relationships: relationships(index),
  insertable: true,
  updatable: true,
});

const model = graphModel({
  name: 'public',
  version: '1',
  tables: new Map(Array.from({ length: tables }, (_, index) => [`table_${index}`, table(index)])),
  routines: new Map(),
  baseTypes: new Set(),
  bytes: 0,
});
const made = (visible: ReadonlySet<string> | null) => graphqlSchema(wholeModel(model, visible), () => undefined);
const schema = made(null);

const answer = (query: string, variables: Fields = {}, of = schema): string => {
  const { document, errors } = readDocument(() => of, query);
  if (errors) throw new AggregateError(errors);
  const operation = chooseOperation(document, null);
  const from = { inputs: inputsOf(variables, 'now'), fragments: operation.fragments, budget: createBudget() };
  const texts = introspect(of, operation, collect([operation.node.selectionSet], from), variables);
  return `{${[...texts].map(([key, text]) => `${JSON.stringify(key)}:${text}`).join(',')}}`;
};

const graphqlJs = (query: string, variableValues: Fields = {}): string =>
  JSON.stringify(executeSync({ schema, document: parse(query), variableValues }).data);

const everything = {
  descriptions: true,
  specifiedByUrl: true,
  directiveIsRepeatable: true,
  schemaDescription: true,
  inputValueDeprecation: true,
  experimentalDirectiveDeprecation: true,
  oneOf: true,
};

test('what tools ask of a hundred tables is answered, as graphql-js answers it', (t) => {
  for (const options of [{}, everything]) {
    const query = getIntrospectionQuery(options);
    t.true(answer(query) === graphqlJs(query));
  }
});

const requested: readonly (readonly [query: string, variables?: Fields])[] = [
  ['{ __schema { __typename queryType { name } subscriptionType { name } description } }'],
  [
    '{ a: __type(name: "table_1") { kind fields { name } fields { type { kind ofType { name } } } } b: __type(name: "x") { kind } }',
  ],
  [
    'query ($n: String!, $d: Boolean!) { __type(name: $n) { name fields(includeDeprecated: $d) { args { name defaultValue } } } }',
    { n: 'table_2', d: true },
  ],
  [
    'query ($no: Boolean!) { __schema { directives @skip(if: $no) { name } types @include(if: $no) { ...T } } } fragment T on __Type { x: name possibleTypes { name } interfaces { name } }',
    { no: true },
  ],
  [
    '{ __type(name: "order_by") { enumValues { name isDeprecated deprecationReason } inputFields { name } ofType { name } } }',
  ],
];

for (const [query, variables] of requested)
  test(`is answered as graphql-js does: ${query}`, (t) => {
    t.is(answer(query, variables), graphqlJs(query, variables));
  });

test('a part of the tables has the same names, and nothing that leads to the others', (t) => {
  const reduced = made(new Set(['table_1', 'table_2', 'table_50']));
  const text = answer(getIntrospectionQuery(), {}, reduced);
  for (const shown of ['table_1', 'table_2_by_pk', 'insert_table_50', 'table_2_bool_exp'])
    t.true(text.includes(`"${shown}"`), shown);
  for (const hidden of ['table_0', 'table_3', 'table_3_aggregate', 'table_49', 'table_51_bool_exp'])
    t.false(text.includes(`"${hidden}"`), hidden);
});
