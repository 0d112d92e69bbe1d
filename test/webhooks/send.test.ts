import test, { type ExecutionContext } from 'ava';
import { spread } from '#domain/webhooks/attempts.ts';
import { createEgress } from '#lib/egress.ts';
import { type Respond, receiverFor } from '#test/support/receiver.ts';
import { JobStopped } from '#workers/running.ts';
import { retryAfter, send } from '#domain/webhooks/message.ts';

const message = {
  body: Buffer.from('{}'),
  headers: { 'Content-Type': 'application/json' },
  shownHeaders: '{}',
  secrets: [],
};

const sendTo = async (t: ExecutionContext, respond: Respond, signal = new AbortController().signal) => {
  const egress = createEgress({ allow: '127.0.0.0/8', local: false });
  t.teardown(egress.close);
  const receiver = await receiverFor(t);
  receiver.answer(respond);
  return send({ ...message, url: receiver.url }, { egress, timeoutMs: 300, signal });
};

test('a receiver that does not answer in time has failed', async (t) => {
  const answered = await sendTo(t, () => undefined);
  t.is(answered.statusCode, null);
  t.regex(answered.error ?? '', /did not answer in time/);
});

test('one that says 200 and then drips a byte at a time has failed, too', async (t) => {
  const answered = await sendTo(t, (response) => {
    response.writeHead(200);
    const timer = setInterval(() => response.write('.'), 20);
    response.on('close', () => clearInterval(timer));
  });
  t.is(answered.statusCode, null);
  t.regex(answered.error ?? '', /did not answer in time/);
});

for (const [status, error] of [
  [200, null],
  [299, null],
  [304, 'The receiver answered 304: redirects are not followed.'],
  [404, 'The receiver answered 404.'],
] as const) {
  test(`an answer of ${status} ${error === null ? 'is a delivery' : 'is none'}`, async (t) => {
    const answered = await sendTo(t, (response) => void response.writeHead(status).end());
    t.like(answered, { statusCode: status, error, isGone: false });
  });
}

test('a private address is not reached, and the failure does not say what it leads to', async (t) => {
  const egress = createEgress({ allow: '', local: false });
  t.teardown(egress.close);
  const { signal } = new AbortController();
  const answered = await send({ ...message, url: 'http://localhost:1/' }, { egress, timeoutMs: 300, signal });
  t.is(answered.error, 'The host localhost may not be reached from here.');
});

test('a try that is stopped says nothing of its receiver', async (t) => {
  const stopping = new AbortController();
  const stopped = sendTo(t, () => stopping.abort(new JobStopped('drain')), stopping.signal);
  await t.throwsAsync(stopped, { instanceOf: JobStopped });
});

const now = Date.UTC(2026, 0, 1);

for (const [header, after] of [
  ['120', 120],
  [' 5 ', 5],
  [['7'], 7],
  ['999999999', 24 * 3600],
  [new Date(now + 60_000).toUTCString(), 60],
  [new Date(now - 60_000).toUTCString(), null],
  ['0', null],
  ['-5', null],
  ['soon', null],
  ['', null],
  [undefined, null],
] as const) {
  test(`Retry-After ${JSON.stringify(header)} asks for ${after === null ? 'nothing' : `${after} s`}`, (t) => {
    const at = retryAfter(typeof header === 'object' ? [...header] : header, now);
    t.is(at === null ? null : (at.getTime() - now) / 1000, after);
  });
}

test('pauses differ by a tenth at most', (t) => {
  t.is(
    spread(() => 0),
    0.9,
  );
  t.true(Math.abs(spread(() => 1) - 1.1) < 1e-9);
});
