import { once } from 'node:events';
import { type IncomingMessage, type RequestListener, STATUS_CODES, type Server, createServer } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Config } from '#lib/config.ts';
import { type ErrorCode, ServiceError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { Log } from '#lib/log.ts';
import { networkOf } from './address.ts';
import { errorBody } from './errors.ts';

const headerBytes = 192 * 1024; // room for a URL of 128 KB
const headersTimeoutMs = 15_000;
const keepAliveMs = 65_000; // longer than the idle time of the usual load balancers
const lingerMs = 2000;

const notHttp = new ServiceError('validation_failed', 'This is not a valid HTTP request.');
const noTunnel = new ServiceError('method_not_allowed', 'CONNECT is not possible here.', { headers: { Allow: '' } });

const clientErrors: Readonly<Record<string, { code: ErrorCode; message: string }>> = {
  HPE_HEADER_OVERFLOW: { code: 'headers_too_large', message: 'URL and headers together are too large.' },
  HPE_CHUNK_EXTENSIONS_OVERFLOW: { code: 'payload_too_large', message: 'The chunk extensions are too large.' },
  ERR_HTTP_REQUEST_TIMEOUT: { code: 'request_timeout', message: 'The request took too long to arrive.' },
};

const meaningOf = (error: NodeJS.ErrnoException): ServiceError => {
  const meaning = clientErrors[error.code ?? ''];
  return meaning ? new ServiceError(meaning.code, meaning.message) : notHttp;
};

const answerText = (failure: ServiceError): string => {
  const requestId = newId();
  const body = JSON.stringify(errorBody(failure, requestId));
  const headers = {
    Connection: 'close',
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Length': Buffer.byteLength(body),
    'X-Request-Id': requestId,
    ...failure.headers,
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${failure.status} ${STATUS_CODES[failure.status]}\r\n${lines.join('')}\r\n${body}`;
};

const refused = new WeakSet<Duplex>();

/**
 * Answers what never becomes a request, with the same error body. The connection stays half open for a moment: closed
 * while its client still sends, it would show a reset instead of the answer.
 */
const refuse = (failure: ServiceError, socket: Duplex): void => {
  if (refused.has(socket)) return;
  refused.add(socket);
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  socket.end(answerText(failure));
  const timer = setTimeout(() => socket.destroy(), lingerMs);
  socket.once('close', () => clearTimeout(timer));
  socket.resume();
};

type ConnectionLimits = Pick<Config, 'PLINTH_CONNECTIONS' | 'PLINTH_CONNECTIONS_PER_ADDRESS' | 'PLINTH_TRUST_PROXY'>;

const tooManyConnections = new ServiceError('overloaded', 'There are too many connections from your address.', {
  hint: 'Close some of them, or send several requests over one.',
  headers: { 'Retry-After': '5' },
});

/** Answers and closes at once: a client that opens too many connections must not keep each for the time of a linger. */
const refuseConnection = (socket: Socket): void => {
  socket.on('error', () => socket.destroy());
  socket.resume().end(answerText(tooManyConnections), () => socket.destroy());
};

/** Counts by address. */
const createCounts = (): { readonly add: (address: string) => number; readonly remove: (address: string) => void } => {
  const counts = new Map<string, number>();
  return {
    add: (address) => {
      const count = (counts.get(address) ?? 0) + 1;
      counts.set(address, count);
      return count;
    },
    remove: (address) => {
      const left = (counts.get(address) ?? 1) - 1;
      if (left > 0) counts.set(address, left);
      else counts.delete(address);
    },
  };
};

/**
 * Bounds the connections of one address and of the process. Node closes those above the whole limit before anything is
 * read; idle ones make room then. Behind a trusted proxy all come from its address, and it is the proxy that bounds
 * them.
 */
const limitConnections = (server: Server, limits: ConnectionLimits): void => {
  server.maxConnections = limits.PLINTH_CONNECTIONS;
  server.on('drop', () => server.closeIdleConnections());
  if (limits.PLINTH_TRUST_PROXY === 'on') return;
  const counts = createCounts();
  // In place of the HTTP server's own listeners: they would read a request from a connection that is turned away, and
  // run it.
  const accept = server.listeners('connection');
  server.removeAllListeners('connection');
  server.on('connection', (socket: Socket) => {
    const address = networkOf(socket.remoteAddress ?? '');
    socket.once('close', () => counts.remove(address));
    if (counts.add(address) > limits.PLINTH_CONNECTIONS_PER_ADDRESS) refuseConnection(socket);
    else for (const listener of accept) listener.call(server, socket);
  });
};

/** Bodies of files, which have a least rate in place of a time-out (api/storage/arrival.ts). */
const upload = /\/storage\/v1\/(?:object|upload)\//;

const isUpload = ({ method, url = '' }: IncomingMessage): boolean =>
  (method === 'POST' || method === 'PUT' || method === 'PATCH') && upload.test(url);

const tooLate = meaningOf(Object.assign(new Error('the request took too long'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' }));

const hasBody = ({ headers }: IncomingMessage): boolean =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;

/**
 * As Node's own `requestTimeout`, which knows no request that may take longer. A body of a file that nobody reads any
 * more, since it was refused, is waited for a moment only.
 */
const limitArrival =
  (listener: RequestListener, timeoutMs: number): RequestListener =>
  (req, res) => {
    if (hasBody(req)) {
      let timer: NodeJS.Timeout | undefined;
      if (isUpload(req)) {
        res.once('finish', () => {
          if (!req.complete) timer = setTimeout(() => req.socket.destroy(), lingerMs);
        });
      } else {
        timer = setTimeout(() => refuse(tooLate, req.socket), timeoutMs);
      }
      req.once('close', () => clearTimeout(timer));
    }
    listener(req, res);
  };

// Not 0, or Node checks headersTimeout no more, and within its 32 bits.
const maxRequestMs = 48 * 86_400_000;

const createHttpServer = (given: RequestListener, bodyTimeoutMs: number): Server => {
  // Bodies have a time-out of their own; this one is for what never becomes a request.
  const listener = limitArrival(given, headersTimeoutMs + bodyTimeoutMs);
  const server = createServer(
    {
      maxHeaderSize: headerBytes,
      headersTimeout: headersTimeoutMs,
      keepAliveTimeout: keepAliveMs,
      requestTimeout: maxRequestMs,
      // Node's own refusal has no body; the application's has.
      requireHostHeader: false,
    },
    listener,
  );
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
    if (error.code === 'ECONNRESET') socket.destroy();
    else refuse(meaningOf(error), socket);
  });
  server.on('connect', (_request, socket: Duplex) => refuse(noTunnel, socket));
  // The application asks for the body once it knows who sends it.
  server.on('checkContinue', listener);
  // An unknown expectation is no reason to refuse (RFC 9110, 10.1.1).
  server.on('checkExpectation', listener);
  return server;
};

/** Listens with the limits of the contract. */
export const listen = async (
  listener: RequestListener,
  config: ConnectionLimits & Pick<Config, 'HOST' | 'PORT' | 'PLINTH_BODY_TIMEOUT_MS'>,
  log: Log,
): Promise<{ server: Server; port: number }> => {
  const server = createHttpServer(listener, config.PLINTH_BODY_TIMEOUT_MS);
  limitConnections(server, config);
  server.listen(config.PORT, config.HOST);
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  log.info({ host: config.HOST, port }, 'the API listens');
  return { server, port };
};
