import test from 'ava';
import { changedPart } from '../../web/dashboard/client/changed-part.ts';
import { afterRow, conditionsOf, filterOf, orderOf, termsOf } from '../../web/dashboard/client/conditions.ts';
import { csvCell, parseDelimited, tabbed } from '../../web/dashboard/client/delimited.ts';
import { faultAt, isConflict } from '../../web/dashboard/client/faults.ts';
import { importScript, readRows, typeOfValues } from '../../web/dashboard/client/import.ts';
import { dangerOf, statementAt, statementsOf } from '../../web/dashboard/client/sql-text.ts';
import { readUserFile, repeatedIn } from '../../web/dashboard/pages/users/import-file.ts';

const textsOf = (text: string): string[] => statementsOf(text).map(({ from, to }) => text.slice(from, to));

test('a text is divided at semicolons that end a statement', (t) => {
  t.deepEqual(textsOf(`select 'a;''b'; select ";" from x -- ;\n; do $b$ begin; end $b$;\n/* ; /* ; */ */`), [
    `select 'a;''b'`,
    'select ";" from x -- ;',
    'do $b$ begin; end $b$',
  ]);
  t.deepEqual(textsOf(String.raw`select E'\';'; select (1;2)`), [String.raw`select E'\';'`, 'select (1;2)']);
  t.deepEqual(textsOf(`select 'never closed; select 2`), [`select 'never closed; select 2`]);
  t.deepEqual(textsOf(' -- nothing\n;;'), []);
  const text = 'select 1;\n\nselect 2;';
  t.deepEqual(
    [0, 8, 9, 11, 20, 99].map((caret) => statementAt(text, caret)?.from),
    [0, 0, 0, 11, 11, 11],
  );
  t.is(statementAt('', 0), null);
});

for (const sql of [
  '-- tidy up\ndelete from t',
  '/* tidy up */ truncate t',
  'delete from x',
  'update x set a = (select 1 from y where true)',
  `update x set a = 'where'`,
  'delete from x -- where',
  'with d as (delete from x returning *) select * from d where true',
  'truncate x',
  'drop table x',
  'explain analyze delete from x',
]) {
  test(`it is dangerous: ${sql}`, (t) => {
    t.is(typeof dangerOf(sql), 'string');
  });
}

for (const sql of [
  'select 1',
  'delete from x where id = 1',
  'update x set a = 1 where (id = 2)',
  'with u as (update x set a = 1 where id = 1 returning *) select * from u',
  'select * from x for update',
  'insert into x values (1) on conflict (id) do update set a = 1',
  'explain delete from x',
  `select 'delete from x'`,
]) {
  test(`it is not dangerous: ${sql}`, (t) => {
    t.is(dangerOf(sql), null);
  });
}

const cells = (text: string, separator: ',' | '\t' = '\t'): string[][] =>
  parseDelimited(text, separator).map((row) => row.map((cell) => cell.text));

test('cells come from a spreadsheet as it wrote them, and go to it so that it reads them', (t) => {
  t.deepEqual(cells('a\tb\r\n"x ""y""\nz"\t\n'), [
    ['a', 'b'],
    ['x "y"\nz', ''],
  ]);
  t.deepEqual(cells('\uFEFFa,b,\n', ','), [['a', 'b', '']]);
  t.deepEqual(cells(''), []);
  t.deepEqual(
    cells(
      tabbed([
        ['a\tb', 'c"d'],
        ['', 'e\nf'],
      ]),
    ),
    [
      ['a\tb', 'c"d'],
      ['', 'e\nf'],
    ],
  );
  t.deepEqual(
    [null, '', 'a,b', ' a', 'plain'].map((text) => csvCell(text)),
    ['', '""', '"a,b"', '" a"', 'plain'],
  );
});

test('a file becomes rows in which nothing is NULL and a pair of quotes an empty text', (t) => {
  t.deepEqual(readRows('x.csv', 'a;b\n1;\n"";2\n'), {
    names: ['a', 'b'],
    rows: [
      ['1', null],
      ['', '2'],
    ],
  });
  t.deepEqual(readRows('x.json', '[{"a":9007199254740993},{"b":{"c":1.10}}]').rows, [
    ['9007199254740993', null],
    [null, '{"c":1.10}'],
  ]);
  for (const text of ['', 'a,a\n1,2', 'a,\n1,2', 'a,b\n', '{"a":1}', '[1]']) t.throws(() => readRows('x.csv', text));
});

test('types are the narrowest that fit all values', (t) => {
  const types: readonly (readonly [readonly (string | null)[], string])[] = [
    [['1', null, '-2'], 'bigint'],
    [['1', '2.5'], 'numeric'],
    [['007'], 'text'],
    [['true', 'f'], 'boolean'],
    [['2026-01-01'], 'date'],
    [['2026-01-01T10:00:00Z'], 'timestamptz'],
    [['{"a":1}', '[]'], 'jsonb'],
    [[null], 'text'],
    [['1', 'x'], 'text'],
  ];
  for (const [values, type] of types) t.is(typeOfValues(values), type, JSON.stringify(values));
});

test('an import is one script that no cell can leave', (t) => {
  const file = {
    names: ['a', 'b', 'c'],
    rows: [
      ['\\.\n', null, 'x'],
      ['t\tb', '\\N', 'y'],
    ],
  };
  t.is(
    importScript('my "table"', file, ['a"', 'b', null], null),
    `copy public."my ""table""" ("a""", "b") from stdin;\n\\\\.\\n\t\\N\nt\\tb\t\\\\N\n\\.\n`,
  );
  t.regex(
    importScript('t', file, ['a', 'b', 'c'], ['text', 'int', 'text']),
    /^create table public\."t" \(\n {2}"a" text,/,
  );
});

test('filters and orders survive any name, and lead on from a row', (t) => {
  const conditions = [
    { column: 'a "b"\\', operator: 'not.is', value: 'null' },
    { column: 'c,d', operator: 'in', value: '(1,2)' },
    { column: 'or', operator: '', value: '(a.eq.1,b.eq.2)' },
  ];
  t.deepEqual(conditionsOf(filterOf(conditions)), conditions);
  const terms = [
    { column: 'a,"b', isDescending: true },
    { column: 'id', isDescending: false },
  ];
  t.deepEqual(termsOf(orderOf(terms)), terms);
  t.is(termsOf('a.desc.nullslast'), null);
  t.is(
    afterRow(terms, (column) => (column === 'id' ? '7' : 'x"y')),
    String.raw`(and("a,\"b".lt."x\"y"),and("a,\"b".eq."x\"y","id".gt."7"))`,
  );
  t.is(
    afterRow(terms, () => null),
    null,
  );
});

test('a change names only what differs, also within fields that the API merges', (t) => {
  const base = { a: 1, list: ['x'], none: null, session: { idle: 1, single: false }, other: { b: 1 } };
  t.deepEqual(changedPart({ a: 1, list: ['x'], none: null }, base), {});
  t.deepEqual(changedPart({ a: 2, list: [], none: 'x' }, base), { a: 2, list: [], none: 'x' });
  const nested = { session: { idle: 2, single: false }, other: { b: 2 } };
  t.deepEqual(changedPart(nested, base, ['session']), { session: { idle: 2 }, other: { b: 2 } });
});

const refusal = (status: number, details: unknown) => Object.assign(new Error('x'), { status, details });

test('the problems of a field, of its parts and of a change that is tried are its own, and no others', (t) => {
  const error = refusal(400, [
    { path: 'uris.1', message: 'is no address' },
    { path: 'uris.2.port', message: 'is missing' },
    { path: 'uris_more', message: 'is wrong' },
    { path: 'patch.name', message: 'is too long' },
  ]);
  t.is(faultAt(error, 'uris'), 'no. 2 is no address; no. 3 port is missing');
  t.is(faultAt(error, 'name'), 'is too long');
  t.is(faultAt(error, 'uri'), null);
  t.is(faultAt(refusal(409, { used_by: ['x'] }), 'used_by'), null);
  t.is(faultAt(new Error('x'), 'name'), null);
  t.deepEqual([isConflict(refusal(412, null)), isConflict(error), isConflict(null)], [true, false, false]);
});

test('users are read from JSON and from tables with any separator, and found again in the file', (t) => {
  t.deepEqual(readUserFile(' [{"email": "a@x.example"}]').users, [{ email: 'a@x.example' }]);
  t.deepEqual(readUserFile('{"users": []}').users, []);
  for (const text of ['', 'no json', '{"people": []}', '7', 'name,address\nAda,a@x.example']) {
    t.throws(() => readUserFile(text), { instanceOf: Error }, text);
  }
  for (const separator of [',', ';', '\t']) {
    const rows = [
      ['\uFEFFemail', 'email_verified', 'app_metadata', 'plan'],
      ['a@x.example', 'TRUE', '{""plan"": 1}', ''],
      ['', '', '', ''],
      ['b@x.example', 'no', 'x', '"gold, ""Ü"""'],
    ];
    const text = rows.map((row) => row.map((cell) => (cell.startsWith('{') ? `"${cell}"` : cell)).join(separator));
    const { users, placeOf } = readUserFile(text.join('\r\n'));
    t.deepEqual(users as unknown, [
      { email: 'a@x.example', email_verified: true, app_metadata: { plan: 1 } },
      { email: 'b@x.example', email_verified: false, app_metadata: 'x', user_metadata: { plan: 'gold, "Ü"' } },
    ]);
    t.deepEqual([placeOf(0), placeOf(1)], ['row 2', 'row 4']);
  }
  t.is(repeatedIn([{ email: 'A@x.example' }, { email: 'a@x.example' }, { email: 'b@x.example' }]), 1);
});
