import { readFileSync } from 'node:fs';
import path from 'node:path';
import type { Redis } from 'ioredis';
import { requireMaster, serverIdOf } from '#lib/redis.ts';
import { bullmqAdd, knownScript } from './bullmq-add.ts';

const folder = path.join(import.meta.dirname, 'lua');
const names = [
  'admit',
  'finish',
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

type Command = (gateKeys: string, bullKeys: string, ...args: (string | number)[]) => Promise<unknown>;

const commandOf = (name: ScriptName): string => `plinthGate${name}`;

/** Makes the gate's scripts commands of this connection; they travel by hash once the server knows them. */
const defineScripts = (redis: Redis, bullmqScript: string | null): void => {
  const prelude = bullmqAdd(bullmqScript) + textOf('prelude');
  for (const name of names) {
    redis.defineCommand(commandOf(name), { numberOfKeys: 2, lua: `${prelude}\n${textOf(name)}` });
  }
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
  readonly run: (name: ScriptName, keys: ShardKeys, args: readonly (string | number)[]) => Promise<unknown>;
  readonly serverId: () => Promise<string>;
}

/** @param bullmqScript null: jobs are added through BullMQ's public interface */
export const scriptsOn = (redis: Redis, bullmqScript = knownScript()): Scripts => {
  defineScripts(redis, bullmqScript);
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
