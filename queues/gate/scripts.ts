import { readFileSync } from 'node:fs';
import path from 'node:path';
import type { Redis } from 'ioredis';
import { requireMaster, serverIdOf } from '#lib/redis.ts';
import { type BullmqScripts, bullmqFunction, knownScripts } from './bullmq-scripts.ts';

const folder = path.join(import.meta.dirname, 'lua');
const names = [
  'admit',
  'finish',
  'end',
  'renew',
  'withdraw',
  'drop',
  'limits',
  'pauses',
  'global',
  'beat',
  'restore',
  'place',
  'forget',
] as const;
export type ScriptName = (typeof names)[number];

const textOf = (name: string): string => readFileSync(path.join(folder, `${name}.lua`), 'utf8');

export type ScriptArgument = string | number | Buffer;
type Command = (gateKeys: string, bullKeys: string, ...args: ScriptArgument[]) => Promise<unknown>;

const commandOf = (name: ScriptName): string => `plinthGate${name}`;

/** Makes the gate's scripts commands of this connection; they travel by hash once the server knows them. */
const defineScripts = (redis: Redis, bullmq: BullmqScripts | null): void => {
  const prelude = bullmqFunction('bull_add', bullmq?.addStandardJob) + textOf('prelude');
  const finish = bullmqFunction('bull_finish', bullmq?.moveToFinished) + textOf('next');
  for (const name of names) {
    const lua = [...(name === 'end' ? [finish] : []), prelude, textOf(name)].join('\n');
    redis.defineCommand(commandOf(name), { numberOfKeys: 2, lua });
  }
};

const takeCommand = 'plinthGateTake';
const keysOfTake = 11;

/** BullMQ's answer to a worker that asks for a job. */
export interface Taken {
  /** As BullMQ's script answers it. */
  readonly job: unknown;
  /** Whether the job still holds the lease under which it was handed over. */
  readonly isHeld: boolean;
  /** Nothing waits behind it. */
  readonly isLast: boolean;
}

/** The answer to those who take a job, or end one and take the next. */
export const takenFrom = ([job, held, isEmpty]: readonly unknown[]): Taken => ({
  job,
  isHeld: held === 1,
  isLast: isEmpty === 1,
});

/**
 * The script that takes a job, as a command of the worker's own connection.
 * @returns null with a BullMQ that is not known
 */
export const takeOn = (
  redis: Redis,
  bullmq = knownScripts(),
): ((args: readonly ScriptArgument[], gateKeys: string) => Promise<Taken>) | null => {
  if (bullmq === null) return null;
  const lua = [bullmqFunction('bull_take', bullmq.moveToActive), textOf('next'), textOf('take')].join('\n');
  redis.defineCommand(takeCommand, { numberOfKeys: keysOfTake, lua });
  const commands = redis as unknown as Readonly<Record<string, (...args: ScriptArgument[]) => Promise<unknown[]>>>;
  return async (args, gateKeys) => {
    const command = commands[takeCommand];
    if (command === undefined) throw new Error('the script that takes a job is not defined');
    return takenFrom(await command.call(redis, ...args, gateKeys));
  };
};

/** Below the pause between two heartbeats, so that each of them asks. */
const knownForMs = 900;

/**
 * Which server is behind the connection, asked again for each heartbeat and at least once a second while scripts run: a
 * proxy may keep the connection and move it to another server. One answer is shared by all shards of the process.
 * @throws {Error} when the server is a replica
 */
const createServerId = (redis: Redis): (() => Promise<string>) => {
  let known: { readonly id: Promise<string>; readonly until: number } | undefined;
  const read = async (): Promise<string> => {
    const [id] = await Promise.all([serverIdOf(redis), requireMaster(redis)]);
    return id;
  };
  redis.on('close', () => (known = undefined));
  return () => {
    if (known === undefined || performance.now() >= known.until) {
      const pending = { id: read(), until: performance.now() + knownForMs };
      known = pending;
      pending.id.catch(() => {
        if (known === pending) known = undefined;
      });
    }
    return known.id;
  };
};

/** Where a shard's keys begin: the gate's, and those of its BullMQ queue. */
interface ShardKeys {
  readonly gate: string;
  readonly bull: string;
}

export interface Scripts {
  /** Runs one script on one shard. */
  readonly run: (name: ScriptName, keys: ShardKeys, args: readonly ScriptArgument[]) => Promise<unknown>;
  readonly serverId: () => Promise<string>;
}

/** @param bullmq null: jobs go through BullMQ's public interface */
export const scriptsOn = (redis: Redis, bullmq = knownScripts()): Scripts => {
  defineScripts(redis, bullmq);
  const serverId = createServerId(redis);
  const commands = redis as unknown as Readonly<Record<string, Command>>;
  return {
    serverId,
    run: async (name, keys, args) => {
      const command = commands[commandOf(name)];
      if (command === undefined) throw new Error(`no script ${name}`);
      return command.call(redis, keys.gate, keys.bull, await serverId(), ...args);
    },
  };
};
