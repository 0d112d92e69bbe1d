import test from 'ava';
import { statementsIn } from '#domain/database/schema-sql/statements.ts';

test('statements end at semicolons that stand in no quotes', (t) => {
  t.deepEqual(
    statementsIn(`a 'it''s; one' "x;""y"; $$ b; $$ c; $tag$ $$; 'x $tag$; E'\\'; still' d;;
      select 1`),
    [`a 'it''s; one' "x;""y"`, '$$ b; $$ c', `$tag$ $$; 'x $tag$`, `E'\\'; still' d`, 'select 1'],
  );
});

test('comments and commands of psql are left out, but not what looks like them in quotes', (t) => {
  t.deepEqual(
    statementsIn(
      `--\n-- Name: t; Type: TABLE\n--\n\\restrict abc\na '\n-- kept\n\\! kept'; -- gone; gone\n\\! gone; gone\nb;\n\\unrestrict abc\n`,
    ),
    [`a '\n-- kept\n\\! kept'`, 'b'],
  );
});

test('names and numbers with dollars begin no quotes', (t) => {
  t.deepEqual(statementsIn('a$b$c; $1; 1$2; d$e; ünï$x$; nameE; E'), [
    'a$b$c',
    '$1',
    '1$2',
    'd$e',
    'ünï$x$',
    'nameE',
    'E',
  ]);
});

test('what does not end is one statement', (t) => {
  t.deepEqual(statementsIn(`a; 'b; c`), ['a', `'b; c`]);
  t.deepEqual(statementsIn('a; $$ b; c'), ['a', '$$ b; c']);
  t.deepEqual(statementsIn(' -- nothing'), []);
});
