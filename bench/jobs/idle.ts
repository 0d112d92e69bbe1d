import { setTimeout as delay } from 'node:timers/promises';
import type { Benchmark } from '../harness.ts';
import { cpuSeconds } from '../proc.ts';
import { onControlDatabase } from './database.ts';
import { planOf, removeKeys } from './round.ts';

const settleMs = 15_000;
const watchMs = 20_000;

/** An API and a worker of their own with nothing to do. */
export const idleCpu: Benchmark = {
  name: 'jobs/idle-cpu',
  run: (bench) =>
    onControlDatabase(bench, async (databaseUrl) => {
      const { prefix } = planOf(bench, { way: 'engine', slots: 1, limit: 1, workMs: 0 });
      const env = { DATABASE_URL: databaseUrl, PLINTH_REDIS_PREFIX: prefix, PLINTH_LOG_FORMAT: 'json' };
      const api = await bench.servers.start({ name: 'idle-api', file: 'api/server.ts', env });
      const worker = await bench.servers.start({
        name: 'idle-worker',
        file: 'workers/server.ts',
        env,
        nodeArgs: ['--no-node-snapshot'],
      });
      try {
        await delay(settleMs);
        const before = [cpuSeconds(api.pid), cpuSeconds(worker.pid)] as const;
        await delay(watchMs);
        const used = (pid: number, since: number): number => ((cpuSeconds(pid) - since) / watchMs) * 100_000;
        const [ofApi, ofWorker] = [used(api.pid, before[0]), used(worker.pid, before[1])];
        return [
          {
            name: 'CPU of an idle API and an idle worker',
            ours: { value: ofApi + ofWorker, unit: '% of a core' },
            target: { of: 'ours', atMost: 1 },
            notes: [
              `over ${watchMs / 1000} s, ${settleMs / 1000} s after they started`,
              `API ${ofApi.toFixed(2)} %, worker ${ofWorker.toFixed(2)} %`,
            ],
          },
        ];
      } finally {
        await Promise.all([api.stop(), worker.stop()]);
        await removeKeys(bench, prefix);
      }
    }),
};
