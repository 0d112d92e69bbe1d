import { once } from 'node:events';
import type { Socket } from 'node:net';
import test from 'ava';
import { createRestProject } from '#test/data-api/rest-project.ts';
import { isError } from '#test/support/is-error.ts';
import { usePlatform } from '#test/support/platform.ts';
import { chunksOf, connectTo } from '#test/support/raw-http.ts';
import { until } from '#test/support/until.ts';

const mib = 1024 * 1024;

const settings = { PLINTH_ANSWERS_PER_PROJECT: String(20 * mib), PLINTH_ANSWERS_PER_PROCESS: String(200 * mib) };
const platform = usePlatform(test, { settings: { ...settings, PLINTH_STALLED_ANSWER_MS: '1000' } });
const patient = usePlatform(test, { settings });

const schema = `create function long(n int) returns text language sql stable as $$ select repeat('x', n) $$;
  create function colourful(n int) returns text language sql stable as $$ select 'y' || repeat('é€😀', n) $$;`;

/** Asks for a long answer, reads where it begins and nothing more. */
const readNothing = async (base: string, key: string, bytes: number): Promise<{ socket: Socket; head: string }> => {
  const socket = await connectTo(base);
  socket.on('error', () => undefined);
  socket.write(`GET /rest/v1/rpc/long?n=${bytes} HTTP/1.1\r\nHost: x\r\napikey: ${key}\r\n\r\n`);
  await once(socket, 'readable');
  return { socket, head: String(socket.read(200)) };
};

test('a connection is closed when its client reads nothing of a long answer', async (t) => {
  const { project } = await createRestProject(platform(), schema);
  const { socket, head } = await readNothing(platform().base, project.key, 12 * mib);
  t.regex(head, /^HTTP\/1.1 200 /);
  await until(() => Promise.resolve(platform().logged().includes('its client did not read the answer')));
  // Bytes in the kernel's buffer can still be read, and then the connection is over.
  let read = 0;
  socket.on('data', ({ length }: Buffer) => (read += length));
  if (!socket.closed) await once(socket, 'close');
  t.true(read < 12 * mib, String(read));
});

test('an answer above what a project may have unsent is 503 overloaded, and others are answered', async (t) => {
  const [greedy, other] = [await createRestProject(patient(), schema), await createRestProject(patient(), schema)];
  const refused = await greedy.alias('GET', `/rpc/long?n=${21 * mib}`);
  isError(t, refused, 503, 'overloaded');
  t.regex(refused.headers.get('retry-after') ?? '', /^\d+$/);
  const served = await other.alias('GET', `/rpc/long?n=${12 * mib}`);
  t.deepEqual([served.status, served.body.length], [200, 12 * mib]);
});

/** Bytes that arrive until the other side closes, or all of the answer has come. */
const drain = async (socket: Socket, whole: number): Promise<number> => {
  let read = 0;
  socket.on('data', ({ length }: Buffer) => {
    read += length;
    if (read >= whole) socket.destroy();
  });
  if (!socket.closed) await once(socket, 'close');
  return read;
};

test('of many answers that one project does not read, no more are kept than it may have unsent', async (t) => {
  const { project, alias } = await createRestProject(patient(), schema);
  const readers: { socket: Socket; head: string }[] = [];
  for (let i = 0; i < 5; i += 1) readers.push(await readNothing(patient().base, project.key, 12 * mib));
  // The next is refused, or takes the place of one that was not read for a while.
  const kept = readers.filter(({ head }) => head.startsWith('HTTP/1.1 200'));
  const read = await Promise.all(kept.map(({ socket }) => drain(socket, 12 * mib)));
  t.is(read.filter((bytes) => bytes >= 12 * mib).length, 1);
  for (const { socket } of readers) socket.destroy();
  await until(async () => (await alias('GET', `/rpc/long?n=${12 * mib}`)).status === 200);
});

test('what an answer took is given back when it was read', async (t) => {
  const { alias } = await createRestProject(patient(), schema);
  for (let round = 0; round < 4; round += 1) t.is((await alias('GET', `/rpc/long?n=${12 * mib}`)).status, 200);
});

test('a long answer that goes out in pieces arrives as it is, whatever its characters', async (t) => {
  const { alias } = await createRestProject(patient(), schema);
  const { status, body, headers } = await alias('GET', '/rpc/colourful?n=300001');
  t.is(status, 200);
  t.is(headers.get('content-type'), 'application/json; charset=utf-8');
  t.true(body === `y${'é€😀'.repeat(300_001)}`);
});

test('no part of a long answer is encoded and written at once that holds up the event loop', async (t) => {
  const { project } = await createRestProject(patient(), schema);
  const socket = await connectTo(patient().base);
  const lines = ['Host: x', 'Connection: close', `apikey: ${project.key}`, '', ''];
  socket.write(`GET /rest/v1/rpc/long?n=${12 * mib} HTTP/1.1\r\n${lines.join('\r\n')}`);
  const chunks: Buffer[] = [];
  for await (const chunk of socket) chunks.push(chunk as Buffer);
  const sizes = chunksOf(Buffer.concat(chunks)).map(({ length }) => length);
  t.is(
    sizes.reduce((sum, size) => sum + size, 0),
    12 * mib + 2,
  );
  t.true(Math.max(...sizes) <= 256 * 1024, String(Math.max(...sizes)));
});
