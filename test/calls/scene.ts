import path from 'node:path';
import type { TestFn } from 'ava';
import { type Client, createClient } from '#test/support/client.ts';
import { type TestPlatform, usePlatform } from '#test/support/platform.ts';
import { type PlatformProcess, environmentOf, startProcess } from '#test/support/processes.ts';
import { monitorRedis } from '#test/support/redis-monitor.ts';
import type { Traffic } from './count-traffic.ts';

const root = path.join(import.meta.dirname, '../..');
const counting = `--import=${path.join(import.meta.dirname, 'count-traffic.ts')}`;

/**
 * One API and two workers as processes of their own, as `npm start` has them, and the traffic between them and their
 * servers.
 */
export interface CallScene {
  readonly client: Client;
  /**
   * Returns the events since the previous call, of the API, of the workers, and of Redis (commands of scripts, too).
   */
  readonly traffic: () => Promise<Readonly<Record<'api' | 'workers' | 'redis', Traffic>>>;
}

const trafficOf = ({ child }: PlatformProcess): Promise<Traffic> =>
  new Promise((resolve) => {
    const onMessage = (message: unknown): void => {
      const { traffic } = message as { readonly traffic?: Traffic };
      if (traffic === undefined) return;
      child.off('message', onMessage);
      resolve(traffic);
    };
    child.on('message', onMessage);
    child.send('traffic');
  });

/** Every command that names a key of this platform. */
const watchRedis = async ({ config }: TestPlatform): Promise<{ seen: [number, string][]; stop: () => void }> => {
  const seen: [number, string][] = [];
  const stop = await monitorRedis(config.REDIS_URL, ({ args, isInScript }) => {
    if (!args.some((arg) => arg.includes(config.PLINTH_REDIS_PREFIX))) return;
    seen.push([performance.timeOrigin + performance.now(), `${isInScript ? 'in a script' : 'command'} ${args[0]}`]);
  });
  return { seen, stop };
};

/** For all tests of a file; `scene()` gives it once the first test runs. */
export const useCallScene = (test: TestFn): (() => CallScene) => {
  const platform = usePlatform(test, { worker: false });
  let scene: CallScene | undefined;
  const stops: (() => unknown)[] = [];

  test.serial.before('the processes start', async () => {
    const env = { ...environmentOf(platform().config), NODE_OPTIONS: counting };
    const start = (script: string, name: string): PlatformProcess => {
      const started = startProcess(path.join(root, script), { ...env, PLINTH_WORKER_NAME: name });
      stops.push(() => (started.child.kill('SIGTERM'), started.end));
      return started;
    };
    const api = start('api/server.ts', 'api');
    const workers = [start('workers/server.ts', 'worker-1'), start('workers/server.ts', 'worker-2')];
    const [{ port }] = await Promise.all([api.ready, ...workers.map(({ ready }) => ready)]);
    const redis = await watchRedis(platform());
    stops.push(redis.stop);
    scene = {
      client: createClient(`http://127.0.0.1:${port}`),
      traffic: async () => {
        const [ofApi, ...ofWorkers] = await Promise.all([api, ...workers].map(trafficOf));
        return { api: ofApi ?? [], workers: ofWorkers.flat(), redis: redis.seen.splice(0) };
      },
    };
  });
  test.after.always('the processes end', async () => {
    await Promise.all(stops.map((stop) => stop()));
  });

  return () => {
    if (scene === undefined) throw new Error('the processes have not started');
    return scene;
  };
};
