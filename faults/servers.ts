import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, mkdirSync, openSync, readdirSync, statSync, truncateSync } from 'node:fs';
import path from 'node:path';
import { Client, escapeIdentifier } from 'pg';
import { controlMigrations } from '#domain/control-schema.ts';
import { migrate } from '#lib/migrate.ts';
import { StartError } from '#scripts/errors.ts';
import { providePostgres } from '#scripts/infra/postgres.ts';
import { provideRedis } from '#scripts/infra/redis.ts';
import type { Site } from '#scripts/infra/site.ts';
import type { ProcessSpec } from '#scripts/processes.ts';
import type { Surroundings } from '#scripts/with-stack.ts';
import { createWitness } from './witness.ts';

/** A server of our own that scenarios kill, halt and start again. */
export interface Server {
  readonly start: () => Promise<void>;
  /** Resolves when it has ended. */
  readonly end: (signal: NodeJS.Signals) => Promise<void>;
  readonly pid: () => number;
  /** For SIGSTOP and SIGCONT. */
  readonly signal: (signal: NodeJS.Signals) => void;
}

const startWithinMs = 60_000;

/** @throws {StartError} when it ended instead: somebody may have taken its port since it was chosen */
const untilReady = async (
  { name, ready, logFile }: ProcessSpec,
  child: ChildProcess,
  { gone, stopped }: { readonly gone: Promise<void>; readonly stopped: AbortSignal },
): Promise<void> => {
  const ended = new AbortController();
  void gone.then(() => ended.abort());
  try {
    await ready(child, AbortSignal.any([AbortSignal.timeout(startWithinMs), stopped, ended.signal]));
  } catch (error) {
    if (!ended.signal.aborted || stopped.aborted) throw error;
    throw new StartError(`${name} ended while it started${logFile === undefined ? '' : `; ${logFile} may say why`}.`);
  }
};

export const serverOf = ({ stack }: Surroundings, spec: ProcessSpec): Server => {
  let child: ChildProcess | undefined;
  let gone = Promise.resolve();
  return {
    start: async () => {
      const log = openSync(spec.logFile ?? path.join(spec.cwd, `${spec.name}.log`), 'a', 0o600);
      const { env, cwd, uid, gid } = spec;
      const account = { ...(uid !== undefined && { uid }), ...(gid !== undefined && { gid }) };
      child = spawn(spec.command, spec.args, { env, cwd, stdio: ['ignore', log, log], detached: true, ...account });
      closeSync(log);
      gone = stack.attend(spec.name, child).then(
        () => undefined,
        () => undefined,
      );
      await untilReady(spec, child, { gone, stopped: stack.signal });
    },
    end: async (signal) => {
      child?.kill(signal);
      await gone;
      spec.afterDeath?.();
    },
    pid: () => child?.pid ?? 0,
    signal: (signal) => void child?.kill(signal),
  };
};

export interface FaultServers {
  readonly postgres: Server;
  readonly redis: Server;
  readonly redisUrl: string;
  readonly witnessUrl: string;
  /** A database with the platform's tables; answers its URL. */
  readonly createDatabase: (name: string) => Promise<string>;
  /** Redis loses the last part of what it wrote, as a machine that lost its power does. */
  readonly cutAof: (bytes: number) => void;
}

const template = 'faults_template';

const urlOf = (serverUrl: string, database: string): string => {
  const url = new URL(serverUrl);
  url.pathname = `/${database}`;
  return url.href;
};

export const runOn = async (url: string, sql: string): Promise<void> => {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(sql);
  } finally {
    await client.end();
  }
};

/** The template of every scenario's database. */
export const createTemplate = async (serverUrl: string): Promise<void> => {
  await runOn(serverUrl, `create database ${template}`);
  await migrate(urlOf(serverUrl, template), controlMigrations);
};

export const databaseMaker =
  (serverUrl: string, where = ''): FaultServers['createDatabase'] =>
  async (name) => {
    await runOn(serverUrl, `create database ${escapeIdentifier(name)} template ${template} ${where}`);
    return urlOf(serverUrl, name);
  };

const numberOf = (name: string): number => Number(/\.(\d+)\.incr\.aof$/.exec(name)?.[1] ?? 0);

/** The part of the append-only file that is being written to. */
const newestAof = (folder: string): string => {
  const files = readdirSync(folder).filter((name) => name.endsWith('.incr.aof'));
  const newest = files.toSorted((a, b) => numberOf(b) - numberOf(a))[0];
  if (newest === undefined) throw new Error(`there is no append-only file in ${folder}`);
  return path.join(folder, newest);
};

const cutEnd = (file: string, bytes: number): void => truncateSync(file, Math.max(0, statSync(file).size - bytes));

export const placeBeside = (site: Site, name: string, durable: boolean): Site => {
  const dataDir = path.join(site.dataDir, name);
  mkdirSync(dataDir, { recursive: true });
  return { ...site, dataDir, durable };
};

/** A Postgres and a Redis that keep what they say they keep, and a second Postgres for the witness. */
export const startServers = async (surroundings: Surroundings): Promise<FaultServers> => {
  const { site } = surroundings;
  const durable = placeBeside(site, 'servers', true);
  const [subject, other, store] = [
    await providePostgres(durable),
    await providePostgres(placeBeside(site, 'witness', false)),
    await provideRedis(durable),
  ];
  const postgres = serverOf(surroundings, subject.spec);
  const redis = serverOf(surroundings, store.spec);
  const witness = serverOf(surroundings, { ...other.spec, name: 'witness' });
  await Promise.all([postgres.start(), redis.start(), witness.start()]);
  await Promise.all([createTemplate(subject.url), createWitness(other.url)]);
  return {
    postgres,
    redis,
    redisUrl: store.url,
    witnessUrl: other.url,
    createDatabase: databaseMaker(subject.url),
    cutAof: (bytes) => cutEnd(newestAof(path.join(durable.dataDir, 'redis/appendonlydir')), bytes),
  };
};
