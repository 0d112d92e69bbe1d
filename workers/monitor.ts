import { createHash, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { type IncomingMessage, type Server, type ServerResponse, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { cachedFor } from '#lib/cached-for.ts';
import { answersWithin } from '#lib/answers-within.ts';
import { bearerTokenOf } from '#lib/bearer.ts';
import { type Config, ConfigError } from '#lib/config.ts';
import { openControlDb } from '#lib/control-db.ts';
import type { Log } from '#lib/log.ts';
import { metricsText, metricsType } from '#lib/metrics.ts';
import { checkRedis, openRequestRedis } from '#lib/redis.ts';

export interface MonitorOptions {
  readonly host: string;
  /** 0 takes any free one. */
  readonly port: number;
  /** The token that opens `/metrics` to other machines; undefined: nothing does. */
  readonly opsToken: string | undefined;
  /** The worker's dependencies by name; each check rejects when its dependency is unavailable. */
  readonly checks: Readonly<Record<string, () => Promise<unknown>>>;
  readonly log: Log;
}

export interface Monitor {
  readonly port: number;
  /** Whether the worker takes jobs; false until it is set. */
  readonly consuming: (now: boolean) => void;
  readonly stop: () => Promise<void>;
}

interface Answer {
  readonly status: number;
  readonly type: string;
  readonly body: string;
}

const checkTimeoutMs = 1500;
const freshMs = 1000;
const requestTimeoutMs = 5000;

const json = (status: number, value: unknown): Answer => ({
  status,
  type: 'application/json; charset=utf-8',
  body: JSON.stringify(value),
});

const hash = (text: string): Buffer => createHash('sha256').update(text).digest();

const loopback = /^(::1|127\.|::ffff:127\.)/;

/** As at the API: a program on this machine, but not a proxy here that passes on what comes from elsewhere. */
const isLocal = ({ socket, headers }: IncomingMessage): boolean =>
  loopback.test(socket.remoteAddress ?? '') &&
  headers['x-forwarded-for'] === undefined &&
  headers.forwarded === undefined;

const hasToken = (request: IncomingMessage, token: string | undefined): boolean => {
  const given = bearerTokenOf(request.headers.authorization ?? '');
  return given !== undefined && token !== undefined && timingSafeEqual(hash(given), hash(token));
};

const answers = (check: () => Promise<unknown>): Promise<boolean> => answersWithin(check(), checkTimeoutMs);

type Found = Readonly<Record<string, boolean>>;

const runChecks = async (checks: MonitorOptions['checks']): Promise<Found> => {
  const found = Object.entries(checks).map(async ([name, check]) => [name, await answers(check)] as const);
  return Object.fromEntries(await Promise.all(found));
};

const readiness = (found: Found, consuming: boolean): Answer => {
  const ready = consuming && Object.values(found).every(Boolean);
  return json(ready ? 200 : 503, { ready, dependencies: { ...found, queues: consuming } });
};

const metrics = async (request: IncomingMessage, token: string | undefined): Promise<Answer> => {
  if (isLocal(request) || hasToken(request, token))
    return { status: 200, type: metricsType, body: await metricsText() };
  return json(401, { code: 'unauthenticated', message: 'Metrics need the operators’ token (Authorization: Bearer).' });
};

const send = (response: ServerResponse, { status, type, body }: Answer): void => {
  response.writeHead(status, {
    'Content-Type': type,
    'Content-Length': Buffer.byteLength(body),
    'X-Content-Type-Options': 'nosniff',
    ...(status === 401 && { 'WWW-Authenticate': 'Bearer' }),
  });
  response.end(body);
};

const listening = async (server: Server, { host, port }: MonitorOptions): Promise<number> => {
  server.listen(port, host);
  try {
    await once(server, 'listening');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'EADDRINUSE' && code !== 'EACCES') throw error;
    throw new ConfigError(
      `PLINTH_WORKER_PORT: port ${port} of ${host} cannot be had (${code}); every worker needs one of its own.`,
    );
  }
  return (server.address() as AddressInfo).port;
};

/**
 * A worker's own small HTTP server for health checks and Prometheus: `/healthz` answers while the event loop runs,
 * `/readyz` whether it takes jobs and reaches their dependencies, `/metrics` its metrics.
 * @throws {ConfigError} when the port is taken
 */
export const startMonitor = async (options: MonitorOptions): Promise<Monitor> => {
  let consuming = false;
  // However often it is asked: anyone who reaches the port may.
  const found = cachedFor(freshMs, () => runChecks(options.checks));
  const answerTo = async (request: IncomingMessage): Promise<Answer> => {
    if (request.method !== 'GET' && request.method !== 'HEAD')
      return json(405, { code: 'method_not_allowed', message: 'Only GET.' });
    const [path] = (request.url ?? '').split('?', 1);
    if (path === '/healthz') return json(200, { status: 'ok' });
    if (path === '/readyz') return readiness(await found(), consuming);
    if (path === '/metrics') return metrics(request, options.opsToken);
    return json(404, { code: 'not_found', message: 'There are /healthz, /readyz and /metrics.' });
  };
  const respond = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    try {
      send(response, await answerTo(request));
    } catch (error) {
      options.log.error({ err: error }, 'the monitor could not answer');
      send(response, json(500, { code: 'internal', message: 'Something went wrong on our side.' }));
    }
  };
  const server = createServer({ requestTimeout: requestTimeoutMs }, (request, response) => {
    request.resume();
    void respond(request, response);
  });
  const port = await listening(server, options);
  options.log.info({ host: options.host, port }, 'the monitor listens');
  return {
    port,
    consuming: (now) => {
      consuming = now;
    },
    stop: async () => {
      server.closeAllConnections();
      await new Promise<void>((resolve) => void server.close(() => resolve()));
    },
  };
};

const noMonitor: Pick<Monitor, 'consuming' | 'stop'> = { consuming: () => undefined, stop: () => Promise.resolve() };

/**
 * The monitor that the settings ask for, which may be none. It has connections of its own, so that it answers while the
 * worker still waits for its schema, and however busy the worker's pool is.
 */
export const openMonitor = async (config: Config, log: Log): Promise<Pick<Monitor, 'consuming' | 'stop'>> => {
  const { HOST: host, PLINTH_WORKER_PORT: port, PLINTH_OPS_TOKEN: opsToken } = config;
  if (port === undefined) return noMonitor;
  const db = openControlDb({ url: config.DATABASE_URL, connections: 1, log });
  const redis = openRequestRedis(config.REDIS_URL, log);
  const checks = { postgres: () => db.query('select 1'), redis: () => checkRedis(redis) };
  const monitor = await startMonitor({ host, port, opsToken, checks, log });
  return {
    consuming: monitor.consuming,
    stop: async () => {
      await monitor.stop();
      redis.disconnect();
      await db.close();
    },
  };
};
