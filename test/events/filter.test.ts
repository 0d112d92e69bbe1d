import test from 'ava';
import { compileFilter } from '#domain/events/filter.ts';
import { ServiceError } from '#lib/errors.ts';
import { asAdmin } from '#test/support/databases.ts';

interface Case {
  readonly event: string;
  readonly data: string;
}

/** Whether filters let events pass, as PostgreSQL decides. */
const passes = (cases: readonly (Case & { readonly filter: string })[]): Promise<boolean[]> =>
  asAdmin('postgres', async (db) => {
    const passed: boolean[] = [];
    for (const { filter, event, data } of cases) {
      const { table, other } = compileFilter(filter);
      const { rows } = await db.query<{ passed: boolean }>(
        `select coalesce(jsonb_path_match($1::jsonb, $2::text::jsonpath, jsonb_build_object('event', $3::text), true), false)
           as passed`,
        [data, event.startsWith('table.') ? table : other, event],
      );
      passed.push(rows[0]?.passed ?? false);
    }
    return passed;
  });

const paid = `{"row":{"status":"paid","total":12.50,"big":12345678901234567891,"tags":["vip"],"note":null,
  "address":{"city":"Köln","a \\"b\\"":1},"due":"2026-03-01T00:00:00Z","ok":true,"path":"a/b.c"},
  "old":{"status":"open","total":12.5}}`;

const ofTable: Readonly<Record<string, boolean>> = {
  "data.status = 'paid'": true,
  "data.status = 'open'": false,
  "data.status = 'paid' and old.status <> 'paid'": true,
  "data.status != 'paid' or old.status = 'open'": true,
  "not data.status = 'paid'": false,
  "not (data.status = 'open' or data.total > 100)": true,
  'data.total = 12.5': true,
  'data.total > 12.49 and data.total < 12.51': true,
  'data.total >= 12.5 and data.total <= 1.25e1': true,
  'data.total = old.total': true,
  'data.total <> old.total': false,
  'data.big = 12345678901234567891': true,
  'data.big = 12345678901234567890': false,
  'data.big > 12345678901234567890': true,
  'data.nowhere is null': true,
  'data.note is null': true,
  'data.status is null': false,
  'data.status is not null': true,
  'data.nowhere is not null': false,
  'data.nowhere = null': true,
  'data.nowhere = data.note': true,
  'data.nowhere <> 1': true,
  'data.nowhere > 1': false,
  'not data.nowhere > 1': true,
  'data.status.deeper is null': true,
  "data.total = '12.5'": false,
  "data.total <> '12.5'": true,
  "data.total > 'a'": false,
  "data.tags = 'vip'": false,
  'data.tags is not null': true,
  "data.address.city = 'Köln'": true,
  'data.address."a ""b""" = 1': true,
  'data."status" = \'paid\'': true,
  'data.constructor is null': true,
  'data.ok': true,
  'not data.ok': false,
  'data.status': false,
  "data.status in ('open', 'paid')": true,
  "data.status not in ('open', 'paid')": false,
  "data.nowhere not in ('open')": true,
  'data.nowhere in (1, null)': true,
  "data.status like 'pa%'": true,
  "data.status like 'p_id'": true,
  "data.status like '%d'": true,
  "data.status not like '%x%'": true,
  "data.status like 'paid'": true,
  "data.path like 'a/%.c'": true,
  "data.path like 'a/b_c'": true,
  "data.path like 'a/b\\_c'": false,
  "data.path like '%b\\.c'": true,
  "data.address.city like 'K_ln'": true,
  "data.address.city like '%öl%'": true,
  "data.total like '12%'": false,
  "data.total not like '12%'": true,
  "data.due > '2026-02-28'": true,
  "event = 'table.orders.UPDATE'": true,
  "event like 'table.%'": true,
  "EVENT LIKE 'table.%' AND NOT data.status IS NULL": true,
  'old is null': false,
  "'paid' = data.status": true,
  "data.status = 'it''s'": false,
};

const ofOthers: Readonly<Record<string, boolean>> = {
  "data.email like '%@b.example'": true,
  'data.count = 3': true,
  'old.email is null': true,
  "old.email <> 'x'": true,
  "old.email = 'x'": false,
  'old is null': true,
  "event in ('user.created', 'user.deleted')": true,
  'data.row is null': true,
};

test('filters decide as SQL would, but that every comparison is true or false', async (t) => {
  const cases = [
    ...Object.entries(ofTable).map(([filter, expected]) => ({
      filter,
      event: 'table.orders.UPDATE',
      data: paid,
      expected,
    })),
    ...Object.entries(ofOthers).map(([filter, expected]) => {
      return { filter, event: 'user.created', data: '{"email":"a@b.example","count":3}', expected };
    }),
    { filter: 'data is null and old is null', event: 'table.orders.TRUNCATE', data: '{"row":null}', expected: true },
    { filter: "old.status <> 'paid'", event: 'table.orders.INSERT', data: '{"row":{"status":"paid"}}', expected: true },
  ];
  const answers = await passes(cases);
  t.deepEqual(
    cases.flatMap(({ filter, expected }, n) => (answers[n] === expected ? [] : [`${filter}: ${answers[n]}`])),
    [],
  );
});

const invalid: Readonly<Record<string, number>> = {
  '': 1,
  ' ': 2,
  'data.status =': 14,
  "data.status = 'paid": 15,
  "data.status == 'paid'": 14,
  "data.status = 'paid' and": 25,
  "data.status = 'paid' or or": 25,
  "status = 'paid'": 1,
  'data.status = paid': 15,
  'data. = 1': 7,
  'data.a.b.': 10,
  '(data.a = 1': 12,
  'data.a = 1)': 11,
  'data.a = 1 data.b = 2': 12,
  'data.a in ()': 12,
  'data.a in 1': 11,
  'data.a like 1': 13,
  'data.a ~ 1': 8,
  'data.a = 1; drop table users': 11,
  'data.a = 12abc': 10,
  "'a'": 4,
  'data.a = 1 and $.row == 1': 16,
  'data.a like_regex 1': 8,
  [`data.a like '${'%a'.repeat(6)}'`]: 13,
  [`data.a like '${'a'.repeat(201)}'`]: 13,
  [`${'('.repeat(60)}data.a = 1${')'.repeat(60)}`]: 52,
  [`${'not '.repeat(60)}data.a = 1`]: 205,
  [`data.a = '${'x'.repeat(10_000)}'`]: 1,
  "data.a = '\0'": 11,
  "data.a = '\ud800'": 1,
};

for (const [filter, position] of Object.entries(invalid)) {
  test(`${JSON.stringify(filter.slice(0, 40))} is refused with the position ${position}`, (t) => {
    const error = t.throws(() => compileFilter(filter), { instanceOf: ServiceError });
    t.is(error?.code, 'invalid_filter');
    t.like(error?.details, { path: 'filter', position });
  });
}

test('a filter of 4 KB, of any operators, is one that PostgreSQL takes', async (t) => {
  const parts = ['data.a = old.a', "not data.b in ('x', 'y')", "data.c like '%a_b%'", 'data.d is not null'];
  let filter = parts[0] ?? '';
  for (let n = 1; filter.length < 4000; n += 1) filter += ` ${n % 2 ? 'and' : 'or'} ${parts[n % parts.length]}`;
  const deep = `${'not ('.repeat(24)}${parts.join(' or ')}${')'.repeat(24)}`;
  const of = { event: 'table.a.INSERT', data: '{"row":{"a":1}}' };
  t.is(
    (await passes([filter.slice(0, filter.lastIndexOf(' and ')), deep].map((each) => ({ filter: each, ...of }))))
      .length,
    2,
  );
});
