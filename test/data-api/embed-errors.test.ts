import test from 'ava';
import { DataError } from '#domain/data-api/errors.ts';
import { parseQuery } from '#domain/data-api/rest/grammar/query.ts';
import { nearest } from '#lib/nearest.ts';
import { readPlan, findRelationship } from '#domain/data-api/rest/read-plan.ts';
import type { Relationship } from '#domain/data-api/schema/schema.ts';
import { librarySchema, libraryTable } from './support/library.ts';

const errorOf = (table: string, query: string): DataError => {
  try {
    readPlan(librarySchema, libraryTable(table), parseQuery(query), { maxLimit: 1000 });
  } catch (error) {
    if (error instanceof DataError) return error;
    throw error;
  }
  throw new Error(`${query} is planned without an error`);
};

test('an unknown column is 400 wherever it is named, with the nearest name', (t) => {
  const queries = [
    'select=titel',
    'select=x:titel->a::text',
    'select=titel.max()',
    'titel=eq.1',
    'titel->a=eq.1',
    'order=id,titel',
    'or=(id.eq.1,not.and(titel.is.null))',
    'select=publishers(books(titel))',
    'select=publishers(books())&publishers.books.titel=eq.1',
    'select=publishers(books())&publishers.books.order=titel',
    'select=publishers(books())&publishers.books.or=(titel.eq.1)',
  ];
  for (const query of queries) {
    const { status, code, message, hint } = errorOf('books', query);
    t.deepEqual([status, code], [400, '42703'], query);
    t.is(message, 'column books.titel does not exist');
    t.is(hint, 'Perhaps you meant to reference the column "books.title".');
  }
  t.is(errorOf('books', 'select=entirely_different').hint, null);
});

test('names of JavaScript’s own objects are no columns', (t) => {
  for (const name of ['__proto__', 'constructor', 'toString'])
    t.is(errorOf('books', `${name}=eq.1`).code, '42703', name);
});

test('an unknown relation is 400 with the nearest name', (t) => {
  const error = errorOf('books', 'select=publisher(name)');
  t.deepEqual([error.status, error.code], [400, 'PGRST200']);
  t.is(error.message, "Could not find a relationship between 'books' and 'publisher' in the schema cache");
  t.is(error.hint, "Perhaps you meant 'publishers' instead of 'publisher'.");
  const hinted = errorOf('books', 'select=authors!wrong(name)');
  t.is(hinted.code, 'PGRST200');
  t.regex(String(hinted.details), /using the hint 'wrong'/);
  t.is(errorOf('authors', 'select=publishers(name)').code, 'PGRST200');
});

test('a relation that could be several is 300 and tells them apart', (t) => {
  const error = errorOf('books', 'select=authors(name)');
  t.deepEqual([error.status, error.code], [300, 'PGRST201']);
  t.is(
    error.hint,
    "Try changing 'authors' to one of the following: 'authors!books_author_id_fkey', 'authors!books_editor_id_fkey'. " +
      "Find the desired relationship in the 'details' key.",
  );
  t.deepEqual(error.details, [
    {
      cardinality: 'many-to-one',
      embedding: 'books with authors',
      relationship: 'books_author_id_fkey using books(author_id) and authors(id)',
    },
    {
      cardinality: 'many-to-one',
      embedding: 'books with authors',
      relationship: 'books_editor_id_fkey using books(editor_id) and authors(id)',
    },
  ]);
});

const follows = (near: string, far: string): Relationship => ({
  constraint: `f_${near}_fkey f_${far}_fkey`,
  kind: 'many-to-many',
  holdsKey: false,
  columns: ['id'],
  target: 'genres',
  targetColumns: ['id'],
  junction: {
    table: 'follows',
    sql: 'public.follows',
    constraints: [`f_${near}_fkey`, `f_${far}_fkey`],
    nearColumns: [near],
    farColumns: [far],
  },
});

test('both ways across a table to itself are told apart by the key that leads there', (t) => {
  const [there, back] = [follows('follower', 'followed'), follows('followed', 'follower')];
  const table = { ...libraryTable('genres'), relationships: [there, back] };
  const schema = { ...librarySchema, tables: new Map([['genres', table]]) };
  for (const hint of ['followed', 'f_followed_fkey'])
    t.is(findRelationship(schema, table, { name: 'genres', hint }), there);
  const error = t.throws<DataError>(() => findRelationship(schema, table, { name: 'genres', hint: null }));
  t.is(error.code, 'PGRST201');
  t.regex(error.hint ?? '', /'genres!f_followed_fkey', 'genres!f_follower_fkey'/);
});

test('what is said of a relation that is not selected is refused', (t) => {
  for (const query of [
    'publishers.name=eq.x',
    'publishers.order=id',
    'publishers.limit=1',
    'publishers.or=(id.eq.1)',
  ]) {
    const { status, code, hint } = errorOf('books', `select=id,covers(url)&${query}`);
    t.deepEqual([status, code], [400, 'PGRST108'], query);
    t.is(hint, "Verify that 'publishers' is included in the 'select' query parameter.");
  }
  t.is(errorOf('books', 'order=publishers(name)').code, 'PGRST108');
  t.is(errorOf('books', 'select=id,covers(url)&covers.books.id=eq.1').code, 'PGRST108');
});

test('an order by a list is refused', (t) => {
  t.is(errorOf('publishers', 'select=*,books(id)&order=books(id)').code, 'PGRST118');
});

test('columns, orders and embeddings are bounded', (t) => {
  t.is(errorOf('genres', `select=${'id,'.repeat(1664)}id`).code, '54011');
  t.is(errorOf('genres', `select=id&order=${'id,'.repeat(1664)}id`).code, '54011');
  t.is(errorOf('genres', `select=${'books(*),'.repeat(100)}books()`).code, '54011');
});

test('the nearest name is near', (t) => {
  t.is(nearest('Titel', ['id', 'title', 'titles']), 'title');
  t.is(nearest('autor', ['authors', 'books']), 'authors');
  t.is(nearest('x', ['y', 'id']), null);
  t.is(nearest('id', ['ix', 'no']), 'ix');
  t.is(nearest('a'.repeat(100_000), ['a'.repeat(63)]), null);
  t.is(nearest('', ['a', 'id']), null);
});
