import type { Column, DataSchema, Relationship, Table } from '#domain/data-api/schema/schema.ts';

/** A small library as SQL and, beside it, as the schema that introspection would give. */
export const librarySql = `
  create type mood as enum ('happy', 'so so');
  create table authors (id int primary key, name text, mentor_id int references authors, mood mood, profile jsonb);
  create table publishers (id int primary key, name text);
  create table books (
    id bigint primary key, title text, author_id int references authors, editor_id int references authors,
    publisher_id int references publishers, price numeric(14, 2), tags text[], data jsonb, plain json,
    lent daterange, words tsvector, sold boolean);
  create table covers (book_id bigint primary key references books, url text);
  create table genres (id int primary key, name text);
  create table book_genres (book_id bigint references books, genre_id int references genres, primary key (book_id, genre_id));
  create table "odd, (table)" ("select" int primary key, "a.b" text, "naïve ""x""" text, t1 text, t2 text);
  insert into authors values
    (1, 'Ada', null, 'happy', '{"city":{"name":"Paris"},"n":[10,20]}'), (2, 'Bob', 1, 'so so', null), (3, 'Cid', 1, null, null);
  insert into publishers values (1, 'Owl'), (2, 'Fox');
  insert into books values
    (9007199254740995, 'Big, (really)', 1, 2, 1, 12345678901.10, '{a,"b c"}', '{"k":{"x":1}}', '{"z":1, "a":2}', '[2020-01-01,2020-02-01)', 'fat cat', true),
    (2, 'Second "one"', 1, null, 1, 5.00, '{}', '{"k":{"x":2}}', '[1]', '[2021-01-01,2021-02-01)', 'thin rat', false),
    (3, '50%', 2, null, 2, null, null, '["p","q"]', null, null, null, null),
    (4, 'orphan', null, null, null, 1.50, null, null, null, null, null, null);
  insert into covers values (2, 'http://cover');
  insert into genres values (1, 'fiction'), (2, 'poetry');
  insert into book_genres values (2, 1), (2, 2), (3, 2);
  insert into "odd, (table)" values (1, 'dots', 'quotes "and" back\\slash', 'x', 'line' || chr(10) || 'two'), (2, '', null, null, null);
`;

const column = (name: string, type: string): Column => ({
  name,
  type,
  baseType: { int: 'int4', bigint: 'int8', 'text[]': '_text' }[type] ?? type,
  nullable: true,
  default: null,
  generated: false,
  comment: null,
  enumValues: null,
});

const table = (name: string, columns: Readonly<Record<string, string>>, relationships: Relationship[]): Table => ({
  name,
  sql: `"public"."${name}"`,
  kind: 'table',
  comment: null,
  rowSecurity: false,
  hasPlainColumns: true,
  columns: new Map(Object.entries(columns).map(([key, type]) => [key, column(key, type)])),
  primaryKey: ['id'],
  uniques: [],
  relationships,
  insertable: true,
  updatable: true,
});

type Pick1 = Pick<Relationship, 'constraint' | 'target'>;

const toOne = (constraint: string, from: string, target: string, to = 'id'): Relationship => ({
  constraint,
  kind: 'many-to-one',
  holdsKey: true,
  columns: [from],
  target,
  targetColumns: [to],
  junction: null,
});

const toMany = (
  { constraint, target }: Pick1,
  from: string,
  to: string,
  kind: Relationship['kind'] = 'one-to-many',
) => ({
  ...toOne(constraint, from, target, to),
  kind,
  holdsKey: false,
});

const through = (near: string, far: string, target: string): Relationship => ({
  constraint: `book_genres_${near}_id_fkey book_genres_${far}_id_fkey`,
  kind: 'many-to-many',
  holdsKey: false,
  columns: ['id'],
  target,
  targetColumns: ['id'],
  junction: {
    table: 'book_genres',
    sql: 'public.book_genres',
    constraints: [`book_genres_${near}_id_fkey`, `book_genres_${far}_id_fkey`],
    nearColumns: [`${near}_id`],
    farColumns: [`${far}_id`],
  },
});

const books = {
  id: 'bigint',
  title: 'text',
  author_id: 'int',
  editor_id: 'int',
  publisher_id: 'int',
  price: 'numeric',
  tags: 'text[]',
  data: 'jsonb',
  plain: 'json',
  lent: 'daterange',
  words: 'tsvector',
  sold: 'boolean',
};

const tables = [
  table('authors', { id: 'int', name: 'text', mentor_id: 'int', mood: 'mood', profile: 'jsonb' }, [
    toOne('authors_mentor_id_fkey', 'mentor_id', 'authors'),
    toMany({ constraint: 'authors_mentor_id_fkey', target: 'authors' }, 'id', 'mentor_id'),
    toMany({ constraint: 'books_author_id_fkey', target: 'books' }, 'id', 'author_id'),
    toMany({ constraint: 'books_editor_id_fkey', target: 'books' }, 'id', 'editor_id'),
  ]),
  table('publishers', { id: 'int', name: 'text' }, [
    toMany({ constraint: 'books_publisher_id_fkey', target: 'books' }, 'id', 'publisher_id'),
  ]),
  table('books', books, [
    toOne('books_author_id_fkey', 'author_id', 'authors'),
    toOne('books_editor_id_fkey', 'editor_id', 'authors'),
    toOne('books_publisher_id_fkey', 'publisher_id', 'publishers'),
    toMany({ constraint: 'covers_book_id_fkey', target: 'covers' }, 'id', 'book_id', 'one-to-one'),
    toMany({ constraint: 'book_genres_book_id_fkey', target: 'book_genres' }, 'id', 'book_id'),
    through('book', 'genre', 'genres'),
  ]),
  table('covers', { book_id: 'bigint', url: 'text' }, [toOne('covers_book_id_fkey', 'book_id', 'books')]),
  table('genres', { id: 'int', name: 'text' }, [through('genre', 'book', 'books')]),
  table('book_genres', { book_id: 'bigint', genre_id: 'int' }, [
    toOne('book_genres_book_id_fkey', 'book_id', 'books'),
    toOne('book_genres_genre_id_fkey', 'genre_id', 'genres'),
  ]),
  table('odd, (table)', { select: 'int', 'a.b': 'text', 'naïve "x"': 'text', t1: 'text', t2: 'text' }, []),
];

export const librarySchema: DataSchema = {
  name: 'public',
  version: '1',
  tables: new Map(tables.map((entry) => [entry.name, entry])),
  routines: new Map(),
  baseTypes: new Set(),
  bytes: 0,
};

export const libraryTable = (name: string): Table => {
  const found = librarySchema.tables.get(name);
  if (found === undefined) throw new Error(`the library has no ${name}`);
  return found;
};
