import test from 'ava';
import { type ParseOptions, parseQuery } from '#domain/data-api/rest/grammar/query.ts';
import { encoded, grammarError as errorOf } from './support/grammar-error.ts';

const whereOf = (query: string, options: ParseOptions = {}): unknown => parseQuery(query, options).where[0]?.what;
const operandOf = (query: string, options: ParseOptions = {}): unknown => {
  const what = whereOf(query, options) as {
    readonly test: { readonly operand?: string; readonly operands?: string[] };
  };
  return what.test.operand ?? what.test.operands;
};

test('an empty query asks for everything', (t) => {
  for (const query of ['', '&', '&&', 'select=', 'select=*', 'select'])
    t.deepEqual(parseQuery(query).select, [{ kind: 'all' }], query);
});

test('the value of a filter is taken as it is', (t) => {
  for (const value of [
    '',
    ' ',
    'a,b',
    '(x)',
    '"quoted"',
    'a.b.c',
    "'; drop table x --",
    '*',
    '\\',
    'null',
    'naïve 😀',
    'a\0b',
  ])
    t.is(operandOf(encoded('a', `eq.${value}`)), value);
  t.is(operandOf('a=eq.x+y%2Bz'), 'x y+z');
  t.is(operandOf('a=eq.x=y'), 'x=y');
  t.is(operandOf('a=like.%x%25%'), '%x%%');
});

const list = (value: string): unknown => operandOf(encoded('a', `in.${value}`));

test('the values of a list may be quoted', (t) => {
  t.deepEqual(list('(1,2,3)'), ['1', '2', '3']);
  t.deepEqual(list('("a,b","c)d","e\\"f","g\\\\h")'), ['a,b', 'c)d', 'e"f', 'g\\h']);
  t.deepEqual(list('(a b, c ,)'), ['a b', ' c ', '']);
  t.deepEqual(list('()'), []);
  t.deepEqual(list('("")'), ['']);
  t.deepEqual(list('("a"b,"c)'), ['"a"b', '"c']);
  t.deepEqual(list('(null,NULL,"null")'), ['null', 'NULL', 'null']);
});

const logicValues = (text: string): string[] => {
  const what = whereOf(encoded('or', text)) as { readonly parts: { readonly test: { readonly operand: string } }[] };
  return what.parts.map(({ test: { operand } }) => operand);
};

test('a value within and() and or() ends at a comma or a parenthesis', (t) => {
  t.deepEqual(logicValues('(a.eq.1,b.eq.x.y z)'), ['1', 'x.y z']);
  t.deepEqual(logicValues('(a.eq."x,y)","b->>c".eq."\\"")'), ['x,y)', '"']);
  t.deepEqual(logicValues('(a.cs.{1,2},b.eq.{,c.eq.)'), ['{1,2}', '{', '']);
  t.deepEqual(logicValues('( a.eq.1 , b.eq.2 )'), ['1 ', '2 ']);
});

test('logic nests and is negated anywhere', (t) => {
  const what = whereOf('not.or=(a.not.eq.1,not.and(b.is.null,or(c.in.(1,"2)"),d.fts(german).x)))') as object;
  t.like(what, { kind: 'logic', operator: 'or', negated: true });
  const [filter, inner] = Reflect.get(what, 'parts') as object[];
  t.like(filter, { kind: 'filter', negated: true });
  t.like(inner, { kind: 'logic', operator: 'and', negated: true });
});

test('columns may be called and, or, not, select, order and limit', (t) => {
  t.like(whereOf('or=(and.eq.1)'), { parts: [{ kind: 'filter', field: { name: 'and' } }] });
  t.like(whereOf('or=(not.eq.1)'), { parts: [{ kind: 'filter', negated: false, field: { name: 'not' } }] });
  for (const name of ['select', 'order', 'limit', 'columns', 'or'])
    t.like(whereOf(`%22${name}%22=eq.1`), { field: { name } });
});

test('a thousand filters and ten thousand values are read', (t) => {
  const filters = Array.from({ length: 1000 }, (_, index) => `a=neq.${index}`).join('&');
  t.is(parseQuery(filters).where.length, 1000);
  const values = Array.from({ length: 10_000 }, (_, index) => String(index));
  t.deepEqual(operandOf(`a=in.(${values.join(',')})`), values);
});

test('of a repeated parameter the first select and order count, and the last limit', (t) => {
  const parsed = parseQuery('select=a&select=b&order=a&order=b&limit=1&limit=2&columns=a&columns=b');
  t.like(parsed.select, [{ field: { name: 'a' } }]);
  t.is(parsed.select.length, 1);
  t.deepEqual(parsed.columns, ['a']);
  t.deepEqual(
    parsed.limit.map(({ what }) => what),
    [1, 2],
  );
});

test('a bare value is equality where that is allowed, unless it begins with an operator', (t) => {
  const bare = { bareEquality: true };
  for (const value of ['5', '1.5', 'a@b.c', 'equal.x', 'EQ.1', 'not.1', '', 'eq', 'is', 'true', '(1)'])
    t.is(operandOf(encoded('a', value), bare), value);
  t.is(operandOf('a=eq.eq.1', bare), 'eq.1');
  t.like(whereOf('a=not.is.null', bare), { negated: true, test: { kind: 'is' } });
  t.is(errorOf('a=in.x', bare).code, 'PGRST100');
});

test('of a call the values without an operator are arguments, as they came', (t) => {
  const { args, where } = parseQuery('a=1&b=eq.1&c=&select=x&d.e=is.null', { arguments: true });
  t.deepEqual(args, [
    ['a', '1'],
    ['c', ''],
  ]);
  t.is(where.length, 2);
});

const fieldOf = (text: string): unknown =>
  (whereOf(`${encodeURIComponent(text)}=eq.1`) as { readonly field: object }).field;

test('names hold Unicode, spaces and dashes, or anything when quoted', (t) => {
  t.deepEqual(fieldOf('größe-名前 x'), { name: 'größe-名前 x', path: [] });
  t.deepEqual(fieldOf('"a.b, (c) \\"d\\" \\\\"'), { name: 'a.b, (c) "d" \\', path: [] });
  t.deepEqual(fieldOf('data->a-b->>0->-1'), {
    name: 'data',
    path: [
      { text: false, key: 'a-b' },
      { text: true, key: 0 },
      { text: false, key: -1 },
    ],
  });
  t.deepEqual(fieldOf('data->99999999999->"0"->1x'), {
    name: 'data',
    path: [
      { text: false, key: '99999999999' },
      { text: false, key: '0' },
      { text: false, key: '1x' },
    ],
  });
});

test('all that select can say', (t) => {
  const { select } = parseQuery(
    'select=*,a:data->>k::text,price::numeric.sum()::int8,n:count()::int,...r!inner(x),m:t!fk!inner(count(),*,u!left()),count',
  );
  t.like(select, [
    { kind: 'all' },
    { kind: 'field', alias: 'a', cast: 'text', aggregate: null },
    { kind: 'field', alias: null, cast: 'numeric', aggregate: 'sum', aggregateCast: 'int8' },
    { kind: 'field', alias: 'n', field: null, aggregate: 'count', aggregateCast: 'int' },
    { kind: 'relation', name: 'r', spread: true, inner: true, hint: null },
    { kind: 'relation', alias: 'm', name: 't', hint: 'fk', inner: true },
    { kind: 'field', field: { name: 'count' }, aggregate: null },
  ]);
});
