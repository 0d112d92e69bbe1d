import test from 'ava';
import type { Command } from 'commander';
import { parseEnv } from '#cli/commands/env.ts';
import { complete } from '#cli/commands/completion.ts';
import { sqlPlace } from '#cli/commands/database/place.ts';
import { sinceOf } from '#cli/commands/logs.ts';
import { globMatcher, readPlace, urlPath } from '#cli/commands/storage/place.ts';
import { Failure } from '#cli/errors.ts';
import { createEventReader } from '#cli/events.ts';
import { readUrl } from '#cli/link.ts';
import { tableText } from '#cli/output.ts';
import { commandOf, createProgram, groups } from '#cli/program.ts';
import { bytesText, clean, didYouMean, jsonText, secondsText } from '#cli/text.ts';

test('what could steer a terminal is written as an escape', (t) => {
  t.is(clean('a\u001B[2Jb\u0007\u009Bc\u007F'), String.raw`a\x1b[2Jb\x07\x9bc\x7f`);
  t.is(clean('one\r\ntwo\tthree\rfour'), `one\ntwo\tthree${String.raw`\x0d`}four`);
  t.is(clean('user\u202Egpj.exe'), String.raw`user\u202egpj.exe`);
  t.is(clean('Grüße 🛏'), 'Grüße 🛏');
});

test('JSON cannot steer a terminal either, and reads back as it was', (t) => {
  const value = { a: '\u009B2J\u202E\u007F\u001B' };
  // oxlint-disable-next-line no-control-regex -- control characters are what it is about
  t.notRegex(jsonText(value), /[\u0000-\u001F\u007F-\u009F\u202E]/);
  t.deepEqual(JSON.parse(jsonText(value)), value);
});

test('sizes and times are short', (t) => {
  t.deepEqual([0, 999, 1000, 1_500_000, 123_456_789_000].map(bytesText), [
    '0 B',
    '999 B',
    '1.0 KB',
    '1.5 MB',
    '123 GB',
  ]);
  t.deepEqual([0, 75, 3725].map(secondsText), ['0:00', '1:15', '1:02:05']);
});

test('a name that is near is proposed, one that is far is not', (t) => {
  t.is(didYouMean('depoly', ['deploy', 'delete']), ' Did you mean deploy?');
  t.is(didYouMean('xyz', ['deploy', 'delete']), '');
  t.is(didYouMean('anything', []), '');
});

test('a table that is wider than the terminal becomes one value a line', (t) => {
  const rows = [
    { name: 'a', long: 'x'.repeat(50) },
    { name: 'b', long: null },
  ];
  t.is(tableText(rows, 200).split('\n').length, 3);
  const narrow = tableText(rows, 40);
  t.true(narrow.startsWith('name  a\n'));
  t.true(narrow.includes('long  -'));
});

test('an event stream is read however it is cut', (t) => {
  const text =
    'id: 1\r\nevent: log\r\ndata: {"a":1}\r\n\r\n: keep-alive\n\ndata: one\ndata: two\n\nid: 2\nevent: gap\ndata: \n\n';
  const whole = createEventReader()(text);
  t.deepEqual(whole, [
    { event: 'log', data: '{"a":1}', id: '1' },
    { event: 'message', data: 'one\ntwo', id: '1' },
    { event: 'gap', data: '', id: '2' },
  ]);
  const read = createEventReader();
  t.deepEqual(
    Array.from(text).flatMap((piece) => read(piece)),
    whole,
  );
});

test('a place in SQL is a line and a caret', (t) => {
  t.deepEqual(sqlPlace('select 1;\nselect 🛏 x', 18), { line: 2, text: '  select 🛏 x\n         ^' });
  t.is(sqlPlace('select', null), null);
  t.is(sqlPlace('select', 99), null);
  const long = sqlPlace(`${'a '.repeat(500)}x`, 1001);
  t.true(long !== null && long.text.split('\n').every((line) => line.length < 80));
});

test('spans and times are understood, other words refused', (t) => {
  const now = Date.parse('2026-01-02T00:00:00Z');
  t.is(sinceOf('1d', now), '2026-01-01T00:00:00.000Z');
  t.is(sinceOf('2026-01-01T12:00:00+02:00', now), '2026-01-01T10:00:00.000Z');
  t.throws(() => sinceOf('soon', now), { instanceOf: Failure });
});

test('a .env file is read as shells and dotenv read it', (t) => {
  const text = `# a comment\nexport A=1\nB="two words" \nC='it''s $HOME'\nD=x # comment\nE=\nF="a\\nb"\nURL=postgres://u:p@h/d?x=1#y\n`;
  t.deepEqual(parseEnv(text, '.env'), {
    A: '1',
    B: 'two words',
    C: "it''s $HOME",
    D: 'x',
    E: '',
    F: 'a\nb',
    URL: 'postgres://u:p@h/d?x=1#y',
  });
  t.throws(() => parseEnv('A=1\nnot a line', '.env'), { message: /Line 2/ });
  t.throws(() => parseEnv('1A=1', '.env'), { message: /Line 1/ });
});

test('patterns match within folders, and across them by two stars', (t) => {
  const names = ['a.png', 'x/a.png', 'x/y/b.png', 'x/c.txt', 'x/[1].png'];
  const matched = (glob: string): string[] => names.filter(globMatcher(glob));
  t.deepEqual(matched('*.png'), ['a.png']);
  t.deepEqual(matched('x/*.png'), ['x/a.png', 'x/[1].png']);
  t.deepEqual(matched('**/*.png'), ['a.png', 'x/a.png', 'x/y/b.png', 'x/[1].png']);
  t.deepEqual(matched('x/?.txt'), ['x/c.txt']);
  t.deepEqual(matched('x/[1].png'), ['x/[1].png']);
});

test('a place is a bucket and a name, whose slashes stay', (t) => {
  t.deepEqual(readPlace('plinth://pictures/a b/ü.png', { bucket: 'own' }), { bucket: 'pictures', name: 'a b/ü.png' });
  t.deepEqual(readPlace('plinth:///x', { bucket: 'own' }), { bucket: 'own', name: 'x' });
  t.is(urlPath({ bucket: 'b', name: 'a b/?#%.png' }), 'b/a%20b/%3F%23%25.png');
  t.throws(() => readPlace('pictures/x', { bucket: 'own' }), { instanceOf: Failure });
});

test('addresses are taken without a slash at their end, and only those of the web', (t) => {
  t.is(readUrl('https://plinth.example/'), 'https://plinth.example');
  t.is(readUrl('plinth.example/sub/'), 'https://plinth.example/sub');
  for (const bad of ['', 'ftp://x', 'http://', 'https://user:pass@x.example'])
    t.throws(() => readUrl(bad), { instanceOf: Failure }, bad);
});

const noAct = () => () => Promise.resolve();
const namesOf = (program: Command): string[] => program.commands.map((command) => command.name());

test('a command that is called is loaded without the others', async (t) => {
  const known = groups.flatMap(({ names }) => names);
  t.deepEqual(namesOf(await createProgram('', noAct)), [...known, '__complete']);
  for (const { names } of groups) {
    for (const name of names) {
      const alone = namesOf(await createProgram('', noAct, name)).filter((one) => one !== '__complete');
      t.deepEqual(alone, names, name);
    }
  }
  t.is(commandOf(['--json', '--url', 'storage', '--project', 'x', '-y', 'db', 'push']), 'db');
  for (const unsure of [[], ['--help'], ['--url=x', 'db'], ['-V', 'db'], ['--json']])
    t.is(commandOf(unsure), undefined);
  for (const all of ['__complete', 'help', 'stroage'])
    t.is(namesOf(await createProgram('', noAct, all)).length, known.length + 1);
});

test('completion proposes the commands and options at each place', async (t) => {
  const program = await createProgram('', noAct);
  t.true(complete(program, ['']).includes('functions'));
  t.deepEqual(complete(program, ['functions', 'de']), ['delete', 'deploy']);
  t.deepEqual(complete(program, ['functions', 'deploy', '--pr']), ['--project', '--prune']);
  t.deepEqual(complete(program, ['nowhere', 'x']), []);
  t.false(complete(program, ['']).includes('__complete'));
});
