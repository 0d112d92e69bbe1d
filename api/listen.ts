import { once } from 'node:events';
import { type RequestListener, STATUS_CODES, type Server, createServer } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Config } from '#lib/config.ts';
import { type ErrorCode, ServiceError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { Log } from '#lib/log.ts';
import { errorBody } from './errors.ts';

const headerBytes = 192 * 1024; // room for a URL of 128 KB
const headersTimeoutMs = 15_000;
const keepAliveMs = 65_000; // longer than the idle time of the usual load balancers

const clientErrors: Readonly<Record<string, { code: ErrorCode; message: string }>> = {
  HPE_HEADER_OVERFLOW: { code: 'headers_too_large', message: 'URL and headers together are too large.' },
  ERR_HTTP_REQUEST_TIMEOUT: { code: 'request_timeout', message: 'The request took too long to arrive.' },
};

/** What is not HTTP at all never reaches the application; it gets the same error body. */
const refuse = (error: NodeJS.ErrnoException, socket: Socket): void => {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const meaning = clientErrors[error.code ?? ''] ?? {
    code: 'validation_failed',
    message: 'This is not a valid HTTP request.',
  };
  const failure = new ServiceError(meaning.code, meaning.message);
  const body = JSON.stringify(errorBody(failure, newId()));
  socket.end(
    `HTTP/1.1 ${failure.status} ${STATUS_CODES[failure.status]}\r\nConnection: close\r\nContent-Type: application/json; charset=utf-8\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
};

/** Listens with the limits of the contract. */
export const listen = async (
  listener: RequestListener,
  config: Pick<Config, 'HOST' | 'PORT' | 'PLINTH_BODY_TIMEOUT_MS'>,
  log: Log,
): Promise<{ server: Server; port: number }> => {
  const server = createServer(
    { maxHeaderSize: headerBytes, headersTimeout: headersTimeoutMs, keepAliveTimeout: keepAliveMs },
    listener,
  );
  // Bodies have a time-out of their own; this one is for what never becomes a request.
  server.requestTimeout = headersTimeoutMs + config.PLINTH_BODY_TIMEOUT_MS;
  server.on('clientError', refuse);
  server.listen(config.PORT, config.HOST);
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  log.info({ host: config.HOST, port }, 'the API listens');
  return { server, port };
};
