import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import test, { type ExecutionContext } from 'ava';
import { type TestPlatform, usePlatform } from '#test/support/platform.ts';
import { connectTo } from '#test/support/raw-http.ts';
import { serve } from '#test/support/serve.ts';
import { until } from '#test/support/until.ts';
import { configure } from './chat-scene.ts';

const mib = 1024 * 1024;
const settings = { PLINTH_ANSWERS_PER_PROJECT: String(10 * mib), PLINTH_ANSWERS_PER_PROCESS: String(200 * mib) };
const platform = usePlatform(test, { settings });
const impatient = usePlatform(test, { settings: { ...settings, PLINTH_STALLED_ANSWER_MS: '1000' } });

const dimensions = 1536;
const number = 0.123456789012;
const vector = Array.from({ length: dimensions }, () => number);

const textsIn = async (request: IncomingMessage): Promise<readonly string[]> => {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return (JSON.parse(Buffer.concat(chunks).toString()) as { input: string[] }).input;
};

/** A model server whose vectors all have 1,536 numbers. */
const embedding = (t: ExecutionContext): Promise<string> =>
  serve(t, (request, response) => {
    void textsIn(request).then((texts) => {
      const data = texts.map(() => `{"embedding":[${vector.join(',')}]}`).join(',');
      return response.writeHead(200, { 'content-type': 'application/json' }).end(`{"data":[${data}]}`);
    });
  });

const bodyFor = (texts: number) => ({ model: 'openai/e', input: Array.from({ length: texts }, () => 'x') });

const createScene = async (t: ExecutionContext, on: TestPlatform) => {
  const user = await on.client.signUp();
  const project = await on.client.createProject(user);
  await configure(on, { user, project }, 'openai', await embedding(t));
  const embed = (texts: number) => on.client.call('POST', '/v1/embeddings', { key: project.key, body: bodyFor(texts) });
  return { project, embed };
};

test('vectors count among the unsent bytes of their project until they were sent', async (t) => {
  const { embed } = await createScene(t, platform());
  // 11 MB of numbers, then 7 MB, for which there is room as long as the one before was given back.
  const refused = await embed(900);
  t.is(refused.status, 503);
  t.is(refused.body.error.code, 'overloaded');
  for (let round = 0; round < 3; round += 1) {
    const { status, body } = await embed(600);
    t.is(status, 200);
    t.is(body.data.length, 600);
    t.deepEqual(body.data.at(-1), { object: 'embedding', index: 599, embedding: vector });
  }
});

test('a client that does not read its vectors is closed', async (t) => {
  const { project } = await createScene(t, impatient());
  const socket = await connectTo(impatient().base);
  socket.on('error', () => undefined);
  const body = JSON.stringify(bodyFor(600));
  const lines = ['Host: x', `Authorization: Bearer ${project.key}`, 'Content-Type: application/json'];
  socket.write(
    `POST /v1/embeddings HTTP/1.1\r\n${lines.join('\r\n')}\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  );
  await once(socket, 'readable');
  t.regex(String(socket.read(200)), /^HTTP\/1.1 200 /);
  await until(() => Promise.resolve(impatient().logged().includes('its client did not read the answer')));
  let read = 0;
  socket.on('data', ({ length }: Buffer) => (read += length));
  if (!socket.closed) await once(socket, 'close');
  t.true(read < 600 * dimensions * String(number).length, String(read));
});
