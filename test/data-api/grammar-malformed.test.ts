import test from 'ava';
import { DataError } from '#domain/data-api/errors.ts';
import { parseQuery } from '#domain/data-api/rest/grammar/query.ts';
import { encoded, grammarError as errorOf } from './support/grammar-error.ts';

test('a message says where the text is wrong and what could be there', (t) => {
  const error = errorOf('select=id,na!me');
  t.is(error.status, 400);
  t.is(error.code, 'PGRST100');
  t.is(error.message, '"failed to parse select parameter (id,na!me)" (line 1, column 9)');
  t.is(error.details, 'unexpected end of input expecting "("');
  t.is(errorOf('order=id.sideways').message, '"failed to parse order (id.sideways)" (line 1, column 4)');
  t.is(errorOf('id=5').message, '"failed to parse filter (5)" (line 1, column 1)');
  t.is(errorOf('id=5').details, 'unexpected "5" expecting "not" or operator (eq, gt, ...)');
  t.regex(errorOf(encoded('or', '(😀😀.x.1)')).message, /column 2\)$/);
});

test('a long text is not repeated whole', (t) => {
  t.true(errorOf(`select=${'a,'.repeat(50_000)}`).message.length < 1200);
});

const malformed: Readonly<Record<string, readonly string[]>> = {
  select: [
    ',',
    'id,',
    ',id',
    'id,,name',
    'id name,',
    'id)',
    '(id)',
    'a(',
    'a(id',
    'a(id))',
    'a(id)b',
    'a(id,)',
    'a!(id)',
    'a!x!y(id)',
    'a!inner!left(id)',
    'a!inner',
    '...a',
    '...',
    '..a(id)',
    'x:...a(id)',
    'x:',
    'x:y:z',
    ':x',
    'x:*',
    '*!inner',
    'id::',
    'id::text::int',
    'id::te"xt',
    'id::text;drop',
    'id->',
    'id->>',
    'id->>-',
    'id->-7x',
    'id->->x',
    'id.sum',
    'id.sum(',
    'id.median()',
    'id.sum()x',
    'sum()x',
    '"id',
    'id"',
    "id'",
    'id;',
    'a.b',
    'id\0',
    '*x',
  ],
  order: [
    '',
    ',',
    'id,',
    'id.',
    'id.ac',
    'id.descc',
    'id.desc.asc',
    'id.nullsfirst.desc',
    'id.asc.',
    'a(b',
    'a(b,c)',
    'a(b)x',
    'id desc.x',
    '.desc',
    '"a',
  ],
  limit: ['', 'x', '1.5', '1e3', '0x10', ' 1 ', '1;2', '--1'],
  offset: ['', 'x', '1.5'],
  or: [
    '',
    '()',
    '(',
    ')',
    'id.eq.1',
    '(id.eq.1',
    '(id.eq.1))',
    '(id.eq.1)x',
    '(id.eq.1,)',
    '(,id.eq.1)',
    '(id)',
    '(id.eq)',
    '(id.noop.1)',
    '(and)',
    '(and())',
    '(xor(id.eq.1))',
    '(not.xor(id.eq.1))',
    '(not.not.and(id.eq.1))',
    '(id.in.1)',
    '(id.in.(1)',
    '(id.is.maybe)',
    '(a.b.eq.1)',
  ],
  and: ['()', '(id.eq.1'],
  'not.or': ['()'],
  id: [
    '',
    '1',
    'eq',
    'eq1',
    'eq(any)',
    'noop.1',
    'EQ.1',
    'eq(some).1',
    'eq().1',
    'neq(any).{1}',
    'cs(all).{1}',
    'in(any).(1)',
    'is(any).null',
    'not.not.eq.1',
    'not.',
    'not',
    'in.1',
    'in.',
    'in.(',
    'in.(1',
    'in.(1,2',
    'in.(1)x',
    'in.1)',
    'is.',
    'is.nul',
    'is.nullx',
    'is.1',
    'is.null.x',
    'fts().x',
    'fts(english.x',
    'fts(en"glish).x',
    'toString.1',
    '__proto__.1',
    'constructor.1',
  ],
};

for (const [key, values] of Object.entries(malformed))
  test(`a malformed ${key} is refused with its place`, (t) => {
    for (const value of values) {
      const error = errorOf(encoded(key, value));
      t.is(error.status, 400, value);
      t.is(error.code, 'PGRST100', value);
    }
  });

test('a malformed name of a filter is refused', (t) => {
  for (const key of [
    '',
    '.',
    'a.',
    '.a',
    'a..b',
    'a->',
    'a!b',
    '"a',
    'a(b)',
    'a->>b.c',
    'a::text',
    'a,b',
    '.order',
    'a..limit',
  ])
    t.is(errorOf(`${encodeURIComponent(key)}=eq.1`).code, 'PGRST100', key);
});

test('a percent-encoding that is no UTF-8 is refused', (t) => {
  for (const query of ['id=eq.%ff', '%c3=eq.1', 'id=eq.%ed%a0%80', 'id=eq.%%80'])
    t.is(errorOf(query).code, 'PGRST100', query);
});

test('a negative limit or offset is a range that cannot be', (t) => {
  for (const query of ['limit=-1', 'offset=-1', 'a.limit=-5']) {
    const { status, code } = errorOf(query);
    t.deepEqual([status, code], [416, 'PGRST103'], query);
  }
});

const nestedLogic = (depth: number): string => `or=${'(and'.repeat(depth - 1)}(a.eq.1)${')'.repeat(depth - 1)}`;
const nestedSelect = (depth: number): string => `select=${'a('.repeat(depth)}id${')'.repeat(depth)}`;

test('nesting is bounded', (t) => {
  t.notThrows(() => parseQuery(nestedLogic(32)));
  t.is(errorOf(nestedLogic(33)).code, 'PGRST100');
  t.is(errorOf(nestedLogic(20_000)).code, 'PGRST100');
  t.notThrows(() => parseQuery(nestedSelect(10)));
  t.is(errorOf(nestedSelect(11)).code, 'PGRST100');
  t.is(errorOf(nestedSelect(60_000)).code, 'PGRST100');
});

test('what would be read again and again by backtracking is read once', (t) => {
  const length = 60_000;
  const hard = [
    `a=in.(${'"x,'.repeat(length)}`,
    `a=in.(${'"x"y,'.repeat(length)})`,
    `a=in.(${String.raw`"\",`.repeat(length)})`,
    `or=(${'a.eq.{,'.repeat(length)}a.eq.1)`,
    `select=${'a-'.repeat(length)}`,
    `select=${' '.repeat(length)}!`,
    `select=${'a:'.repeat(length)}`,
    `order=${'a('.repeat(length)}`,
    `${'a.'.repeat(length)}=eq.1`,
    `a=${'not.'.repeat(length)}`,
    `a=${'e'.repeat(length)}`,
  ];
  for (const query of hard) {
    try {
      parseQuery(query);
    } catch (error) {
      t.true(error instanceof DataError, query.slice(0, 20));
    }
  }
  t.pass();
});
