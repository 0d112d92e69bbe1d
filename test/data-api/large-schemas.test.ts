import test from 'ava';
import { schemaOf } from '#domain/data-api/schema/introspect.ts';
import type { ForeignKey } from '#domain/data-api/schema/schema.ts';
import { usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';
import { createRestProject } from './rest-project.ts';

const platform = usePlatform(test);

type Part = readonly (string | null)[];

const column = (name: string): unknown[] => [name, 'integer', 'int4', false, null, false, null, null];

interface Given {
  readonly columns?: readonly string[];
  readonly keys?: readonly (readonly [isPrimary: boolean, columns: readonly string[]])[];
  readonly links?: readonly (readonly [name: string, target: string, columns: readonly string[]])[];
}

const tablePart = (name: string, { columns = ['id'], keys = [], links = [] }: Given = {}): Part => [
  'table',
  name,
  JSON.stringify(['r', null, true, 28, keys, true]),
  JSON.stringify(columns.map(column)),
  JSON.stringify(links.map(([link, target, of]) => [link, target, of, of.map(() => 'id')])),
];

const schemaPart: Part = ['schema', '', '1', '["int4"]', null];

test('what a request does not need is not parsed', (t) => {
  const broken: Part = ['table', 'broken', 'no JSON', 'no JSON', null];
  const { tables, routines } = schemaOf([
    schemaPart,
    tablePart('posts'),
    broken,
    ['routine', 'f', 'no JSON', null, null],
  ]);
  t.deepEqual([...(tables.get('posts')?.columns.keys() ?? [])], ['id']);
  t.is(tables.get('posts')?.kind, 'table');
  t.deepEqual([...routines.keys()], ['f']);
  t.throws(() => tables.get('broken')?.columns);
});

const junctionOf = (links: Given['links'] = []) => {
  const primary = ['post', 'tag'];
  const { tables } = schemaOf([
    schemaPart,
    tablePart('posts'),
    tablePart('post_tags', { columns: primary, keys: [[true, primary]], links }),
    tablePart('tags'),
  ]);
  return tables.get('posts')?.relationships.filter(({ kind }) => kind === 'many-to-many') ?? [];
};

const repeated = (count: number) =>
  Array.from({ length: count }, (_, n) => [`to_post_${n}`, 'posts', ['post']] as const);

test('a table whose primary key holds two foreign keys leads across; more than 32 repeat each other, and do not', (t) => {
  t.is(junctionOf([...repeated(1), ['to_tag', 'tags', ['tag']]]).length, 1);
  t.is(junctionOf([...repeated(3), ['to_tag', 'tags', ['tag']]]).length, 3 * 3);
  t.is(junctionOf([...repeated(32), ['to_tag', 'tags', ['tag']]]).length, 0);
});

test('relationships are those of all foreign keys of a table, in their order, however many there are', (t) => {
  const links: readonly (readonly [ForeignKey['name'], string, string[]])[] = Array.from({ length: 9000 }, (_, n) => [
    `key_${n}`,
    'posts',
    ['id'],
  ]);
  const { tables } = schemaOf([schemaPart, tablePart('comments', { links }), tablePart('posts')]);
  const names = (of: string) => tables.get(of)?.relationships.map(({ constraint }) => constraint);
  t.deepEqual(
    names('comments'),
    links.map(([name]) => name),
  );
  t.deepEqual(names('posts'), names('comments'));
});

test('20,000 foreign keys of a schema are followed, and 10,000 ways from one table', (t) => {
  const links = Array.from({ length: 15_000 }, (_, n) => [`key_${n}`, 'posts', ['id']] as const);
  const { tables } = schemaOf([
    schemaPart,
    tablePart('comments', { links: links.slice(0, 9000) }),
    tablePart('notes', { links: links.slice(0, 9000) }),
    tablePart('others', { links: links.slice(0, 9000) }),
    tablePart('posts'),
  ]);
  const found = (name: string) => tables.get(name)?.relationships.length;
  t.deepEqual([found('comments'), found('notes'), found('others'), found('posts')], [9000, 9000, 2000, 10_000]);
});

test('a schema that is too large is refused by name, for REST and GraphQL, and served again when it is smaller', async (t) => {
  const p = await createRestProject(
    platform(),
    'create table posts (id int primary key); insert into posts values (1)',
  );
  const list = () => p.rest('GET', '/posts?select=id');
  t.is((await list()).status, 200);
  await p.sql(
    `do $$ begin
       for n in 1..17 loop
         execute format('create view large_%s as select 1 as x', n);
         execute format('comment on view large_%s is %L', n, repeat('x', 1024 * 1024));
       end loop;
     end $$`,
  );
  const refused = await until(async () => {
    const answer = await list();
    return answer.status !== 200 && answer;
  });
  t.like(refused, { status: 422, body: { code: 'schema_too_large' } });
  const graphql = await platform().client.call('POST', '/api/graphql', {
    key: p.project.key,
    body: { query: '{ posts { id } }' },
  });
  t.is(graphql.body.errors[0].extensions.code, 'schema_too_large');
  await p.sql(`do $$ begin for n in 1..17 loop execute format('drop view large_%s', n); end loop; end $$`);
  t.like(await until(async () => (await list()).status === 200 && (await list())), { body: [{ id: 1 }] });
});
