import { type Socket, connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { deployFunction, runSql } from '../account.ts';
import { type Abuse, type Ground, countOf, effectOf, note, until } from '../ground.ts';

const mib = 1024 * 1024;
const againMs = 100;
const cutOff = 'cut off while sending';

interface Holding {
  readonly sockets: number;
  /** The bytes that are sent on a new connection. */
  readonly request: string | readonly [head: string, body: Buffer];
  /** Whether what comes back is read. */
  readonly reads: boolean;
  /** The client lets go by itself after so long. */
  readonly holdMs: number;
  /** Counted when the connection is where the abuser wants it. */
  readonly held: string;
}

const pausedSocket = ({ hostname, port }: URL): Socket => {
  const socket = connect({ host: hostname, port: Number(port) });
  socket.on('error', () => undefined);
  return socket;
};

const writeTo = (socket: Socket, { request, held }: Holding, ground: Ground): void => {
  const done = (error?: Error | null): void => note(ground, error ? cutOff : held);
  if (typeof request === 'string') socket.write(request, done);
  else {
    socket.write(request[0]);
    socket.write(request[1], done);
  }
};

/** One connection after another, each held until the other side closes it or its time is over. */
const keepHolding = async (ground: Ground, holding: Holding, url: URL): Promise<void> => {
  const { signal } = ground;
  while (!signal.aborted) {
    const socket = pausedSocket(url);
    note(ground, 'connections');
    const closed = new Promise<void>((resolve) => void socket.once('close', () => resolve()));
    const letGo = (): void => void socket.destroy();
    signal.addEventListener('abort', letGo, { once: true });
    const timer = setTimeout(letGo, holding.holdMs);
    writeTo(socket, holding, ground);
    if (holding.reads) socket.resume();
    else socket.pause();
    await closed;
    clearTimeout(timer);
    signal.removeEventListener('abort', letGo);
    await delay(againMs, undefined, { signal }).catch(() => undefined);
  }
};

const holdAll = async (ground: Ground, holdingOf: (number: number) => Holding): Promise<void> => {
  const url = new URL(ground.account.url);
  const { sockets, held } = holdingOf(0);
  for (let number = 0; number < sockets; number += 1) void keepHolding(ground, holdingOf(number), url);
  await until(() => countOf(ground, held) + countOf(ground, cutOff) >= sockets, ground.signal);
};

/** 120 requests of 6 MB each, of which the last byte never comes. */
export const heldBodies: Abuse = async (ground) => {
  const { account, keys } = ground;
  const { slug } = await deployFunction(account, account.projectId, 'export const handler = () => null;');
  const length = 6 * mib;
  const head = `POST /api/functions/${slug} HTTP/1.1\r\nHost: noise\r\napikey: ${keys[0]}\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n`;
  const body = Buffer.alloc(length - 1, ' ');
  const holding = { sockets: 120, request: [head, body], reads: true, holdMs: 60_000, held: 'bodies held' } as const;
  return {
    begin: () => holdAll(ground, () => holding),
    effect: async () => effectOf(ground, { 'bodies held': 60, [cutOff]: 60 }),
  };
};

/** 17 readers ask for 12 MB and read nothing of it; each begins anew after five seconds. */
export const slowReaders: Abuse = async (ground) => {
  const { account, keys } = ground;
  await runSql(
    account,
    'create table big (id int primary key, content text not null)',
    `insert into big select n, repeat(md5(n::text), 32768) from generate_series(1, 12) n`,
  );
  const requestOf = (number: number): string =>
    `GET /v1/rest/big HTTP/1.1\r\nHost: noise\r\napikey: ${keys[number % keys.length]}\r\n\r\n`;
  const holding = { sockets: 17, reads: false, holdMs: 5000, held: 'answers not read' } as const;
  return {
    begin: () => holdAll(ground, (number) => ({ ...holding, request: requestOf(number) })),
    effect: async () => effectOf(ground, { 'answers not read': 17 }),
  };
};
