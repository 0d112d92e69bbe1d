import { once } from 'node:events';
import type { Socket } from 'node:net';
import test from 'ava';
import { systemActor } from '#domain/audit/actor.ts';
import { untilBlocked } from '#test/support/blocked.ts';
import { isError } from '#test/support/is-error.ts';
import { usePlatform } from '#test/support/platform.ts';
import { connectTo, parseAnswer, readToEnd } from '#test/support/raw-http.ts';
import { until } from '#test/support/until.ts';

const mib = 1024 * 1024;

const platform = usePlatform(test, {
  settings: {
    PLINTH_BODIES_PER_PROJECT: String(2 * mib),
    PLINTH_BODIES_PER_PROCESS: String(64 * mib),
    PLINTH_BODY_TIMEOUT_MS: '120000',
    PLINTH_BODY_MIN_RATE: '0',
    PLINTH_CONNECTIONS_PER_ADDRESS: '40',
  },
});
const strict = usePlatform(test, { worker: false, settings: { PLINTH_BODY_MIN_RATE: '100000' } });

const head = (path: string, lines: readonly string[]): string =>
  [`POST ${path} HTTP/1.1`, 'Host: x', 'Content-Type: application/json', ...lines, '', ''].join('\r\n');

/** Sends all of a body but its last byte. */
const holdBack = async (base: string, path: string, key: string, bytes: number): Promise<Socket> => {
  const socket = await connectTo(base);
  socket.write(head(path, [`apikey: ${key}`, `Content-Length: ${bytes}`]));
  socket.write(`"${'a'.repeat(bytes - 2)}`);
  return socket;
};

const invokePath = '/api/functions/none';

test.serial('bodies in flight of one project are bounded: 503 overloaded, and others are served', async (t) => {
  const { client, base } = platform();
  const owner = await client.signUp();
  const greedy = await client.createProject(owner);
  const other = await client.createProject(owner);
  // Each is below the limit by itself, and they are more than it together.
  const sockets = await Promise.all(Array.from({ length: 6 }, () => holdBack(base, invokePath, greedy.key, 600_000)));
  const refused = await Promise.any(
    sockets.map(async (socket) => {
      const [chunk] = (await once(socket, 'data')) as [Buffer];
      return parseAnswer(chunk.toString());
    }),
  );
  isError(t, refused, 503, 'overloaded');
  t.regex(refused.headers['retry-after'] ?? '', /^\d+$/);
  const body = `"${'a'.repeat(mib)}"`;
  const served = await client.call('POST', invokePath, { headers: { apikey: other.key }, raw: body });
  isError(t, served, 404, 'not_found');
  for (const socket of sockets) socket.destroy();
});

test.serial('what a body took is given back when its request is answered', async (t) => {
  const { client } = platform();
  const owner = await client.signUp();
  const { key } = await client.createProject(owner);
  const raw = `"${'a'.repeat(1.5 * mib)}"`;
  for (let round = 0; round < 4; round += 1) {
    isError(t, await client.call('POST', invokePath, { headers: { apikey: key }, raw }), 404, 'not_found');
  }
});

test.serial('what a body took is not given back while its work goes on without the client', async (t) => {
  const { client, base, db } = platform();
  const user = await client.signUp();
  // Above the size up to which bodies are parsed on the event loop.
  const raw = `{"full_name":"Ada"${' '.repeat(900_000)}}`;
  const change = () => client.call('PATCH', '/auth/me', { token: user.token, raw });
  await db.transaction(async (tx) => {
    await tx.query('select from users where id = $1 for update', [user.id]);
    const lines = [`Authorization: Bearer ${user.token}`, `Content-Length: ${raw.length}`];
    const sockets = await Promise.all([connectTo(base), connectTo(base)]);
    for (const socket of sockets) {
      socket.write(head('/auth/me', lines).replace(/^POST/, 'PATCH'));
      socket.write(raw);
    }
    await untilBlocked(db, sockets.length);
    for (const socket of sockets) socket.destroy();
    // The process sees the ends before it answers what is asked after them.
    await client.call('GET', '/healthz');
    isError(t, await change(), 503, 'overloaded');
  }, systemActor);
  await until(async () => (await change()).status === 200);
});

test.serial('a body that arrives below the least rate is 408, though its time is not over', async (t) => {
  const socket = await connectTo(strict().base);
  const answer = readToEnd(socket);
  socket.write(`${head('/auth/login', ['Content-Length: 900000'])}{"email"`);
  const late = parseAnswer(await answer);
  isError(t, late, 408, 'request_timeout');
  t.regex(late.body.message, /100000 bytes per second/);
});

test.serial('a client that waits for it is asked for its body only when it may send one', async (t) => {
  const { base } = platform();
  const stranger = await connectTo(base);
  stranger.write(head('/projects', ['Expect: 100-continue', 'Content-Length: 100']));
  const [refusal] = (await once(stranger, 'data')) as [Buffer];
  isError(t, parseAnswer(refusal.toString()), 401, 'unauthenticated');
  stranger.destroy();
  const socket = await connectTo(base);
  socket.write(head('/auth/login', ['Connection: close', 'Expect: 100-continue', 'Content-Length: 2']));
  const [invitation] = (await once(socket, 'data')) as [Buffer];
  t.is(invitation.toString(), 'HTTP/1.1 100 Continue\r\n\r\n');
  const answer = readToEnd(socket);
  socket.write('{}');
  isError(t, parseAnswer(await answer), 400, 'validation_failed');
});

test.serial('an address has so many connections: the next is told so and nothing of it is run', async (t) => {
  const { base } = platform();
  const sockets: Socket[] = [];
  let turnedAway: string | undefined;
  while (turnedAway === undefined && sockets.length < 60) {
    const socket = await connectTo(base);
    sockets.push(socket);
    socket.write('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n');
    const [chunk] = (await once(socket, 'data')) as [Buffer];
    if (!chunk.toString().startsWith('HTTP/1.1 200')) turnedAway = chunk.toString();
  }
  isError(t, parseAnswer(turnedAway ?? ''), 503, 'overloaded');
  t.true(sockets.length <= 41, String(sockets.length));
  for (const socket of sockets) socket.destroy();
  await Promise.all(sockets.filter(({ closed }) => !closed).map((socket) => once(socket, 'close')));
  // The server notices the ends in its own time; then there is room again.
  let status = 0;
  while (status !== 200) {
    const socket = await connectTo(base);
    const answer = readToEnd(socket);
    socket.write('GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n');
    ({ status } = parseAnswer(await answer));
  }
  t.is(status, 200);
});
