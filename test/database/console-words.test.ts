import test from 'ava';
import {
  firstWord,
  isReading,
  isTransactionCommand,
  mayChangeSchema,
  mayWriteRows,
  mentionsSchemaChange,
} from '#domain/database/console/statement-words.ts';

for (const [sql, word] of [
  ['select 1', 'select'],
  [' ;;\n\t (( SELECT 1))', 'select'],
  ['-- begin\nselect 1', 'select'],
  ['/* a /* begin */ b */ copy x from stdin', 'copy'],
  ['/* never closed begin', ''],
  ['-- only', ''],
  ['', ''],
  ['1', ''],
  ['"begin"', ''],
] as const) {
  test(`the first word of ${JSON.stringify(sql)} is ${JSON.stringify(word)}`, (t) => t.is(firstWord(sql), word));
}

test('a long text before the first word is passed over, and 10,000 comments are a statement without a word', (t) => {
  const long = `/*${'x'.repeat(1_000_000)}*/${' ;('.repeat(100_000)}${'/*'.repeat(2000)}${'*/'.repeat(2000)}`;
  t.is(firstWord(`${long}select`), 'select');
  for (const comments of ['-- x\n'.repeat(10_000), '/*'.repeat(10_000) + '*/'.repeat(10_000)]) {
    const sql = `${comments} select 1`;
    t.is(firstWord(sql), '');
    t.false(isReading(sql));
    t.true(mayChangeSchema(sql));
    t.true(mayWriteRows(sql));
  }
});

test('transaction commands are told from what begins alike', (t) => {
  for (const sql of ['begin', 'START transaction', 'end', 'abort', 'release a', "prepare  transaction 'x'"]) {
    t.true(isTransactionCommand(sql), sql);
  }
  for (const sql of ['(begin', 'prepare a as select 1', 'select 1', 'do $$ begin end $$', 'beginning']) {
    t.false(isTransactionCommand(sql), sql);
  }
});

test('what a statement may change is never taken for less', (t) => {
  for (const sql of ['select 1', 'with a as (select 1) select * from a', 'table a', 'show all', 'explain select 1']) {
    t.true(isReading(sql), sql);
    t.false(mayChangeSchema(sql), sql);
  }
  for (const sql of [
    'with a as (insert into b values (1)) select 1',
    'select 1 into a',
    'explain analyze delete from a',
    'explain analyze create table a as select 1',
    'do $$ begin end $$',
    'call a()',
    'update a set b = 1',
  ]) {
    t.false(isReading(sql), sql);
    t.true(mayWriteRows(sql), sql);
  }
  for (const sql of [
    'select 1 into a',
    'explain analyze create table a as select 1',
    'CREATE TABLE a ()',
    'do $$ $$',
    'call a()',
  ]) {
    t.true(mayChangeSchema(sql), sql);
    t.true(mentionsSchemaChange(`select 1; ${sql}`), sql);
  }
  t.true(mayWriteRows('select f()'));
  t.false(mayWriteRows('select * from a'));
  t.false(mayChangeSchema('insert into a values (1)'));
});
