import { existsSync, readFileSync, readdirSync, readlinkSync, realpathSync, rmSync } from 'node:fs';
import path from 'node:path';
import { signalProcess } from '../leftovers.ts';
import { passwordIn } from '../made-secrets.ts';
import { type ProcessSpec, readyWhen } from '../processes.ts';
import { trimLog } from './logs.ts';
import { freePortAnywhere, freePortFrom } from './ports.ts';
import { type Cluster, createCluster, database, serverEnvironment, user } from './postgres-cluster.ts';
import { type PostgresPrograms, findPrograms, hasExtension } from './postgres-programs.ts';
import type { Site } from './site.ts';
import { makeSocketFolder } from './socket-folder.ts';
import { giveTo, unprivileged } from './unprivileged.ts';

export interface ProvidedPostgres {
  readonly url: string;
  readonly name: string;
  readonly spec: ProcessSpec;
  readonly programs: PostgresPrograms;
}

const firstPort = 15_432;
const leftServerMs = 20_000;

const commandLine = (pid: number | string): string => {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    return '';
  }
};

const workingFolder = (pid: number | string): string => {
  try {
    return readlinkSync(`/proc/${pid}/cwd`);
  } catch {
    return '';
  }
};

/** Every process of a Postgres server works in its data folder. */
const belongsTo = (data: string, pid: number | string): boolean =>
  workingFolder(pid) === realpathSync(data) && /^(postgres:|[^\0]*\/postgres\0)/.test(commandLine(pid));

const pidFile = (data: string): string => path.join(data, 'postmaster.pid');

/**
 * Postgres does not start while any process has the pid of its last run, and a server that still runs has to end first.
 * (Elsewhere than on Linux that is left to Postgres: the owner of the pid is unknown there.)
 */
const clearPidFile = async (data: string): Promise<void> => {
  const file = pidFile(data);
  if (process.platform !== 'linux' || !existsSync(file)) return;
  const pid = Number(readFileSync(file, 'utf8').split('\n')[0]);
  if (!belongsTo(data, pid)) return rmSync(file, { force: true });
  signalProcess(pid, 'SIGINT');
  await readyWhen(() => !belongsTo(data, pid), AbortSignal.timeout(leftServerMs));
};

/** A line of postmaster.pid says when the server takes connections. */
const reportsReady = (data: string, pid: number | undefined): boolean => {
  try {
    const lines = readFileSync(pidFile(data), 'utf8').split('\n');
    return Number(lines[0]) === pid && lines[7]?.trim() === 'ready';
  } catch {
    return false;
  }
};

/** A backend that computes does not notice at once that its server was killed, and no new one starts beside it. */
const killBackends = (data: string): void => {
  if (process.platform !== 'linux') return;
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    if (belongsTo(data, pid)) signalProcess(Number(pid), 'SIGKILL');
  }
};

// Nothing survives a crash, and nothing lives long enough to be vacuumed: every database that is there costs the
// launcher a process a minute.
const throwawaySettings = [
  'fsync=off',
  'full_page_writes=off',
  'synchronous_commit=off',
  'autovacuum_naptime=10min',
  'checkpoint_timeout=30min',
  // The platforms of three test processes at a time, each of which may hold some 110, beside the tests' own sessions.
  'max_connections=400',
  // The statements of all of them are counted, and those of one test must not be forgotten for the others'.
  'pg_stat_statements.max=20000',
];

/** Where the server listens. */
interface Place {
  readonly port: number;
  readonly socketFolder: string | null;
}

const serverSettings = (site: Site, programs: PostgresPrograms, { port, socketFolder }: Place): string[] => [
  'listen_addresses=127.0.0.1',
  `unix_socket_directories=${socketFolder === null ? '' : `"${socketFolder.replaceAll('"', '""')}"`}`,
  'unix_socket_permissions=0700',
  `port=${port}`,
  'max_connections=200',
  'max_locks_per_transaction=256',
  'max_parallel_maintenance_workers=0',
  'password_encryption=scram-sha-256',
  'timezone=UTC',
  'log_timezone=UTC',
  'log_min_messages=warning',
  ...(hasExtension(programs, 'pg_stat_statements') ? ['shared_preload_libraries=pg_stat_statements'] : []),
  ...(site.durable ? [] : throwawaySettings),
];

const specOf = (cluster: Cluster, place: Place): ProcessSpec => {
  const { site, programs, account, data } = cluster;
  const settings = serverSettings(site, programs, place).flatMap((setting) => ['-c', setting]);
  const [command = '', ...args] = [...account.prefix, path.join(programs.bin, 'postgres'), '-D', data, ...settings];
  const logFile = path.join(site.dataDir, 'postgres.log');
  trimLog(logFile);
  return {
    name: 'postgres',
    stage: 'infra',
    command,
    args,
    env: serverEnvironment(),
    cwd: data,
    ...(account.uid !== undefined && { uid: account.uid }),
    ...(account.gid !== undefined && { gid: account.gid }),
    logFile,
    port: place.port,
    stopSignal: 'SIGINT',
    killSignal: 'SIGQUIT',
    stopWithinMs: 20_000,
    ready: (child, signal) => readyWhen(() => reportsReady(data, child.pid), signal),
    afterDeath: () => killBackends(data),
  };
};

/** Finds the programs, makes the cluster if there is none, and says how the server is run. */
export const providePostgres = async (site: Site): Promise<ProvidedPostgres> => {
  const data = path.join(site.databaseDir ?? site.dataDir, 'postgres');
  const programs = await findPrograms(site, data);
  const account = await unprivileged(site.run, [path.dirname(data), programs.bin]);
  const password = passwordIn(site.dataDir, 'postgres-password').value;
  const cluster: Cluster = { site, programs, account, data, password };
  if (existsSync(data)) {
    giveTo(data, account.owner);
    await clearPidFile(data);
  } else {
    await createCluster(cluster);
  }
  const port = await (site.throwaway ? freePortAnywhere() : freePortFrom(firstPort));
  const name = `PostgreSQL ${programs.major}${programs.isEmbedded ? '' : ' (of this machine)'} on port ${port}`;
  const socketFolder = makeSocketFolder(path.dirname(data), 'postgres');
  if (socketFolder !== null) giveTo(socketFolder, account.owner);
  // libpq and pg connect to the host in the query; the address in front of it serves programs that know TCP only.
  const host = socketFolder === null ? '' : `?host=${encodeURIComponent(socketFolder)}`;
  const url = `postgres://${user}:${password}@127.0.0.1:${port}/${database}${host}`;
  return { url, name, spec: specOf(cluster, { port, socketFolder }), programs };
};
