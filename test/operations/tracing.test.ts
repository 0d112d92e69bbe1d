import { setImmediate as turn } from 'node:timers/promises';
import test from 'ava';
import { type TracingOptions, currentTraceparent, isTracing, startTracing, traced } from '#lib/tracing.ts';
import { filesOf, productFolders } from '#test/architecture/source.ts';
import { memoryLog } from '#test/support/platform.ts';
import { type OtlpReceiver, startOtlpReceiver } from './otlp-receiver.ts';

// Tracing belongs to the process: one test at a time.
const callerTrace = '4bf92f3577b34da6a3ce929d0e0e4736';
const callerSpan = '00f067aa0ba902b7';

const tracing = async (
  work: (receiver: OtlpReceiver) => Promise<void>,
  options: Partial<TracingOptions> = {},
): Promise<OtlpReceiver> => {
  const receiver = await startOtlpReceiver();
  const { endpoint } = receiver;
  const stop = await startTracing({ endpoint, service: 'plinth-test', ratio: 1, log: memoryLog().log, ...options });
  try {
    await work(receiver);
  } finally {
    await stop();
    receiver.close();
  }
  return receiver;
};

test.serial('without a receiver nothing is traced, and the work runs as it is', async (t) => {
  const stop = await startTracing({ endpoint: undefined, service: 'x', ratio: 1, log: memoryLog().log });
  t.false(isTracing());
  const answer = await traced('job run', {}, `00-${callerTrace}-${callerSpan}-01`, (span) => {
    span.set({ a: 1 });
    span.fail('no');
    return Promise.resolve(currentTraceparent());
  });
  t.is(answer, null);
  await stop();
});

test.serial('a span continues the trace of its caller, and what runs in it belongs to it', async (t) => {
  const handedOn: (string | null)[] = [];
  const { spans } = await tracing(async () => {
    await traced('http request', { 'url.path': '/a' }, `00-${callerTrace}-${callerSpan}-01`, async (span) => {
      await turn();
      span.rename('GET /a');
      await traced('job accept', {}, null, async () => {
        await turn();
        handedOn.push(currentTraceparent());
      });
    });
    await traced('job run', { 'plinth.job_id': 'j1' }, handedOn[0] ?? null, () => Promise.resolve());
  });
  const [run, accept, request] = ['job run', 'job accept', 'GET /a'].map((name) => spans.find((s) => s.name === name));
  t.deepEqual(
    [request, accept, run].map((span) => span?.traceId),
    [callerTrace, callerTrace, callerTrace],
  );
  t.is(request?.parentSpanId, callerSpan);
  t.is(accept?.parentSpanId, request?.spanId);
  t.is(run?.parentSpanId, accept?.spanId);
  t.deepEqual(handedOn, [`00-${callerTrace}-${accept?.spanId}-01`]);
  t.deepEqual([request?.kind, accept?.kind, run?.kind], [2, 4, 5]);
  t.is(run?.service, 'plinth-test');
  t.is(run?.attributes['plinth.job_id'], 'j1');
  t.is(currentTraceparent(), null);
});

for (const traceparent of [
  '',
  'garbage',
  `00-${'0'.repeat(32)}-${callerSpan}-01`,
  `00-${callerTrace}-${'0'.repeat(16)}-01`,
  `ff-${callerTrace}-${callerSpan}-01`,
  `00-${callerTrace.toUpperCase()}-${callerSpan}-01`,
  `00-${callerTrace}-${callerSpan}-01-more`,
]) {
  test.serial(`a traceparent of ${JSON.stringify(traceparent)} begins a trace of its own`, async (t) => {
    const { spans } = await tracing(() => traced('http request', {}, traceparent, () => Promise.resolve()));
    t.is(spans.length, 1);
    t.not(spans[0]?.traceId, callerTrace);
    t.falsy(spans[0]?.parentSpanId);
  });
}

test.serial('a later version of traceparent is read as far as it is known', async (t) => {
  const { spans } = await tracing(() =>
    traced('http request', {}, `01-${callerTrace}-${callerSpan}-01-more`, () => Promise.resolve()),
  );
  t.is(spans[0]?.parentSpanId, callerSpan);
});

test.serial('work that throws leaves a span that says so, and the error', async (t) => {
  const { spans } = await tracing(async () => {
    const work = traced('job run', {}, null, () => Promise.reject(new Error('no database')));
    await t.throwsAsync(work, { message: 'no database' });
  });
  t.is(spans[0]?.error, 'no database');
});

const request = (parent: string | null): Promise<void> => traced('http request', {}, parent, () => Promise.resolve());

test.serial('a ratio of 0 records only what the caller records', async (t) => {
  const { spans } = await tracing(
    async () => {
      await request(null);
      await request(`00-${callerTrace}-${callerSpan}-00`);
      await request(`00-${callerTrace}-${callerSpan}-01`);
    },
    { ratio: 0 },
  );
  t.deepEqual(
    spans.map(({ parentSpanId }) => parentSpanId),
    [callerSpan],
  );
});

test.serial('a receiver that refuses costs one warning, and no request', async (t) => {
  const { log, text } = memoryLog();
  await tracing(
    async (receiver) => {
      receiver.answer(400);
      await traced('job run', {}, null, () => Promise.resolve());
    },
    { log },
  );
  t.is(text().split('traces cannot be delivered').length - 1, 1);
});

test('no file loads OpenTelemetry before tracing is turned on', (t) => {
  for (const { name, text } of filesOf(productFolders))
    t.notRegex(text, /^import (?!type )[^;]*from '@opentelemetry\//m, name);
});
