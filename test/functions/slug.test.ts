import test from 'ava';
import { bareResult, invokeAnswer } from '#domain/functions/run-report.ts';
import { slugOf } from '#domain/functions/functions.ts';

test('a slug is lower-case words of ASCII between single hyphens, at most 63 long', (t) => {
  for (const name of ['a b', 'HTTPServer v2', 'ﬁn', '__x__', 'ab-'.repeat(40), 'İstanbul', 'a\u0301b', '1'])
    t.regex(slugOf(name), /^[a-z0-9]+(-[a-z0-9]+)*$/, name);
  t.true(slugOf('ab-'.repeat(40)).length <= 63);
  t.is(slugOf('…'), '');
});

test('the bare result comes out of an invoke answer exactly as it went in', (t) => {
  const run = { status: 'success', durationMs: 1.5, logs: [] } as const;
  const nasty = [',"duration_ms":', '"result":', '{"result":1,"duration_ms":2}', '9007199254740993', '"\\ud800"'];
  const texts = [...nasty.map((text) => JSON.stringify(text)), '{"result":1,"duration_ms":2}', '[1.10,1e400]', 'null'];
  for (const result of texts) {
    const error = { name: 'E', message: ',"duration_ms":', stack: '"result":' };
    const logs = [{ ts: '', level: 'info', message: ',"duration_ms":1' }];
    for (const answer of [
      invokeAnswer('id', { ...run, result, error: null }),
      invokeAnswer('id', { ...run, result, error, logs }),
    ]) {
      t.is(bareResult(answer), result);
      t.notThrows(() => JSON.parse(answer));
    }
  }
});
