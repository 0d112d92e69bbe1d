import test from 'ava';
import { escapeLiteral } from 'pg';
import { quote, quoteInTurns } from '#lib/postgres/quote.ts';

test('a text is quoted as pg quotes it, whatever its length', async (t) => {
  const texts = ['', 'a', "it's", String.raw`a\b`, String.raw`\'`, "''", 'x\n\u{1f6cf}', '$$ $1 "'];
  // The cut between two parts goes through a quote, a backslash or a pair.
  const long = ["'", '\\', '\u{1f6cf}', String.raw`\'`].map((sign) => `${'x'.repeat(65_535)}${sign.repeat(40_000)}`);
  for (const text of [...texts, ...long]) {
    t.true(quote(text) === escapeLiteral(text), text.slice(-10));
    t.true((await quoteInTurns(text)) === escapeLiteral(text), text.slice(-10));
  }
});

test('megabytes of quotes are quoted', async (t) => {
  const text = "'".repeat(6_000_000);
  t.is(quote(text).length, 12_000_002);
  t.is((await quoteInTurns(text)).length, 12_000_002);
});
