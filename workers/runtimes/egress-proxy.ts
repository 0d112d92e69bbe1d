import {
  type IncomingHttpHeaders,
  type IncomingMessage,
  STATUS_CODES,
  type ServerResponse,
  createServer,
} from 'node:http';
import { type Server, type Socket, connect } from 'node:net';
import type { Duplex } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { request as send } from 'undici';
import type { Egress, EgressAddress } from '#lib/egress.ts';
import { EgressFailed, EgressRefused, explainFailure } from '#lib/egress/failures.ts';
import { BusyTime } from './busy-time.ts';

/** The way out of one sandbox: open while a function runs in it. */
export interface GuestNetwork {
  open(): void;
  /** Ends every connection that is under way. */
  shut(): void;
  /** How long, since it was opened, at least one request or connection was under way. */
  busyMs(): number;
}

export type ServeGuest = (listener: Server) => GuestNetwork;
type Way = Pick<Egress, 'check' | 'lookup' | 'dispatcher'>;

const maxConnections = 64;
/** Requests and tunnels of one guest that are under way, those included whose client has gone. */
const maxUnderWay = 64;
const maxHeaderBytes = 64 * 1024;
const connectTimeoutMs = 5000;

/** Headers of one connection only, which are never passed on (RFC 9110 7.6.1); `host` follows from the address. */
const ownHeaders = new Set(
  'connection proxy-connection proxy-authorization proxy-authenticate keep-alive te trailer transfer-encoding upgrade expect host'.split(
    ' ',
  ),
);

/**
 * A proxy for HTTP on a listener inside a sandbox that has no network of its own. It connects to addresses that the
 * egress guard allows to functions and has checked, never to a name. Nothing is buffered: a slow reader is written to
 * slowly.
 */
export const createGuestProxy =
  (egress: Way): ServeGuest =>
  (listener) => {
    const connections = new Set<Duplex>();
    let isOpen = false;
    const keep = <T extends Duplex>(connection: T): T => {
      connections.add(connection);
      connection.on('error', () => connection.destroy());
      return connection.once('close', () => connections.delete(connection));
    };
    const slots = new Slots();
    const http = createServer({ maxHeaderSize: maxHeaderBytes }, (request, response) => {
      void answerOne(egress, slots, request, response);
    });
    http.on('connect', (request, client: Socket, head: Buffer) => {
      if (slots.isFull) return refuse(client, 503, tooManyUnderWay);
      void slots.hold(() => tunnel(egress, { request, client, head, keep }));
    });
    http.on('clientError', (_error, client) => client.destroy());
    let clients = 0;
    listener.on('error', () => undefined);
    listener.on('connection', (client: Socket) => {
      keep(client);
      if (!isOpen) return client.destroy();
      clients += 1;
      client.once('close', () => (clients -= 1));
      if (clients > maxConnections) return refuse(client, 503, `More than ${maxConnections} connections are open.`);
      http.emit('connection', client);
    });
    return {
      open: () => {
        isOpen = true;
        slots.time.reset();
      },
      shut: () => {
        isOpen = false;
        for (const connection of connections) connection.destroy();
      },
      busyMs: () => slots.time.ms(),
    };
  };

const tooManyUnderWay = `More than ${maxUnderWay} requests are under way.`;

class Slots {
  #taken = 0;
  /** Connections that have a request under way. */
  readonly busy = new WeakSet<Socket>();
  readonly time = new BusyTime();

  get isFull(): boolean {
    return this.#taken >= maxUnderWay;
  }

  /** Until the work is done; where it says that a connection may still be on its way, as long as that can take. */
  async hold(work: () => Promise<boolean | void>): Promise<void> {
    this.#taken += 1;
    const leave = this.time.enter();
    const lingers = await work().finally(leave);
    if (lingers === true) setTimeout(() => (this.#taken -= 1), connectTimeoutMs).unref();
    else this.#taken -= 1;
  }
}

/** One request at a time on a connection: a client that sends the next one before the answer (few do) is cut off. */
async function answerOne(egress: Way, slots: Slots, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { socket } = request;
  if (slots.busy.has(socket)) return void socket.destroy();
  slots.busy.add(socket);
  response.once('close', () => slots.busy.delete(socket));
  if (slots.isFull) {
    response.shouldKeepAlive = false;
    response.writeHead(503, { 'content-type': 'text/plain; charset=utf-8' }).end(tooManyUnderWay);
    return void request.resume();
  }
  await slots.hold(() => forward(egress, request, response));
}

/** The sentence is the reason phrase too: of a refused CONNECT most clients show nothing else. */
function refuse(client: Duplex, status: number, sentence: string): void {
  const reason = sentence.replaceAll(/[^\x20-\x7e]/g, '?').slice(0, 400);
  const length = Buffer.byteLength(sentence);
  client.end(
    `HTTP/1.1 ${status} ${reason}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: ${length}\r\nconnection: close\r\n\r\n${sentence}`,
  );
}

const statusOf = (failure: EgressRefused | EgressFailed): number => {
  if (failure instanceof EgressRefused) return 403;
  return failure.reason === 'timeout' ? 504 : 502;
};

/** An address literal is not resolved: its refusal has the same message. */
const asFailure = (error: unknown, host: string): EgressRefused | EgressFailed =>
  error instanceof EgressRefused || error instanceof EgressFailed ? error : explainFailure(error, host);

/** Mail, shells, databases: what a browser would not talk to either (the "bad ports" of the fetch standard). */
function checkPort(port: number, host: string): void {
  const isOpen = port === 80 || port === 443 || (port >= 1024 && !badPorts.has(port) && port <= 65_535);
  if (!isOpen) throw new EgressRefused(`Port ${port} of ${host} may not be reached from here.`);
}

const badPorts = new Set([
  1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10_080,
]);

interface Tunnel {
  readonly request: IncomingMessage;
  readonly client: Socket;
  readonly head: Buffer;
  readonly keep: <T extends Duplex>(connection: T) => T;
}

async function tunnel(egress: Way, { request, client, head, keep }: Tunnel): Promise<void> {
  const [, host = '', port = ''] = /^(.{1,300}):(\d{1,5})$/.exec(request.url ?? '') ?? [];
  try {
    checkPort(Number(port), host);
    const addresses = await egress.lookup(host, 'function');
    const server = await connectToFirst(addresses, Number(port), { client, keep });
    if (client.destroyed) return void server.destroy();
    client.write('HTTP/1.1 200 Connection established\r\n\r\n');
    if (head.length > 0) server.write(head);
    await Promise.all([pipeline(client, server), pipeline(server, client)]);
  } catch (error) {
    if (client.destroyed || client.bytesWritten > 0) return void client.destroy();
    const failure = asFailure(error, host);
    refuse(client, statusOf(failure), failure.message);
  }
}

/** All addresses share one deadline, and none is tried for a client that has gone. */
async function connectToFirst(
  addresses: EgressAddress[],
  port: number,
  { client, keep }: Pick<Tunnel, 'client' | 'keep'>,
): Promise<Socket> {
  const deadline = performance.now() + connectTimeoutMs;
  let lastError: unknown = new Error('no address');
  for (const { address, family } of addresses) {
    const timeout = Math.ceil(deadline - performance.now());
    if (client.destroyed || timeout <= 0) break;
    const server = keep(connect({ host: address, family, port, timeout }));
    const giveUp = (): void => void server.destroy();
    client.once('close', giveUp);
    try {
      return await connected(server);
    } catch (error) {
      lastError = error;
    } finally {
      client.off('close', giveUp);
    }
  }
  throw lastError;
}

const connected = (socket: Socket): Promise<Socket> =>
  new Promise((resolve, reject) => {
    const onTimeout = (): void => void socket.destroy(Object.assign(new Error('too slow'), { code: 'ETIMEDOUT' }));
    const onClose = (): void => reject(new Error('closed'));
    socket.once('timeout', onTimeout);
    socket.once('error', reject);
    socket.once('close', onClose);
    socket.once('connect', () => {
      socket.setTimeout(0);
      socket.off('error', reject);
      socket.off('close', onClose);
      resolve(socket);
    });
  });

/** @returns whether a connection may still be on its way: undici goes on making it when a request is aborted */
async function forward(egress: Way, request: IncomingMessage, response: ServerResponse): Promise<boolean> {
  const abort = new AbortController();
  response.once('close', () => abort.abort());
  let host = '';
  try {
    const url = egress.check(request.url ?? '', 'function');
    host = url.hostname;
    checkPort(Number(url.port || (url.protocol === 'https:' ? 443 : 80)), host);
    const answer = await send(url, requestOptions(egress, request, abort.signal));
    response.writeHead(answer.statusCode, STATUS_CODES[answer.statusCode] ?? '', passedOn(answer.headers));
    await pipeline(answer.body, response);
  } catch (error) {
    const { headersSent } = response;
    if (headersSent || response.destroyed) {
      response.destroy();
      return !headersSent;
    }
    const failure = asFailure(error, host);
    response.shouldKeepAlive = false;
    response.writeHead(statusOf(failure), { 'content-type': 'text/plain; charset=utf-8' }).end(failure.message);
    request.resume();
  }
  return false;
}

function requestOptions(egress: Way, request: IncomingMessage, signal: AbortSignal) {
  const hasBody = request.headers['content-length'] !== undefined || request.headers['transfer-encoding'] !== undefined;
  return {
    dispatcher: egress.dispatcher('function'),
    method: request.method ?? 'GET',
    headers: passedOn(request.headers),
    body: hasBody ? request : null,
    signal,
    // A run has a time-out of its own.
    headersTimeout: 0,
    bodyTimeout: 0,
  };
}

function passedOn(headers: IncomingHttpHeaders): Record<string, string | string[]> {
  const named = new Set((headers.connection ?? '').toLowerCase().split(/\s*,\s*/));
  const kept = Object.entries(headers).filter(([name]) => !ownHeaders.has(name) && !named.has(name));
  return Object.fromEntries(kept.flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])));
}
