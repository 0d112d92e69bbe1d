import test from 'ava';
import { publicAnswer } from '#domain/functions/run-report.ts';
import { ServiceError } from '#lib/errors.ts';
import { payloadText } from '#api/routes/functions/invoke.ts';

test('a payload is handed on as it is written, however its name is', (t) => {
  const payload = `[1.50,9007199254740995${',0'.repeat(1_000_000)}]`;
  for (const name of ['payload', String.raw`\u0070ayload`, String.raw`p\u0061\u0079\u006C\u006fa\u0064`])
    t.is(payloadText(` { "${name}" : ${payload} } `), payload, name);
  t.is(payloadText(''), 'null');
  t.is(payloadText('{}'), 'null');
});

test('a payload that is named twice is the last one, as long as it is short', (t) => {
  t.is(payloadText('{"payload":1,"payload":1.50}'), '1.50');
  const long = `{"payload":1,"payload":[1.50${',0'.repeat(200_000)}]}`;
  const error = t.throws(() => payloadText(long), { instanceOf: ServiceError });
  t.like(error, { code: 'validation_failed', details: [{ path: 'payload' }] });
});

test('what a function says of its own inside is left out of an answer, and the result stays as it is', (t) => {
  const inside = '"error":{"name":"Error","message":"m","stack":"s"},"logs":[]';
  const result = String.raw`{"logs":1.50,"error":[",\"duration_ms\":"]}`;
  const answer = `{"status":"error","result":${result},"duration_ms":1,"timings":{},"invocation_id":"i",${inside}}`;
  t.is(publicAnswer(answer), `{"status":"error","result":${result},"duration_ms":1,"invocation_id":"i"}`);
  t.is(publicAnswer(`{"status":"error",${inside}}`), '{"status":"error"}');
});
