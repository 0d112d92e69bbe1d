import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { freePortAnywhere } from '#scripts/infra/ports.ts';
import { createCluster, serverEnvironment, user } from '#scripts/infra/postgres-cluster.ts';
import { type PostgresPrograms, findPrograms } from '#scripts/infra/postgres-programs.ts';
import type { Site } from '#scripts/infra/site.ts';
import { giveTo, unprivileged } from '#scripts/infra/unprivileged.ts';
import { narrateTo } from '#scripts/narrator.ts';
import { programRunner } from '#scripts/run-program.ts';
import { until } from '#test/support/until.ts';

const root = path.join(import.meta.dirname, '../..');

/** The major version of the `pg_dump` that is on PATH; null when there is none. */
export const dumpMajor = (): number | null => {
  try {
    return Number(/(\d+)/.exec(execFileSync('pg_dump', ['--version'], { encoding: 'utf8' }))?.[1]);
  } catch {
    return null;
  }
};

const siteIn = (dataDir: string): Site => {
  const { signal } = new AbortController();
  return {
    root,
    dataDir,
    runtimeDir: path.join(root, '.data/runtime'),
    throwaway: true,
    durable: false,
    narrator: narrateTo(process.stderr),
    run: programRunner({ signal, began: () => undefined, ended: () => undefined }),
    signal,
  };
};

/** A server whose databases that `pg_dump` can dump: of its own installation, else the one that the tests run on. */
const programsFor = async (site: Site, major: number): Promise<PostgresPrograms | null> => {
  const bin = `/usr/lib/postgresql/${major}/bin`;
  if (existsSync(path.join(bin, 'initdb'))) return { major, bin, library: '', extensions: '', isEmbedded: false };
  const others = await findPrograms(site, path.join(site.dataDir, 'none'));
  return others.major <= major ? others : null;
};

export interface TestServer {
  readonly host: string;
  readonly port: number;
  readonly password: string;
  readonly url: (name: string) => string;
  readonly stop: () => Promise<void>;
}

const isReady = (data: string): boolean => {
  const file = path.join(data, 'postmaster.pid');
  return existsSync(file) && readFileSync(file, 'utf8').split('\n')[7]?.trim() === 'ready';
};

const settings = (port: number): string[] =>
  [
    'listen_addresses=127.0.0.1',
    'unix_socket_directories=',
    `port=${port}`,
    'max_connections=120',
    'shared_buffers=32MB',
    'fsync=off',
    'log_min_messages=panic',
  ].flatMap((setting) => ['-c', setting]);

const ended = async (child: ChildProcess): Promise<void> => {
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
};

/** A PostgreSQL server of its own, gone with its data when it is stopped; null where none fits this `pg_dump`. */
export const startServer = async (major: number, password: string): Promise<TestServer | null> => {
  const dataDir = mkdtempSync(path.join(tmpdir(), 'plinth-backup-'));
  const site = siteIn(dataDir);
  const programs = await programsFor(site, major);
  if (programs === null) {
    rmSync(dataDir, { recursive: true });
    return null;
  }
  const account = await unprivileged(site.run, [programs.bin]);
  mkdirSync(dataDir, { recursive: true });
  giveTo(dataDir, account.owner);
  const data = path.join(dataDir, 'postgres');
  await createCluster({ site, programs, account, data, password });
  const port = await freePortAnywhere();
  const [command, ...args] = [...account.prefix, path.join(programs.bin, 'postgres'), '-D', data];
  const child = spawn(command, [...args, ...settings(port)], {
    cwd: data,
    env: serverEnvironment(),
    stdio: 'ignore',
    ...(account.uid !== undefined && { uid: account.uid }),
    ...(account.gid !== undefined && { gid: account.gid }),
  });
  // Not even a test process that ends before its hooks leaves a server behind.
  const end = (): void => void child.kill('SIGQUIT');
  process.once('exit', end);
  await until(() => isReady(data));
  return {
    host: '127.0.0.1',
    port,
    password,
    url: (name) => `postgres://${user}:${password}@127.0.0.1:${port}/${name}`,
    stop: async () => {
      child.kill('SIGINT');
      await ended(child);
      process.off('exit', end);
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
};

export { user as serverUser };
