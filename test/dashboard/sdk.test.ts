import { javascriptLanguage, typescriptLanguage } from '@codemirror/lang-javascript';
import { pythonLanguage } from '@codemirror/lang-python';
import test from 'ava';
import type { KnownTables } from '../../web/dashboard/client/known-tables.ts';
import { placeAt } from '../../web/dashboard/client/sdk-calls.ts';
import { optionsAt } from '../../web/dashboard/components/sdk-completion.ts';
import { unknownNames } from '../../web/dashboard/components/sdk-lint.ts';

const column = (name: string, type: string, values: readonly string[] | null = null, nullable = true) => ({
  name,
  type,
  nullable,
  values,
});

const odd = `it's "odd"`;
const tables: KnownTables = {
  orders: [
    column('id', 'bigint', null, false),
    column('state', 'order_state', ['new', 'paid', `it's`]),
    column('gift', 'boolean'),
    column(odd, 'text'),
  ],
  'shop.items': [column('id', 'integer')],
};

type Language = 'javascript' | 'python';

/** The labels that are offered at the end of the code, with what each puts in. */
const offered = (before: string, language: Language = 'javascript'): Record<string, unknown> => {
  const place = placeAt(before);
  const options = place === null ? [] : optionsAt(place, tables, language);
  return Object.fromEntries(options.map(({ label, apply }) => [label, apply ?? label]));
};

test('tables are offered in the name of a call, and columns with their types in the row', (t) => {
  const names = { orders: 'orders', 'shop.items': 'shop.items' };
  t.deepEqual(offered(`await sdk.db.select('`), names);
  t.deepEqual(offered(`const a = 1;\nawait tx.insert("or`), names);
  t.deepEqual(offered(`db.update('orders', { st`), { id: 'id', state: 'state', gift: 'gift', [odd]: `'it\\'s "odd"'` });
  t.deepEqual(offered(`db.insert("orders", [{ id: 1, state: 'new' }, { 'id': 2, `), {
    state: 'state',
    gift: 'gift',
    [odd]: `'it\\'s "odd"'`,
  });
  t.deepEqual(Object.keys(offered(`db.insert('orders', { '`)), ['id', 'state', 'gift', odd]);
  t.is(offered(`sdk.db.insert('orders', {'`, 'python')['id'], 'id');
  t.is(offered(`sdk.db.insert('orders', {`, 'python')['id'], `'id'`);
  const place = placeAt(`db.insert('orders', { `);
  const options = place === null ? [] : optionsAt(place, tables, 'javascript');
  t.deepEqual(
    options.map(({ detail }) => detail),
    ['bigint, not null', 'order_state', 'boolean', 'text'],
  );
});

test('values of an enum are offered as texts, and columns within a condition', (t) => {
  t.deepEqual(offered(`db.insert('orders', { id: 1, state: `), { new: `'new'`, paid: `'paid'`, [`it's`]: `'it\\'s'` });
  t.deepEqual(offered(`db.insert('orders', { state: 'p`), { new: 'new', paid: 'paid', [`it's`]: `it's` });
  t.deepEqual(offered(`db.insert('orders', { gift: `), { true: 'true', false: 'false' });
  t.deepEqual(offered(`sdk.db.insert('orders', {'gift': `, 'python'), { True: 'True', False: 'False' });
  t.deepEqual(offered(`db.insert('orders', { id: `), {});
  t.deepEqual(Object.keys(offered(`db.select('orders', 'sta`)), ['id', 'state', 'gift', odd]);
  t.deepEqual(Object.keys(offered(`db.update('orders', { id: 1 }, 'id = $1 and `)), ['id', 'state', 'gift', odd]);
});

test('elsewhere nothing is offered: after the call, within other values, for tables that are not there', (t) => {
  for (const before of [
    `db.select('orders'); const a = { `,
    `db.select('orders', '', { `,
    `db.insert('orders', { doc: { `,
    `db.insert('orders', { doc: f(`,
    `db.insert('nothing', { `,
    `db.insert('orders', x, { `,
    `db.insert(table, { `,
    `db.insert('constructor', { `,
    `f.select('`,
  ])
    t.deepEqual(offered(before), {}, before);
});

const faultsIn = (source: string, language: Language | 'typescript' = 'javascript'): string[] => {
  const languages = { javascript: javascriptLanguage, typescript: typescriptLanguage, python: pythonLanguage };
  const { parser } = languages[language];
  return unknownNames(parser.parse(source), source, tables).map(
    ({ from, to, message }) => `${source.slice(from, to)}: ${message}`,
  );
};

test('names that the project does not have are marked where they stand, with the name that was meant', (t) => {
  t.deepEqual(faultsIn(`export default async (p, { db }) => { await db.select('order', 'id = $1', [1]); };`), [
    'order: There is no table order. Did you mean orders?',
  ]);
  t.deepEqual(faultsIn(`await sdk.db.insert("orders", [{ id: 1, stat: 'new' }, { 'gfit': true, state: 'payed' }])`), [
    'stat: orders has no column stat. Did you mean state?',
    'gfit: orders has no column gfit. Did you mean gift?',
    'payed: order_state has no value payed. Did you mean paid?',
  ]);
  t.deepEqual(
    faultsIn(`sdk.asCaller.db.update(\`orders\`, { state: 'new', nope: 1 } as Row, 'id = $1', [1]);`, 'typescript'),
    [],
    'what a type stands on is left alone',
  );
  t.deepEqual(faultsIn(`sdk.asCaller.db.update(\`orders\`, { nope }, 'id = $1', [1]);`, 'typescript'), [
    'nope: orders has no column nope.',
  ]);
  t.deepEqual(faultsIn(`db.remove('shop.item', 'id = 1'); db.select('public.orders');`), [
    'shop.item: There is no table shop.item. Did you mean shop.items?',
  ]);
  t.deepEqual(
    faultsIn(
      `async def handler(p, sdk):\n  await sdk.db.insert('orders', {'stat': 'new', "state": "nwe"})\n`,
      'python',
    ),
    ['stat: orders has no column stat. Did you mean state?', 'nwe: order_state has no value nwe. Did you mean new?'],
  );
  t.deepEqual(faultsIn(`sdk.as_caller.db.select("order", where="id = 1")`, 'python'), [
    'order: There is no table order. Did you mean orders?',
  ]);
});

test('what is right, computed, imported or not of the sdk is not marked; nor does unfinished code break it', (t) => {
  const silent: readonly (readonly [string, Language])[] = [
    [
      `db.insert('orders', { id: 1, state: 'new', gift: true, ${JSON.stringify(odd)}: 'x', ...rest, [key]: 1 })`,
      'javascript',
    ],
    ['db.select(`ord${x}`); db.select(table); db.insert("orders", row)', 'javascript'],
    [`import { db } from './other.js'; db.select('order')`, 'javascript'],
    [`import db from 'other'; await db.insert('x', { y: 1 })`, 'javascript'],
    [`from other import db\ndb.select('order')`, 'python'],
    [`document.select('order'); list.insert('order', { a: 1 }); update('x', {})`, 'javascript'],
    [`db.query('select nope from nothing')`, 'javascript'],
    [`db.select('auth.users'); db.select('pg_catalog.pg_class')`, 'javascript'],
    [`db.insert('orders', {`, 'javascript'],
    [`db.insert('orders', { id: `, 'javascript'],
    [`db.insert(`, 'python'],
    [`db.insert('orders', {'id': `, 'python'],
    [`sdk.db.insert('orders', dict(nope=1))`, 'python'],
    [`db.insert(f'ord{x}', {'a': 1})`, 'python'],
  ];
  for (const [source, language] of silent) t.deepEqual(faultsIn(source, language), [], source);
});
