import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { provideRedis } from '#scripts/infra/redis.ts';
import type { Surroundings } from '#scripts/with-stack.ts';
import type { Stage } from '../scene.ts';
import { type FaultServers, placeBeside, serverOf } from '../servers.ts';
import { amidst, answered, underLoad } from './load.ts';
import type { Scenario } from './scenario.ts';

/** Passes new connections on to its present target. Those that there are stay where they are. */
const startProxy = async (first: number) => {
  let target = first;
  const server = createServer((client) => {
    const upstream = connect(target, '127.0.0.1');
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      socket.unref().setNoDelay(true);
      socket.on('error', () => undefined);
      socket.on('close', () => other.destroy());
      socket.pipe(other);
    }
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  // It serves until the process ends, and does not keep it.
  server.unref();
  return {
    port: (server.address() as AddressInfo).port,
    moveTo: (port: number): void => {
      target = port;
    },
  };
};

interface Pair extends FaultServers {
  /** The replica becomes the master, the master its replica. Connections to the old master stay open. */
  readonly failOver: () => Promise<void>;
}

const portOf = (url: string): number => Number(new URL(url).port);

const startRedis = async (surroundings: Surroundings, name: string) => {
  const { spec, url } = await provideRedis(placeBeside(surroundings.site, name, true));
  const server = serverOf(surroundings, { ...spec, name });
  await server.start();
  return { server, port: portOf(url), password: new URL(url).password, commands: new Redis(url) };
};

type Instance = Awaited<ReturnType<typeof startRedis>>;

const replicaOf = async (replica: Instance, master: Instance): Promise<void> => {
  await replica.commands.config('SET', 'masterauth', master.password);
  await replica.commands.replicaof('127.0.0.1', String(master.port));
};

const inSync = async ({ commands }: Instance): Promise<void> => {
  while (!(await commands.info('replication')).includes('master_link_status:up')) await pause(50);
};

const startPair = async (surroundings: Surroundings, others: FaultServers): Promise<Pair> => {
  const [first, second] = [await startRedis(surroundings, 'redis-1'), await startRedis(surroundings, 'redis-2')];
  await replicaOf(second, first);
  await inSync(second);
  await second.commands.config('SET', 'requirepass', first.password);
  const proxy = await startProxy(first.port);
  return {
    ...others,
    redis: first.server,
    redisUrl: `redis://:${first.password}@127.0.0.1:${proxy.port}/0`,
    failOver: async () => {
      await second.commands.replicaof('NO', 'ONE');
      proxy.moveTo(second.port);
      await first.commands.config('SET', 'masterauth', first.password);
      await first.commands.replicaof('127.0.0.1', String(second.port));
      for (const { commands } of [first, second]) commands.disconnect();
    },
  };
};

const failover = (): Scenario => {
  let pair: Pair | undefined;
  return {
    name: 'Redis failover',
    did: 'the replica of Redis is promoted behind a TCP proxy under load, and the old master becomes its replica: connections to it stay open',
    servers: async ({ surroundings, servers }: Stage) => (pair = await startPair(surroundings, servers)),
    run: async (scene) => {
      await scene.startWorkers(3);
      const load = [...(await underLoad(scene)), await scene.produce({ count: 12, everyMs: 80, workMs: 2500 })];
      await amidst(800);
      scene.faultBegins();
      await pair?.failOver();
      scene.faultIsOver();
      await answered(load);
      const refused = scene.journal().filter(({ what }) => what === 'refused').length;
      // Two connections of a process may each be refused once, and what asked at the same moment.
      return refused <= 60 ? [] : [`${refused} requests were refused: the connections were not made anew`];
    },
  };
};

export const failoverScenarios: readonly Scenario[] = [failover()];
