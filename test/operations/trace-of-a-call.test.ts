import test from 'ava';
import { startTracing } from '#lib/tracing.ts';
import { memoryLog, usePlatform } from '#test/support/platform.ts';
import { until } from '#test/support/until.ts';
import { type OtlpReceiver, type ReceivedSpan, startOtlpReceiver } from './otlp-receiver.ts';

// The caller is a proxy whose traces are trusted.
const platform = usePlatform(test, { settings: { PLINTH_TRUST_PROXY: 'on' } });
const open = usePlatform(test, { worker: false });
const callerTrace = '0af7651916cd43dd8448eb211c80319c';
const callerSpan = 'b7ad6b7169203331';

let receiver: OtlpReceiver;
let stopTracing: () => Promise<void>;

test.before('tracing is turned on', async () => {
  receiver = await startOtlpReceiver();
  stopTracing = await startTracing({
    endpoint: receiver.endpoint,
    service: 'plinth-test',
    ratio: 1,
    log: memoryLog().log,
  });
});

test.after.always('the receiver goes', async () => {
  await stopTracing();
  receiver.close();
});

const spansOf = (trace: string): ReceivedSpan[] => receiver.spans.filter(({ traceId }) => traceId === trace);

test('one trace spans a request, the acceptance of its job and the run', async (t) => {
  const { client, db } = platform();
  const user = await client.signUp();
  const project = await client.createProject(user);
  const { slug } = await client.deploy(user, project, 'exports.handler = () => 1');
  const answer = await client.call('POST', `/api/functions/${slug}`, {
    key: project.key,
    body: {},
    headers: { traceparent: `00-${callerTrace}-${callerSpan}-01`, 'x-request-id': 'traced-call' },
  });
  t.is(answer.status, 200);
  const spans = await until(() => (spansOf(callerTrace).length >= 3 ? spansOf(callerTrace) : null));
  t.is(spans.length, 3);
  const [request, accept, run] = ['POST /api/functions/:slug', 'job accept', 'job run'].map((name) =>
    spans.find((span) => span.name === name),
  );
  t.is(request?.parentSpanId, callerSpan);
  t.is(accept?.parentSpanId, request?.spanId);
  t.is(run?.parentSpanId, accept?.spanId);
  t.is(request?.attributes['http.response.status_code'], 200);
  t.is(request?.attributes['plinth.request.id'], 'traced-call');
  const [job] = await db.query<{ id: string; traceparent: string }>(
    `select id, traceparent from jobs where request_id = 'traced-call'`,
  );
  t.is(job?.traceparent, `00-${callerTrace}-${accept?.spanId}-01`);
  t.is(run?.attributes['plinth.job.id'], job?.id);
});

test('probes and scrapes leave no spans', async (t) => {
  const trace = callerTrace.replace('0', '1');
  const headers = { traceparent: `00-${trace}-${callerSpan}-01` };
  for (const path of ['/healthz', '/readyz', '/metrics', '/docs'])
    await platform().client.call('GET', path, { headers });
  const [span] = await until(() => (spansOf(trace).length > 0 ? spansOf(trace) : null));
  t.is(span?.attributes['url.path'], '/docs');
  t.is(spansOf(trace).length, 1);
});

test('a stranger’s trace is not believed: the request begins one of its own', async (t) => {
  const trace = callerTrace.replace('0', '3');
  const headers = { traceparent: `00-${trace}-${callerSpan}-01`, 'x-request-id': 'a-stranger' };
  await open().client.call('GET', '/docs', { headers });
  const span = await until(() =>
    receiver.spans.find(({ attributes }) => attributes['plinth.request.id'] === 'a-stranger'),
  );
  t.not(span.traceId, trace);
  t.falsy(span.parentSpanId);
});

test('what a trace says of a path holds no token', async (t) => {
  const trace = callerTrace.replace('0', '2');
  const headers = { traceparent: `00-${trace}-${callerSpan}-01` };
  await platform().client.call('GET', '/team/invites/plinth_inv_secretsecretsecret?a=b', { headers });
  const [span] = await until(() => (spansOf(trace).length > 0 ? spansOf(trace) : null));
  t.is(span?.attributes['url.path'], '/team/invites/plinth_inv_[redacted]');
});
