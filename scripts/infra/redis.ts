import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import path from 'node:path';
import { StartError } from '../errors.ts';
import { passwordIn } from '../made-secrets.ts';
import { type ProcessSpec, readyWhen } from '../processes.ts';
import { download, hasApt, libraryFolders, unpack } from './apt.ts';
import { trimLog } from './logs.ts';
import { freePortAnywhere, freePortFrom } from './ports.ts';
import type { Site } from './site.ts';
import { makeSocketFolder } from './socket-folder.ts';
import { onWorkbench, publish } from './workbench.ts';

interface RedisProgram {
  readonly command: string;
  readonly env: NodeJS.ProcessEnv;
  /** For the person, e.g. `redis-server 7.0`. */
  readonly name: string;
}

export interface ProvidedRedis {
  readonly url: string;
  readonly name: string;
  readonly spec: ProcessSpec;
}

const programNames = ['valkey-server', 'redis-server'];
const firstPort = 16_379;

const isRecentEnough = (major: number, minor: number): boolean => major > 6 || (major === 6 && minor >= 2);

const tryProgram = async (site: Site, command: string, env: NodeJS.ProcessEnv): Promise<RedisProgram | null> => {
  const words = await site.run(command, ['--version'], { env }).catch(() => '');
  const [, major, minor] = /v=(\d+)\.(\d+)/.exec(words) ?? [];
  if (major === undefined || !isRecentEnough(Number(major), Number(minor))) return null;
  return { command, env, name: `${path.basename(command)} ${major}.${minor}` };
};

const unpackedProgram = async (site: Site, folder: string): Promise<RedisProgram | null> => {
  const env = { ...process.env, LD_LIBRARY_PATH: libraryFolders(folder).join(':') };
  for (const name of programNames) {
    const command = path.join(folder, 'usr/bin', name);
    const program = existsSync(command) ? await tryProgram(site, command, env) : null;
    if (program !== null) return program;
  }
  return null;
};

const fetchInto = (site: Site, place: string): Promise<void> =>
  onWorkbench(site.runtimeDir, 'redis', async (bench) => {
    const unpacked = path.join(bench, 'unpacked');
    await unpack(site.run, await download({ folder: bench, run: site.run }, 'redis-server'), unpacked);
    publish(unpacked, place);
  });

const help = process.platform === 'darwin' ? 'brew install redis' : 'sudo apt-get install redis-server';
const missing = (why: string): StartError =>
  new StartError(
    `No Redis 6.2 or newer (or Valkey) could be found${why}: run \`${help}\`, or set REDIS_URL to one that runs.`,
  );

const fetchProgram = async (site: Site): Promise<RedisProgram> => {
  const place = path.join(site.runtimeDir, 'redis');
  if (!existsSync(place)) {
    if (!hasApt()) throw missing('');
    try {
      await site.narrator.during('fetching Redis', () => fetchInto(site, place));
    } catch (error) {
      throw missing(` or fetched (${error instanceof Error ? error.message : String(error)})`);
    }
  }
  const program = await unpackedProgram(site, place);
  if (program !== null) return program;
  rmSync(place, { recursive: true, force: true });
  throw missing(' (the package that was fetched does not run here)');
};

const findProgram = async (site: Site): Promise<RedisProgram> => {
  for (const name of programNames) {
    const program = await tryProgram(site, name, process.env);
    if (program !== null) return program;
  }
  return fetchProgram(site);
};

const quoted = (text: string): string => `"${text.replaceAll(/["\\]/g, String.raw`\$&`)}"`;

interface Place {
  readonly folder: string;
  readonly port: number;
  readonly socket: string | null;
}

const configuration = (site: Site, { folder, port, socket }: Place, password: string): string =>
  [
    'bind 127.0.0.1',
    `port ${port}`,
    ...(socket === null ? [] : [`unixsocket ${quoted(socket)}`, 'unixsocketperm 700']),
    `requirepass ${password}`,
    `dir ${quoted(folder)}`,
    `appendonly ${site.durable ? 'yes' : 'no'}`,
    'appendfsync everysec',
    'save ""',
    'maxmemory-policy noeviction',
    'daemonize no',
    '',
  ].join('\n');

/** Whether the server answers a PING; one that still loads its data does not yet. */
const answers = (port: number, password: string): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(`AUTH ${password}\r\nPING\r\n`));
    let reply = '';
    const finish = (serves: boolean): void => {
      socket.destroy();
      resolve(serves);
    };
    socket.setTimeout(2000, () => finish(false));
    socket.on('error', () => finish(false));
    socket.on('close', () => finish(false));
    socket.on('data', (chunk) => {
      reply += chunk.toString();
      if (reply.includes('+PONG')) finish(true);
      else if (/^-/m.test(reply)) finish(false);
    });
  });

/** Finds a Redis program and prepares a private instance: loopback, password, append-only file. */
export const provideRedis = async (site: Site): Promise<ProvidedRedis> => {
  const program = await findProgram(site);
  const folder = path.join(site.dataDir, 'redis');
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const password = passwordIn(site.dataDir, 'redis-password').value;
  const port = await (site.throwaway ? freePortAnywhere() : freePortFrom(firstPort));
  const config = path.join(site.dataDir, 'redis.conf');
  const logFile = path.join(site.dataDir, 'redis.log');
  const socketFolder = makeSocketFolder(site.dataDir, 'redis');
  const socket = socketFolder && path.join(socketFolder, 'redis.sock');
  writeFileSync(config, configuration(site, { folder, port, socket }, password), { mode: 0o600 });
  trimLog(logFile);
  const spec: ProcessSpec = {
    name: 'redis',
    stage: 'infra',
    command: program.command,
    args: [config],
    env: program.env,
    cwd: site.dataDir,
    logFile,
    port,
    stopSignal: 'SIGTERM',
    stopWithinMs: 10_000,
    ready: (_child, signal) => readyWhen(() => answers(port, password), signal),
  };
  // ioredis connects to the path in the query; the address in front of it serves programs that know TCP only.
  const url = `redis://:${password}@127.0.0.1:${port}/0${socket === null ? '' : `?path=${encodeURIComponent(socket)}`}`;
  return { url, name: `${program.name} on port ${port}`, spec };
};
