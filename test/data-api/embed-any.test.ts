import { createHash } from 'node:crypto';
import test from 'ava';
import { DataError } from '#domain/data-api/errors.ts';
import { readOf, useLibrary } from './support/library-db.ts';
import { libraryTable } from './support/library.ts';

const library = useLibrary(test);

/** Numbers from 0 to 1 that are the same in every run. */
const numbersFrom = (seed: string): (() => number) => {
  let count = 0;
  return () => {
    count += 1;
    return createHash('sha256').update(`${seed} ${count}`).digest().readUInt32BE() / 2 ** 32;
  };
};

const relations: Readonly<Record<string, readonly (readonly [ask: string, target: string])[]>> = {
  books: [
    ['publishers', 'publishers'],
    ['authors!author_id', 'authors'],
    ['authors!editor_id', 'authors'],
    ['covers', 'covers'],
    ['genres', 'genres'],
    ['book_genres', 'book_genres'],
  ],
  authors: [
    ['books!author_id', 'books'],
    ['authors', 'authors'],
    ['mentor_id', 'authors'],
  ],
  publishers: [['books', 'books']],
  covers: [['books', 'books']],
  genres: [['books', 'books']],
  book_genres: [
    ['books', 'books'],
    ['genres', 'genres'],
  ],
};

const operations = ['eq.1', 'is.null', 'not.is.null', 'in.(1,2)', 'isdistinct.x', 'not.eq(any).{1,2}'];

const generator = (seed: string) => {
  const next = numbersFrom(seed);
  const oneOf = <T>(list: readonly [T, ...T[]] | readonly T[]): T => list[Math.floor(next() * list.length)] as T;
  const columnOf = (table: string): string => oneOf([...libraryTable(table).columns.keys()]);
  const field = (table: string): string => {
    const column = columnOf(table);
    return oneOf([column, column, '*', 'count()', `${column}.count()`, `x:${column}::text`, `${column}->a->>0`]);
  };
  const relation = (table: string, depth: number): string => {
    const [ask, target] = oneOf(relations[table] ?? []);
    const items = next() < 0.1 ? '' : select(target, depth - 1);
    return `${oneOf(['', '...', 'r:'])}${ask}${oneOf(['', '!inner'])}(${items})`;
  };
  const select = (table: string, depth: number): string =>
    Array.from({ length: 1 + Math.floor(next() * 3) }, () =>
      depth > 0 && next() < 0.5 ? relation(table, depth) : field(table),
    ).join(',');
  return () => {
    const table = oneOf(Object.keys(relations));
    const filters = [1, 2].map(() => `&${columnOf(table)}=${oneOf(operations)}`).slice(Math.floor(next() * 3));
    const query = `select=${select(table, 3)}${filters.join('')}${oneOf(['', '&limit=1', '&offset=1'])}`;
    return { table, query, shape: oneOf(['array', 'object', 'csv'] as const), exactCount: next() < 0.3 };
  };
};

// A value that its column refuses, and operators and arrays that its type does not have.
const refusals = new Set(['22P02', '22007', '42883', '42704', '42804']);

test('whatever is embedded, spread, grouped and filtered is a statement that the server understands', async (t) => {
  const generate = generator('library');
  const codes = new Set<string>();
  let answered = 0;
  for (let round = 0; round < 300; round += 1) {
    const { table, query, ...options } = generate();
    try {
      const [row] = await library().run(readOf(table, query, options));
      if (options.shape !== 'csv') JSON.parse(row?.['body'] ?? '');
      answered += 1;
    } catch (error) {
      if (error instanceof DataError) throw error;
      const code = String(Reflect.get(error as object, 'code'));
      codes.add(code);
      if (!refusals.has(code)) t.fail(`${code} for ${table} ${query}`);
    }
  }
  t.true(answered > 100, [...codes].join(' '));
});
