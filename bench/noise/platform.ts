import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { freePortAnywhere } from '#scripts/infra/ports.ts';
import type { Bench } from '../harness.ts';
import type { ServerSpec } from '../servers.ts';

export interface PlatformProcess {
  readonly name: string;
  readonly pid: number;
  readonly metricsUrl: string;
}

/** An API and two workers, as `npm start` runs them. */
export interface NoisePlatform {
  readonly url: string;
  readonly prefix: string;
  /** The API first. */
  readonly processes: readonly PlatformProcess[];
}

export interface Stalls {
  readonly apiMs: number;
  /** The longer one of both workers. */
  readonly workerMs: number;
}

const workerCount = 2;

/**
 * Starts them with the settings of `npm start` but one: all clients share an address here, so the rate limit of
 * sign-ins by address would refuse the victim after half a minute.
 */
export const startPlatform = async (bench: Bench, databaseUrl: string): Promise<NoisePlatform> => {
  const prefix = `bench-${randomBytes(6).toString('hex')}`;
  const env = {
    DATABASE_URL: databaseUrl,
    PLINTH_REDIS_PREFIX: prefix,
    PLINTH_RATE_LIMIT_SIGN_IN: '1000000',
    PLINTH_LOG_FORMAT: 'json',
  };
  const workers = await Promise.all(
    Array.from({ length: workerCount }, async (_, index) => ({
      name: `worker-${index + 1}`,
      port: await freePortAnywhere(),
    })),
  );
  // In sessions of their own, as under `npm start`: where the kernel groups by session, that decides who gets a
  // processor.
  const start = (spec: ServerSpec) => bench.servers.start({ ...spec, detached: true });
  const [api, ...servers] = await Promise.all([
    start({ name: 'noise-api', file: 'api/server.ts', env }),
    ...workers.map(({ name, port }) =>
      start({
        name: `noise-${name}`,
        file: 'workers/server.ts',
        nodeArgs: ['--no-node-snapshot'],
        env: { ...env, PLINTH_WORKER_NAME: name, PLINTH_WORKER_PORT: String(port) },
      }),
    ),
  ]);
  return {
    url: api.url,
    prefix,
    processes: [
      { name: 'api', pid: api.pid, metricsUrl: `${api.url}/metrics` },
      ...workers.map(({ name, port }, index) => ({
        name,
        pid: servers[index]?.pid ?? 0,
        metricsUrl: `http://127.0.0.1:${port}/metrics`,
      })),
    ],
  };
};

/** The histogram counts a turn of the loop that nothing holds up as its timer's interval. */
const resolutionMs = 10;
const scrapeMs = 60_000;
const metric = /^plinth_nodejs_eventloop_lag_max_seconds (\S+)$/m;

const stallOf = async ({ metricsUrl }: PlatformProcess): Promise<number> => {
  const response = await fetch(metricsUrl, { signal: AbortSignal.timeout(scrapeMs) }).catch(() => null);
  const value = metric.exec((await response?.text().catch(() => '')) ?? '')?.[1];
  return value === undefined ? Infinity : Math.max(0, Number(value) * 1000 - resolutionMs);
};

/**
 * The longest stall of each event loop since the last question; infinite of a process that ended or does not answer.
 */
export const takeStalls = async ({ processes }: NoisePlatform): Promise<Stalls> => {
  const [apiMs = Infinity, ...workers] = await Promise.all(processes.map(stallOf));
  return { apiMs, workerMs: Math.max(...workers) };
};

/** How long the process's main thread was ready to run and had no processor, in ms since its start. Linux only. */
export const waitedMs = ({ pid }: PlatformProcess): number => {
  try {
    return Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[1]) / 1e6;
  } catch {
    return Number.NaN;
  }
};
