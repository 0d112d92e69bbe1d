import { type IncomingMessage, type ServerResponse, createServer } from 'node:http';
import { text } from 'node:stream/consumers';
import test from 'ava';
import { usePlatform } from '#test/support/platform.ts';
import { webhookScene } from './api-scene.ts';

const platform = usePlatform(test, { shared: true });

interface Received {
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: string;
}

/** A receiver that answers `status`, and what it was sent. */
const receiver = async (status: number) => {
  const received: Received[] = [];
  const take = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    received.push({ headers: request.headers, body: await text(request) });
    response.writeHead(status).end('seen');
  };
  const server = createServer((request, response) => void take(request, response));
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const port = typeof address === 'object' && address ? address.port : 0;
  return { received, url: `http://127.0.0.1:${port}/`, close: () => server.close() };
};

test('a test is sent at once to a webhook that is inactive and subscribes to something else', async (t) => {
  const { url, received, close } = await receiver(204);
  const { ask, made, project } = await webhookScene(platform());
  const id = await made({ url, events: ['auth.login'], active: false });
  const { status, body } = await ask('POST', `/webhooks/${id}/test`);
  close();
  t.is(status, 200);
  t.like(body, { delivered: true, status_code: 204, error: null });
  t.true(body.response_time_ms >= 0);
  t.is(received.length, 1);
  const sent = JSON.parse(received[0]?.body ?? '');
  t.like(sent, { event: 'test.ping', project_id: project.id });
  t.is(sent.data.webhook_id, id);
  const { deliveries } = (await ask('GET', `/webhooks/${id}/deliveries`)).body;
  t.is(deliveries.length, 1);
  t.like(deliveries[0], {
    event: 'test.ping',
    event_id: sent.id,
    status: 'success',
    attempt: 1,
    next_attempt_at: null,
  });
  t.is(deliveries[0].request_body, received[0]?.body);
});

test('a test that fails says why, and is not tried again', async (t) => {
  const { url, received, close } = await receiver(500);
  const { ask, made } = await webhookScene(platform());
  const refused = await made({ url });
  const away = await made({ url: 'http://127.0.0.1:9/' });
  const [first, second] = [await ask('POST', `/webhooks/${refused}/test`), await ask('POST', `/webhooks/${away}/test`)];
  close();
  t.like(first.body, { delivered: false, status_code: 500 });
  t.like(second.body, { delivered: false, status_code: null });
  t.truthy(first.body.error && second.body.error);
  t.is(received.length, 1);
  for (const id of [refused, away]) {
    const [row] = (await ask('GET', `/webhooks/${id}/deliveries`)).body.deliveries;
    t.like(row, { event: 'test.ping', attempt: 1, next_attempt_at: null });
    t.not(row.status, 'success');
    t.not(row.status, 'pending');
  }
});

test('the same Idempotency-Key sends one test', async (t) => {
  const { url, received, close } = await receiver(200);
  const { ask, made } = await webhookScene(platform());
  const id = await made({ url });
  const send = () => ask('POST', `/webhooks/${id}/test`, undefined, { 'idempotency-key': 'one' });
  const answers = await Promise.all([send(), send()]);
  close();
  t.deepEqual(answers[0].body, answers[1].body);
  t.is(received.length, 1);
});
