import test from 'ava';
import { until } from '#test/support/until.ts';
import { bareResult, invokeAnswer } from '#domain/functions/run-report.ts';
import { type ProjectScene, useJobsApi } from '#test/jobs/scene.ts';
import type { Answer } from '#test/support/client.ts';

const { scene, platform } = useJobsApi(test, { shared: true });

interface Line {
  readonly level: string;
  readonly message: string;
  readonly fields?: Record<string, unknown>;
}

const plain = (logs: unknown): Line[] =>
  (logs as (Line & { ts: string })[]).map(({ ts: _ts, ...line }) => line as Line);

const javascript = `exports.handler = (_, { log }) => {
  console.log('plain');
  log('warn', 'low stock', { sku: 'a-1', left: 2, deep: { password: 'hunter2', id: 7n } });
  log('debug', 'no fields');
  const ring = {}; ring.ring = ring;
  log('info', 'ring', ring);
  log('info', 'list', [1]);
  log('info', 'long', { text: 'x'.repeat(9000) });
  try { log('fatal', 'no such level') } catch (error) { console.error(error.message) }
}`;

const python = `
def handler(payload, sdk):
    print('plain')
    sdk.log('warn', 'low stock', {'sku': 'a-1', 'left': 2, 'deep': {'password': 'hunter2', 'id': '7'}})
    sdk.log('debug', 'no fields')
    ring = {}
    ring['ring'] = ring
    sdk.log('info', 'ring', ring)
    sdk.log('info', 'list', [1])
    sdk.log('info', 'long', {'text': 'x' * 9000})
    try:
        sdk.log('fatal', 'no such level')
    except ValueError as error:
        sdk.log('error', str(error))
`;

const expected = [
  { level: 'info', message: 'plain' },
  { level: 'warn', message: 'low stock', fields: { sku: 'a-1', left: 2, deep: { password: '[redacted]', id: '7' } } },
  { level: 'debug', message: 'no fields' },
  { level: 'info', message: 'ring [fields left out: JSON cannot hold them]' },
  { level: 'info', message: 'list [fields left out: not an object]' },
  { level: 'info', message: 'long [fields left out: 9011 characters]' },
  { level: 'error', message: 'sdk.log: the level is one of debug, info, warn, error' },
];

/** The record of a run: its answer may come before the end is recorded. */
const recorded = (ask: ProjectScene['ask'], fnId: string, id: string): Promise<Answer['body']> =>
  until(async () => {
    const { body } = await ask('GET', `/functions/${fnId}/invocations/${id}`);
    return body.status === 'success' && (body as object);
  });

test('lines with fields stand among the others, in both languages; secrets and what JSON cannot hold are left out', async (t) => {
  const { ask, fn } = await scene(javascript);
  const snake = await ask('POST', '/functions', { body: { name: 'snake', language: 'python', code: python } });
  for (const id of [fn.id, String(snake.body.id)]) {
    const { body } = await ask('POST', `/functions/${id}/invoke`, { body: { payload: null } });
    t.deepEqual(plain(body.logs), expected);
    t.deepEqual((await recorded(ask, id, body.invocation_id)).logs, body.logs);
  }
});

test('the log of a run with fields has the same bound as any other', async (t) => {
  const { ask, fn } = await scene(`exports.handler = (_, { log }) => {
    for (let i = 0; i < 100; i++) log('info', '', { text: 'x'.repeat(8000) });
  }`);
  const { body } = await ask('POST', `/functions/${fn.id}/invoke`, { body: { payload: null } });
  t.is((body.logs as Line[]).length, 32);
  t.true((await recorded(ask, fn.id, body.invocation_id)).logs_truncated);
});

test('no field of a line is taken for the end of the result', async (t) => {
  const fields = { a: 1, duration_ms: 5, response: 'text' };
  const { project, fn } = await scene(`exports.handler = (_, { log }) => {
    log('info', 'm', ${JSON.stringify(fields)});
    return { secret: 1 };
  }`);
  const answer = await platform().client.call('POST', `/api/functions/${fn.slug}`, { key: project.key, body: {} });
  t.deepEqual(answer.body, { secret: 1 });
  const logs = [{ ts: '', level: 'info', message: 'm', fields }];
  const text = invokeAnswer('i', { status: 'success', result: '{}', durationMs: 1, error: null, logs });
  t.is(bareResult(text), '{}');
  t.deepEqual((JSON.parse(text) as { logs: unknown }).logs, logs);
});
