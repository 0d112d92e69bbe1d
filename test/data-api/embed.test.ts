import test from 'ava';
import { useLibrary } from './support/library-db.ts';

const library = useLibrary(test);

const cases: readonly (readonly [title: string, table: string, query: string, rows: unknown])[] = [
  [
    'a row that is referred to is an object, null where there is none',
    'books',
    'select=id::text,publishers(name)&id=in.(2,4)&order=id',
    [
      { id: '2', publishers: { name: 'Owl' } },
      { id: '4', publishers: null },
    ],
  ],
  [
    'rows that refer are a list, empty where there are none',
    'publishers',
    'select=name,books(title)&books.order=id.desc&order=id',
    [
      { name: 'Owl', books: [{ title: 'Big, (really)' }, { title: 'Second "one"' }] },
      { name: 'Fox', books: [{ title: '50%' }] },
    ],
  ],
  [
    'a table between two makes lists of each other',
    'books',
    'select=id,genres(name)&id=lt.5&order=id&genres.order=name.desc',
    [
      { id: 2, genres: [{ name: 'poetry' }, { name: 'fiction' }] },
      { id: 3, genres: [{ name: 'poetry' }] },
      { id: 4, genres: [] },
    ],
  ],
  ['a one-to-one row is an object', 'books', 'select=covers(url)&id=eq.2', [{ covers: { url: 'http://cover' } }]],
  [
    'a constraint and a column choose between two keys',
    'books',
    'select=writer:authors!books_author_id_fkey(name),editor:authors!editor_id(name),author_id(id)&id=gt.5',
    [{ writer: { name: 'Ada' }, editor: { name: 'Bob' }, author_id: { id: 1 } }],
  ],
  [
    'the key of a table to itself goes up by its column and down by the table',
    'authors',
    'select=name,mentor:authors!mentor_id(name),authors(name)&order=id&authors.order=id&limit=2',
    [
      { name: 'Ada', mentor: null, authors: [{ name: 'Bob' }, { name: 'Cid' }] },
      { name: 'Bob', mentor: { name: 'Ada' }, authors: [] },
    ],
  ],
  [
    '!inner leaves out the rows without a related one that fits, at any depth',
    'publishers',
    'select=name,books!inner(title,genres!inner(name))&books.genres.name=eq.fiction',
    [{ name: 'Owl', books: [{ title: 'Second "one"', genres: [{ name: 'fiction' }] }] }],
  ],
  [
    '!left keeps them',
    'publishers',
    'select=name,books!left(title)&books.title=eq.50%25&order=name.desc',
    [
      { name: 'Owl', books: [] },
      { name: 'Fox', books: [{ title: '50%' }] },
    ],
  ],
  [
    'a relation without fields is asked for and not shown',
    'publishers',
    'select=name,books!inner()&books.title=eq.50%25',
    [{ name: 'Fox' }],
  ],
  [
    'rows without a related one are found by is.null',
    'books',
    'select=id,authors!author_id()&authors=is.null',
    [{ id: 4 }],
  ],
  [
    'rows with a related one are found within or',
    'books',
    'select=id,covers(),genres()&or=(covers.not.is.null,genres.is.not_null)&order=id',
    [{ id: 2 }, { id: 3 }],
  ],
  [
    'spread fields of a referred row stand among the others',
    'books',
    'select=id,...publishers(publisher:name)&id=in.(3,4)&order=id',
    [
      { id: 3, publisher: 'Fox' },
      { id: 4, publisher: null },
    ],
  ],
  [
    'spread fields of several rows are lists',
    'publishers',
    'select=name,...books(titles:title,id)&books.order=id&order=id.desc',
    [
      { name: 'Fox', titles: ['50%'], id: [3] },
      { name: 'Owl', titles: ['Second "one"', 'Big, (really)'], id: [2, 9007199254740996] },
    ],
  ],
  [
    'a spread within a spread comes all the way up',
    'covers',
    'select=url,...books(title,...publishers(publisher:name))',
    [{ url: 'http://cover', title: 'Second "one"', publisher: 'Owl' }],
  ],
  ['a star is spread, too', 'covers', 'select=...books!inner(...publishers!inner(*))', [{ id: 1, name: 'Owl' }]],
  [
    'related rows have their own or, order, limit and offset',
    'authors',
    'select=name,books!author_id(id)&books.or=(id.eq.2,title.like.Big*)&books.order=id&books.limit=1&books.offset=1&id=eq.1',
    [{ name: 'Ada', books: [{ id: 9007199254740996 }] }],
  ],
  [
    'rows are ordered by a field of the row that they refer to',
    'books',
    'select=id,publishers(name)&order=publishers(name).asc.nullsfirst,id.desc&id=lt.5',
    [
      { id: 4, publishers: null },
      { id: 3, publishers: { name: 'Fox' } },
      { id: 2, publishers: { name: 'Owl' } },
    ],
  ],
  [
    'aggregates are over the values of the plain fields',
    'books',
    'select=publisher_id,price.sum(),n:count(),id.max()::text&order=publisher_id',
    [
      { publisher_id: 1, sum: 12345678906.1, n: 2, max: '9007199254740995' },
      { publisher_id: 2, sum: null, n: 1, max: '3' },
      { publisher_id: null, sum: 1.5, n: 1, max: '4' },
    ],
  ],
  ['count() of everything is one row', 'books', 'select=count()', [{ count: 4 }]],
  [
    'an aggregate within a list is the list’s own',
    'publishers',
    'select=name,books(count())&order=id',
    [
      { name: 'Owl', books: [{ count: 2 }] },
      { name: 'Fox', books: [{ count: 1 }] },
    ],
  ],
  [
    'groups are made by related rows, too',
    'books',
    'select=n:count(),publishers(name)&publisher_id=not.is.null'.replace('', ''),
    [
      { n: 1, publishers: { name: 'Fox' } },
      { n: 2, publishers: { name: 'Owl' } },
    ],
  ],
  [
    'an aggregate of a spread row is over the rows around it',
    'covers',
    'select=...books(price.sum(),...publishers(name))',
    [{ sum: 5, name: 'Owl' }],
  ],
];

const sorted = (rows: unknown): unknown => (Array.isArray(rows) ? rows.map((row) => JSON.stringify(row)).sort() : rows);

for (const [title, table, query, rows] of cases)
  test(title, async (t) => {
    const found = await library().get(table, query);
    if (query.includes('order=')) t.deepEqual(found, rows);
    else t.deepEqual(sorted(found), sorted(rows));
  });
